"""Writes a working extender into a new directory: code, tests, the scheduler's configuration."""

from importlib.resources import files
from pathlib import Path

from bayplan.errors import ConfigError


def write(directory: Path) -> list[Path]:
    """Copy the template; refuses to overwrite a file."""
    template = files("bayplan.extender") / "template"
    sources = sorted((s for s in template.iterdir() if s.is_file()), key=lambda s: s.name)
    if taken := [source.name for source in sources if (directory / source.name).exists()]:
        raise ConfigError(f"{directory} has {', '.join(taken)} already; choose an empty directory")
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sources:
        target = directory / source.name
        target.write_bytes(source.read_bytes())
        written.append(target)
    return written
