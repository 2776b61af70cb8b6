"""Reads loosely written JSON and YAML, and collects every problem with its path.

Inventories come from several generations of tools: keys in two spellings, numbers as text, keys in
any case. A `Fields` looks a value up by all its names, checks it, and on trouble adds a `Problem`
and goes on with the default, so that a user sees all problems of a file at once.
"""

from collections.abc import Iterator, Mapping, Sized
from typing import TypeAlias

import msgspec

EXACT = 1 << 53
"""Whole numbers below it are the same as a float."""
PROBLEMS = 1000
"""How many are told of one document."""
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, and where: `sites.json: sites[3].region: is missing`."""

    path: str
    text: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        return f"{where}{self.path}: {self.text}" if self.path else f"{where}{self.text}"


class Fields:
    """One object being read; all readers of a document share the list of problems."""

    __slots__ = ("_values", "file", "path", "problems")

    def __init__(
        self, value: Json, problems: list[Problem], path: str = "", file: str = ""
    ) -> None:
        self.path = path
        self.file = file
        self.problems = problems
        self._values: dict[str, Json] = {}
        if isinstance(value, dict):
            self._values = {key.lower(): item for key, item in value.items()}
            if len(self._values) < len(value):  # of two spellings the first counts
                self._values = {key.lower(): item for key, item in reversed(value.items())}
        elif value is not None:
            self.problem("", f"expected an object, got {_kind(value)}")

    def problem(self, name: str, text: str) -> None:
        """Add a problem with a field of this object (or with the object itself)."""
        if len(self.problems) < PROBLEMS:
            self.problems.append(Problem(self._path(name), text, self.file))

    def _path(self, name: str) -> str:
        if not name:
            return self.path
        return f"{self.path}.{name}" if self.path else name

    @property
    def everything(self) -> dict[str, Json]:
        """All fields, keys in lower case."""
        return dict(self._values)

    def has(self, *names: str) -> bool:
        return self._find(names)[1] is not None

    def raw(self, *names: str) -> Json:
        """The value as it is, None when it is absent."""
        return self._find(names)[1]

    def __bool__(self) -> bool:
        return bool(self._values)

    def _find(self, names: tuple[str, ...]) -> tuple[str, Json]:
        if values := self._values:
            for name in names:
                value = values.get(name.lower())
                if value is not None:
                    return name, value
        return names[0], None

    def text(self, *names: str, default: str = "", required: bool = False) -> str:
        name, value = self._find(names)
        if isinstance(value, str):
            if required and not value:
                self.problem(name, "must not be empty")
            return value
        if isinstance(value, bool):
            self.problem(name, "expected text, got a boolean")
        elif isinstance(value, int | float):
            return str(value)
        elif value is not None:
            self.problem(name, f"expected text, got {_kind(value)}")
        elif required:
            self.problem(name, "is missing")
        return default

    def integer(self, *names: str, default: int = 0, least: int | None = None) -> int:
        value = self._find(names)[1]
        if type(value) is int and abs(value) < EXACT and (least is None or value >= least):
            return value
        if value is None:
            return default
        number = self.number(*names, default=default, least=least)
        if number != int(number):
            self.problem(self._find(names)[0], f"expected a whole number, got {number:g}")
        if abs(number) >= EXACT:
            self.problem(self._find(names)[0], f"must be below {EXACT}, got {number:g}")
            return default
        return int(number)

    def whole(self, name: str, amount: float) -> int:
        """An amount that was worked out from a field, cut to a whole number."""
        if amount >= EXACT:
            self.problem(name, f"must be below {EXACT}, got {amount:g}")
            return 0
        return int(amount)

    def number(self, *names: str, default: float = 0.0, least: float | None = None) -> float:
        name, value = self._find(names)
        if value is None or value == "":
            return default
        try:
            if isinstance(value, bool | list | dict):
                raise ValueError(value)
            number = float(value)
        except (ValueError, OverflowError):  # the latter: a whole number beyond any float
            self.problem(name, f"expected a number, got {_show(value)}")
            return default
        if number != number or number in (float("inf"), float("-inf")):
            self.problem(name, f"expected a number, got {_show(value)}")
            return default
        if least is not None and number < least:
            self.problem(name, f"must be at least {least:g}, got {number:g}")
            return default
        return number

    def boolean(self, *names: str) -> bool:
        name, value = self._find(names)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.problem(name, f"expected true or false, got {_show(value)}")
        return False

    def object(self, *names: str) -> "Fields":
        """A nested object; empty when it is absent."""
        name, value = self._find(names)
        path = f"{self.path}.{name}" if self.path else name
        return Fields(value, self.problems, path, self.file)

    def items(
        self, *names: str, required: bool = False, most: int | None = None
    ) -> Iterator["Fields"]:
        """The objects of a list; none of one that is too long."""
        name, value = self._find(names)
        if value is None:
            if required:
                self.problem(name, "is missing")
            return
        if not isinstance(value, list):
            self.problem(name, f"expected a list, got {_kind(value)}")
            return
        if self._too_long(name, value, most):
            return
        for position, item in enumerate(value):
            yield Fields(item, self.problems, f"{self._path(name)}[{position}]", self.file)

    def _too_long(self, name: str, value: Sized, most: int | None) -> bool:
        if most is None or len(value) <= most:
            return False
        self.problem(name, f"must have at most {most} entries, got {len(value)}")
        return True

    def texts(self, *names: str, most: int | None = None) -> list[str]:
        """A list of texts; empty when it is too long."""
        name, value = self._find(names)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(name, f"expected a list, got {_kind(value)}")
            return []
        if self._too_long(name, value, most):
            return []
        result = []
        for position, item in enumerate(value):
            if isinstance(item, str):
                result.append(item)
            else:
                self.problem(f"{name}[{position}]", f"expected text, got {_kind(item)}")
        return result

    def mapping(self, *names: str, most: int | None = None) -> Mapping[str, Json]:
        """A nested object as it is, with its keys untouched; empty when it is too long."""
        name, value = self._find(names)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(name, f"expected an object, got {_kind(value)}")
            return {}
        return {} if self._too_long(name, value, most) else value


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "nothing"


def _show(value: Json) -> str:
    return f'"{value}"' if isinstance(value, str) else _kind(value)
