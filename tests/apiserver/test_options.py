"""What lists and watches ask for, as values: versions, times, selectors and tokens."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.negotiate import JSON_PATCH
from bayplan.apiserver.selectors import parse_fields, parse_labels
from bayplan.apiserver.verbs.options import (
    Selection,
    check_match,
    decode_token,
    encode_token,
    parse_version,
)
from bayplan.apiserver.verbs.patch import read_patch
from bayplan.apiserver.verbs.watch import _duration, _too_late, _Watch, default_timeout
from bayplan.clock import run_virtual


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("007", 7),
        ("0" * 30 + "5", 5),
        (str(2**64 - 1), 2**64 - 1),
        (str(2**64), "value out of range"),
        ("1" * 21, "value out of range"),
        ("-1", "invalid syntax"),
        ("1.0", "invalid syntax"),
        ("1a", "invalid syntax"),
        pytest.param("¹", "invalid syntax", id="superscript"),
        pytest.param("٣", "invalid syntax", id="arabic"),
    ],
)
def test_a_version_is_read_as_go_reads_64_bits(text: str | None, version: int | str) -> None:
    if isinstance(version, int):
        assert version == parse_version(text)
        return
    with pytest.raises(ApiError) as refused:
        parse_version(text)
    assert (400, True) == (refused.value.code, str(refused.value).endswith(f": {version}"))


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        (0, 0.0),
        (1, 1.0),
        (-1, -1.0),
        (9223372036, 9223372036.0),
        (9223372037, 9223372037 - 2**64 / 10**9),
        (18446744073, 18446744073 - 2**64 / 10**9),
        (18446744074, 18446744074 - 2**64 / 10**9),
    ],
)
def test_seconds_go_round_as_64_bits_of_nanoseconds_do(seconds: int, taken: float) -> None:
    assert taken == pytest.approx(_duration(seconds), abs=1e-5)


@pytest.mark.parametrize(("seconds", "over"), [(-0.001, True), (0.0, False), (0.29, False)])
async def test_a_watch_is_over_before_it_begins_where_its_time_is_less_than_none(
    seconds: float, over: bool
) -> None:
    backend = SimpleNamespace(store=SimpleNamespace(revision=5))

    found = await _too_late(backend, seconds, 5)

    assert ("context deadline exceeded" if over else "") == (str(found) if found else "")


def test_copies_in_a_patch_are_counted_for_each_may_double_the_object() -> None:
    ops = [{"op": op, "path": "/data/a"} for op in ("copy", "test", "copy", "add")]
    for body, copies in ((ops, 2), (ops[1:2], 0), ([*ops, 5], 2), ({"op": "copy"}, 0)):
        kind = SimpleNamespace(custom=True)
        request = SimpleNamespace(
            kind=kind,
            content_type=JSON_PATCH,
            query={},
            body=json.dumps(body).encode(),
            copies=0,
        )
        read_patch(request)

        assert copies == request.copies


def test_watches_that_name_no_time_end_apart_between_half_an_hour_and_an_hour() -> None:
    backend = SimpleNamespace(opened_watches=0)

    times = [default_timeout(backend) for _ in range(1800)]

    assert [2417.0, 3034.0, 1851.0] == times[:3]
    assert (1800, 1800.0, 3599.0) == (len(set(times)), min(times), max(times))


@pytest.mark.parametrize(
    ("bookmarks", "timeout", "times"),
    [
        (False, 130.0, [130]),
        (True, 130.0, [60, 120, 128, 130]),
        (True, 122.0, [60, 120, 122]),
        (True, 62.0, [60, 62]),
        (True, 30.0, [28, 30]),
        (True, 1.0, [0, 1]),
    ],
)
def test_bookmarks_come_each_minute_and_just_before_the_end(
    bookmarks: bool, timeout: float, times: list[float]
) -> None:
    async def main() -> list[float]:
        return list(_Watch._times(SimpleNamespace(bookmarks=bookmarks, timeout=timeout)))

    assert times == run_virtual(main())


def chosen(labels: str = "", fields: str = "") -> Selection:
    return Selection(
        parse_labels(labels) if labels else None, parse_fields(fields) if fields else None, None
    )


@pytest.mark.parametrize(
    ("labels", "fields", "decisive"),
    [
        ("", "", None),
        ("", "metadata.name=a", ("field", "metadata.name", "a")),
        ("", "metadata.name!=a", None),
        ("", "metadata.namespace=a", None),
        ("", "metadata.namespace=a,spec.nodeName=n", ("field", "spec.nodeName", "n")),
        ("", "metadata.name!=a,spec.nodeName=n", ("field", "spec.nodeName", "n")),
        ("l=a", "", ("label", "l", "a")),
        ("l in (a)", "", ("label", "l", "a")),
        ("l in (a,b)", "", None),
        ("l in (a,b),m=c", "", ("label", "m", "c")),
        ("l!=a", "", None),
        ("l notin (a)", "", None),
        ("l", "", None),
        ("l=a", "metadata.name!=a", ("label", "l", "a")),
        ("l=a", "metadata.name=b", ("field", "metadata.name", "b")),
    ],
)
def test_what_decides_alone_whether_an_object_is_selected(
    labels: str, fields: str, decisive: tuple[str, str, str] | None
) -> None:
    assert decisive == chosen(labels, fields).decisive


@pytest.mark.parametrize(
    ("labels", "fields", "cost"),
    [
        ("", "", 1000),
        ("", "metadata.name=a,spec.nodeName!=n", 1100),
        ("l", "", 1050),
        ("l in (a,b)", "", 1150),
        ("l=a,m", "metadata.name=a", 1200),
    ],
)
def test_what_a_look_at_an_object_costs_grows_with_the_terms(
    labels: str, fields: str, cost: int
) -> None:
    found = chosen(labels, fields)

    assert (cost, bool(labels or fields)) == (found.cost, bool(found))


NEEDS_INITIAL = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
NEEDS_MATCH = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
NEEDS_VERSION = "resourceVersionMatch is forbidden unless resourceVersion is provided"
CONTINUED = "resourceVersionMatch is forbidden when continue is provided"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param("", [], id="a list of now"),
        pytest.param("match=Exact&version=5", [], id="a list of then"),
        pytest.param("match=NotOlderThan&version=0", [], id="a list of any time"),
        pytest.param("match=Exact", [NEEDS_VERSION], id="of which version?"),
        pytest.param("match=Exact&version=0", ["is forbidden for resourceVersion"], id="of 0"),
        pytest.param("match=Odd&version=5", ["Unsupported value"], id="odd"),
        pytest.param("match=Exact&version=5&continue=x", [CONTINUED], id="of then, continued"),
        pytest.param("match=Odd&continue=x", [NEEDS_VERSION, CONTINUED, "Unsupported"], id="all"),
        pytest.param("initial=true", ["forbidden for list"], id="a list sends no events"),
        pytest.param("initial=", ["forbidden for list"], id="nor where it is empty"),
        pytest.param("watch&version=5", [], id="a watch"),
        pytest.param("watch&initial=true&match=NotOlderThan", [], id="that begins with all"),
        pytest.param("watch", [], id="that begins with all for it says nothing"),
        pytest.param("watch&version=0", [], id="also from 0"),
        pytest.param("watch&continue=x", [CONTINUED], id="continued, begins with all"),
        pytest.param("watch&version=5&continue=x", [], id="continued"),
        pytest.param("watch&initial=true", [NEEDS_MATCH], id="newer than what?"),
        pytest.param("watch&match=NotOlderThan", [NEEDS_INITIAL], id="a match without events"),
        pytest.param(
            "watch&match=Exact", [NEEDS_INITIAL, "Unsupported value"], id="an odd one without"
        ),
        pytest.param(
            "watch&match=Exact&initial=false", [NEEDS_MATCH, "Unsupported value"], id="odd, with"
        ),
    ],
)
def test_which_options_go_together(query: str, words: list[str]) -> None:
    names = {"match": "resourceVersionMatch", "version": "resourceVersion"}
    names |= {"initial": "sendInitialEvents"}
    given = [part.partition("=") for part in query.split("&") if part]
    asked = {names.get(name, name): value for name, _, value in given}
    watching = "watch" in asked

    try:
        check_match(asked, "continue" in asked, watching=watching)
        found = []
    except ApiError as error:
        assert (422, "Invalid") == (error.code, error.reason)
        found = [cause["message"] for cause in error.status()["details"]["causes"]]

    assert len(words) == len(found)
    assert all(word in said for word, said in zip(words, found, strict=True)), found


@pytest.mark.parametrize(
    ("revision", "start"), [(1, "a/b"), (-1, "\u00e9/x"), (2**60, "n")], ids=["", "of now", "large"]
)
def test_a_token_says_what_it_was_made_of(revision: int, start: str) -> None:
    token = decode_token(encode_token(revision, start))

    assert ("meta.k8s.io/v1", revision, start) == (token.version, token.revision, token.start)
