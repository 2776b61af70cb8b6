"""File paths in volumes and mounts."""

from __future__ import annotations

from bayplan.apiserver.validation.causes import Causes, invalid


def no_backsteps(field: str, path: str) -> Causes:
    if ".." in path.split("/"):
        return [invalid(field, path, "must not contain '..'")]
    return []


def descending(field: str, path: str) -> Causes:
    """Demand a relative path that does not leave its start."""
    causes: Causes = []
    if path.startswith("/"):
        causes.append(invalid(field, path, "must be a relative path"))
    return causes + no_backsteps(field, path)


def non_reserved(field: str, path: str) -> Causes:
    """Demand a descending path whose first element does not start with two dots."""
    causes = descending(field, path)
    if path.startswith("..") and path != ".." and not path.startswith("../"):
        causes.append(invalid(field, path, "must not start with '..'"))
    return causes


def file_mode(field: str, mode: int | None) -> Causes:
    if mode is None or 0 <= mode <= 0o777:
        return []
    text = "must be a number between 0 and 0777 (octal), both inclusive"
    return [invalid(field, mode, text)]
