"""Puts a mutant into running code, and into the programs that tests start.

A live function is given the changed body; whatever refers to the function then runs it. A module
that is only loaded while a test runs is changed as it is loaded. Programs started later read
`BAYPLAN_MUTANT` in `site/sitecustomize.py` and load the changed source.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.operators import mutated

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent / "site"
VARIABLE = "BAYPLAN_MUTANT"
Place = tuple[str, int, tuple[object, ...]]


def plant(path: Path, index: int) -> int:
    """Make change number `index` of a loaded file; return how many functions are different now."""
    code = compile(mutated(path.read_text("utf-8"), index), str(path), "exec")
    bodies = {_place(body): body for body in _bodies(code)}
    count = 0
    gc.unfreeze()  # what is frozen is not told
    for item in gc.get_objects():
        if isinstance(item, FunctionType) and item.__code__.co_filename == str(path):
            body = bodies.get(_place(item.__code__))
            if body is not None and body != item.__code__:
                # One made before whose variables of outer functions are others now stays: its
                # maker has the changed body, too.
                if len(body.co_freevars) == len(item.__code__.co_freevars):
                    item.__code__ = body
                count += 1
    _tell_programs(path, index)
    if not any(getattr(m, "__file__", None) == str(path) for m in list(sys.modules.values())):
        sys.meta_path.insert(0, _Finder(str(path), index))  # loaded later, and then changed
        count += 1
    return count


def _bodies(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _bodies(constant)


def _place(code: CodeType) -> Place:
    """Tell functions of a file apart; those without a name in one line by what they use.

    What a function uses is no part of its name else: a fault may take some of it away.
    """
    used = (code.co_varnames, code.co_freevars) if code.co_name.startswith("<") else ()
    return code.co_qualname, code.co_firstlineno, used


def _tell_programs(path: Path, index: int) -> None:
    os.environ[VARIABLE] = f"{path}:{index}"
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), str(ROOT), before]))


def install_from_environment() -> None:
    """In a program that a test starts: load one module with the change."""
    given = os.environ.get(VARIABLE, "")
    if given:
        path, _, index = given.rpartition(":")
        sys.meta_path.insert(0, _Finder(path, int(index)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as ever, and gives the chosen one another loader."""

    def __init__(self, path: str, index: int) -> None:
        self._path, self._index = path, index

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if not name.startswith("bayplan."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin == self._path:
            spec.loader = _Loader(name, self._path, self._index)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, index: int) -> None:
        super().__init__(name, path)
        self._index = index

    def get_code(self, name: str) -> CodeType:
        text = Path(self.path).read_text("utf-8")
        return compile(mutated(text, self._index), self.path, "exec")
