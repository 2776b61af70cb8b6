"""The scenarios that come with Bayplan, by name."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent / "scenarios"
ENDING = ".scenario.yaml"


def paths() -> list[Path]:
    """Return the files, in the order in which they are best read."""
    return sorted(DIRECTORY.glob(f"*{ENDING}"))


def names() -> list[str]:
    return [_name(path) for path in paths()]


def path_of(name: str) -> Path | None:
    """Return the file of a scenario, with or without its number."""
    for path in paths():
        if name in (_name(path), path.name, path.name.removesuffix(ENDING)):
            return path
    return None


def _name(path: Path) -> str:
    return path.name.removesuffix(ENDING).partition("-")[2]
