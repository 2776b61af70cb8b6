"""What a store's errors say, and what they carry for those who catch them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayplan.store import Closed, Compacted, Conflict, FutureRevision, KeyValue, NotFound
from bayplan.store.errors import RevisionError

FOUND = KeyValue("/a", b"", 3, 7)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(
            lambda: Conflict("/a", None, 5),
            'writing key "/a": expected revision 5, but the key does not exist',
            id="gone",
        ),
        pytest.param(
            lambda: Conflict("/a", FOUND, 0),
            'writing key "/a": already exists at revision 7',
            id="created",
        ),
        pytest.param(
            lambda: Conflict("/a", FOUND, 1),
            'writing key "/a": expected revision 1, found 7; read it again and retry',
            id="changed",
        ),
        pytest.param(lambda: NotFound("/a"), 'deleting key "/a": not found', id="not found"),
        pytest.param(
            lambda: Compacted(asked=3, compacted=5),
            "reading from revision 3: history up to 5 is gone; list again",
            id="compacted",
        ),
        pytest.param(
            lambda: FutureRevision(asked=9, current=5),
            "reading at revision 9: the store is at 5",
            id="future",
        ),
        pytest.param(Closed, "the store is closed", id="closed"),
    ],
)
def test_what_went_wrong_is_told(error: Callable[[], Exception], text: str) -> None:
    assert text == str(error())


def test_errors_carry_what_was_asked_and_what_there_is() -> None:
    conflict, gone, early = (
        Conflict("/a", FOUND, 1),
        Compacted(asked=3, compacted=5),
        FutureRevision(asked=9, current=5),
    )

    assert ("/a", FOUND, 1) == (conflict.key, conflict.current, conflict.expect)
    assert "/a" == NotFound("/a").key
    for error in (gone, early):
        assert isinstance(error, RevisionError)
    assert (3, 5, 5) == (gone.asked, gone.available, gone.compacted)
    assert (9, 5, 5) == (early.asked, early.available, early.current)
