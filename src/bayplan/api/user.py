"""Who asks: the one form of a user, whoever found out."""

from __future__ import annotations

from typing import NamedTuple


class User(NamedTuple):
    """A name, and what goes with it in reviews and rules."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
