"""Problems of a configuration, worded as Kubernetes' field errors.

Each helper returns one text that begins with the path of the field, such as
`profiles[0].schedulerName: Required value`. Validators return lists of them; `InvalidConfig`
carries the whole list, so that a user sees every problem at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bayplan.api.duration import Duration
from bayplan.errors import ConfigError

if TYPE_CHECKING:
    from bayplan.config.types import KubeSchedulerConfiguration


class InvalidConfig(ConfigError):
    """A configuration with one or more problems; `problems` lists them all."""

    def __init__(
        self,
        problems: Sequence[str],
        source: str = "",
        config: KubeSchedulerConfiguration | None = None,
    ) -> None:
        """`source` names the file, where there is one; `config` is what could be read of it."""
        self.config = config
        self.warnings: tuple[str, ...] = ()
        self.problems = tuple(dict.fromkeys(problems))
        text = self.problems[0] if len(self.problems) == 1 else f"[{', '.join(self.problems)}]"
        super().__init__(f'loading configuration "{source}": {text}' if source else text)


def show(value: object) -> str:
    """A bad value as Go prints it in a field error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Duration):
        return f'"{value}"'
    return json.dumps(
        msgspec.to_builtins(value, enc_hook=str), ensure_ascii=False, separators=(",", ":")
    )


def invalid(path: str, value: object, detail: str) -> str:
    return f"{path}: Invalid value: {show(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {show(value)}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: object, supported: Iterable[str]) -> str:
    known = ", ".join(f'"{name}"' for name in supported)
    return f"{path}: Unsupported value: {show(value)}: supported values: {known}"
