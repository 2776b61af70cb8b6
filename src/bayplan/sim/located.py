"""YAML data that knows where it was written, so that every error names file, line and field.

The data itself is read by `bayplan.api.yaml` (Go's rules); a second pass over the same text finds
the line of every value. A `Located` is a value with its path; asking it for something of the
wrong type, or for fields it must not have, raises ScenarioSyntaxError.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml as pyyaml

from bayplan.api import quantity, yaml
from bayplan.errors import BayplanError, DecodeError
from bayplan.sim.errors import ScenarioError, ScenarioSyntaxError
from bayplan.sim.objects import seconds

Key = tuple[str | int, ...]


class Source:
    """A file and the lines of its values."""

    def __init__(self, name: str, lines: dict[Key, int]) -> None:
        self.name = name
        self._lines = lines

    def line(self, path: Key) -> int:
        """Return the line of a value, or of the nearest one around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


class Located:
    """A value of a file."""

    def __init__(self, value: object, source: Source, path: Key = ()) -> None:
        self.value = value
        self.source = source
        self.path = path

    @property
    def line(self) -> int:
        return self.source.line(self.path)

    def error(self, text: str) -> ScenarioSyntaxError:
        """Return an error that says where."""
        where = f"{self.source.name}:{self.line}"
        field = _field(self.path)
        return ScenarioSyntaxError(f"{where}: {field}: {text}" if field else f"{where}: {text}")

    def __contains__(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def __getitem__(self, name: str | int) -> Located:
        value = self.value[name] if name in self else None  # type: ignore[index,operator]
        return Located(value, self.source, (*self.path, name))

    def fields(self, known: Iterable[str], *, required: Iterable[str] = ()) -> Located:
        """Check that this is a map with no other fields than these."""
        if not isinstance(self.value, dict):
            raise self.error(f"must be a map, not {_type(self.value)}")
        names = list(known)
        for name in self.value:
            if name not in names:
                close = difflib.get_close_matches(str(name), names, 1)
                hint = f'did you mean "{close[0]}"?' if close else f"known: {', '.join(names)}"
                raise self[name].error(f"unknown field; {hint}")
        for name in required:
            if name not in self.value:
                raise self.error(f'field "{name}" is missing')
        return self

    def items(self) -> Iterator[Located]:
        """The items of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"must be a list, not {_type(self.value)}")
        for i, value in enumerate(self.value):
            yield Located(value, self.source, (*self.path, i))

    def one_or_more(self) -> list[Located]:
        """The items of a list, or the only one."""
        return list(self.items()) if isinstance(self.value, list) else [self]

    def text(self, default: str | None = None) -> str:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            hint = "; put words such as n, yes and off in quotes" * isinstance(self.value, bool)
            raise self.error(f"must be text, not {_type(self.value)}{hint}")
        return str(self.value)

    def integer(self, default: int | None = None, *, least: int = 0) -> int:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < least:
            raise self.error(f"must be a whole number of at least {least}, not {_show(self.value)}")
        return self.value

    def number(self, default: float | None = None) -> float:
        if self.value is None and default is not None:
            return default
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.error(f"must be a number, not {_show(self.value)}")
        return float(self.value)

    def flag(self, default: bool | None = None) -> bool:
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, bool):
            raise self.error(f"must be true or false, not {_show(self.value)}")
        return self.value

    def quantity(self) -> str | int | float:
        """An amount as Kubernetes writes them: 2, 500m, 4Gi."""
        if not isinstance(self.value, bool) and isinstance(self.value, str | int | float):
            with contextlib.suppress(DecodeError):
                quantity.parse(self.value)
                return self.value
        raise self.error(f"must be an amount such as 2, 500m or 4Gi, not {_show(self.value)}")

    def duration(self, default: float | None = None) -> float:
        if self.value is None and default is not None:
            return default
        try:
            return seconds(self.value)
        except ScenarioError as problem:
            raise self.error(str(problem)) from None

    def choice(self, names: Iterable[str], default: str | None = None) -> str:
        text = self.text(default)
        if text not in (known := list(names)):
            raise self.error(f'"{text}" is not one of {", ".join(known)}')
        return text

    def map(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.error(f"must be a map, not {_type(self.value)}")
        return self.value

    def texts(self) -> list[str]:
        """A list of texts, or the only one."""
        return [item.text() for item in self.one_or_more()]


def load(path: Path) -> list[Located]:
    """Read the documents of a file."""
    try:
        text = path.read_text()
    except OSError as problem:
        raise ScenarioError(f"reading {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise ScenarioSyntaxError(f"{path}: not UTF-8 text: {problem.reason}") from problem
    return parse(text, str(path))


def parse(text: str, name: str) -> list[Located]:
    """Read the documents of a text; `name` is what errors call it."""
    try:
        documents = yaml.load_all(text)
    except DecodeError as problem:
        said = str(problem).removeprefix("yaml: ")
        line, _, rest = said.removeprefix("line ").partition(": ")
        if line.isdigit():
            raise ScenarioSyntaxError(f"{name}:{line}: {rest}") from problem
        raise ScenarioSyntaxError(f"{name}: {said}") from problem
    nodes = [node for node in pyyaml.compose_all(text, Loader=pyyaml.CSafeLoader) if node]
    nodes = [node for node in nodes if node.tag != "tag:yaml.org,2002:null"]
    found = []
    for document, node in zip(documents, nodes, strict=False):
        lines: dict[Key, int] = {}
        _lines(node, (), lines)
        found.append(Located(document, Source(name, lines)))
    return found


def wrap(problem: BayplanError, at: Located) -> ScenarioSyntaxError:
    """Return an error of something inside a field as one that says where."""
    return at.error(str(problem))


def _lines(node: pyyaml.Node, path: Key, lines: dict[Key, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, pyyaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            lines[inner] = key.start_mark.line + 1
            _lines(value, inner, lines)
    elif isinstance(node, pyyaml.SequenceNode):
        for i, value in enumerate(node.value):
            _lines(value, (*path, i), lines)


def _field(path: Key) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _type(value: object) -> str:
    names = {dict: "a map", list: "a list", str: "text", bool: "true or false", type(None): "empty"}
    return names.get(type(value), "a number")


def _show(value: object) -> str:
    return f'"{value}"' if isinstance(value, str | int | float) else _type(value)
