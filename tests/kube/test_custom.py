"""Custom objects are validated, pruned, defaulted and applied as the real kube-apiserver does it.

One definition has every kind of field that a structural schema can have; hypothesis makes objects
for it, good and bad, and sends them to both servers.
"""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from bayplan.testing.servers import start_embedded, start_kube
from tests.definitions import DEFINITIONS, definition
from tests.kube.twins import Connection, managers, without_managers

pytestmark = pytest.mark.kube
FUZZ = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ITEM = {
    "type": "object",
    "required": ["p"],
    "properties": {"p": TEXT, "q": {**TEXT, "default": "Q"}, "v": NUMBER},
}
SPEC = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {**TEXT, "minLength": 1, "maxLength": 3},
        "n": {**NUMBER, "default": 1, "minimum": 0, "maximum": 9},
        "f": {"type": "number", "multipleOf": 2},
        "b": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": True},
        "nul": {**TEXT, "nullable": True},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "atom": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"x": {**NUMBER, "default": 5}}},
        },
        "lm": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["p", "q"],
            "items": ITEM,
        },
        "am": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
        "gm": {"type": "object", "additionalProperties": NUMBER, "maxProperties": 2},
        "enum": {**TEXT, "enum": ["x", "y"]},
        "deep": {
            "type": "object",
            "default": {},
            "properties": {"m": {"type": "object", "properties": {"z": {**NUMBER, "default": 7}}}},
        },
    },
}
WIDGETS = "/apis/fuzz.example/v1/namespaces/default/widgets"
DEFINITION = definition("widgets", "fuzz.example", properties={"spec": SPEC})


@pytest.fixture(scope="module")
def twins():
    with start_kube() as real, start_embedded(None, "--store=memory") as ours:
        pair = Connection(real), Connection(ours)
        for connection in pair:
            assert connection.ask("POST", DEFINITIONS, DEFINITION)[0] == 201
            wait_until_served(connection)
        yield pair
        for connection in pair:
            connection.close()


def wait_until_served(connection):
    """The real server needs a moment before it also knows the schema of a new kind."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        code, _ = connection.ask("POST", WIDGETS, widget("probe", {"a": "x"}), plain=True)
        if code == 201:
            time.sleep(1)
            return
        time.sleep(0.2)
    raise AssertionError("the definition is not served")


def widget(name, spec):
    return {
        "apiVersion": "fuzz.example/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


ANY = st.sampled_from(
    [None, 0, 1, -1, 3.5, "x", "", True, [], {}, ["x"], {"k": "v"}, [1], "toolong"]
)
WORD = st.sampled_from(["x", "y"])
KEYED = st.fixed_dictionaries(
    {"p": WORD}, optional={"q": st.sampled_from(["Q", "R"]), "v": st.integers(0, 2)}
)
GOOD = {
    "a": WORD,
    "n": st.integers(0, 9),
    "f": st.sampled_from([2, 4]),
    "b": st.booleans(),
    "ios": st.sampled_from([1, "5%"]),
    "nul": st.one_of(st.none(), WORD),
    "raw": st.sampled_from([{}, {"u": {"v": 1}}, {"u": {"w": [1]}, "t": 2}]),
    "set": st.lists(WORD, unique=True, max_size=2),
    "atom": st.lists(st.sampled_from([{}, {"x": 1}, {"x": 2, "gone": 1}]), max_size=2),
    "lm": st.lists(KEYED, max_size=3, unique_by=lambda i: (i["p"], i.get("q", "Q"))),
    "am": st.dictionaries(WORD, WORD, max_size=2),
    "gm": st.dictionaries(WORD, st.integers(0, 3), max_size=2),
    "enum": WORD,
    "deep": st.sampled_from([{}, {"m": {}}, {"m": {"z": 1}}]),
    "unknown": ANY,
}
MIXED = {name: st.one_of(good, good, ANY) for name, good in GOOD.items()}


@FUZZ
@given(spec=st.fixed_dictionaries({}, optional=MIXED))
def test_objects_are_judged_alike(twins, spec):
    note(repr(spec))
    path = f"{WIDGETS}?dryRun=All"
    real, ours = (c.ask("POST", path, widget("judged", spec)) for c in twins)

    note(f"real: {real[0]} {real[1].get('message')}\nours: {ours[0]} {ours[1].get('message')}")
    assert real[0] == ours[0]
    if real[0] == 201:
        assert without_managers(real[1]) == without_managers(ours[1])
    else:
        assert causes(real[1]) == causes(ours[1])


def causes(status):
    return sorted((c["field"], c["reason"]) for c in status.get("details", {}).get("causes", []))


APPLIED = {name: good for name, good in GOOD.items() if name not in ("a", "unknown", "nul")}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.booleans(),
        st.fixed_dictionaries({"a": WORD}, optional=APPLIED),
    ),
    min_size=1,
    max_size=4,
)
_numbers = itertools.count()


@FUZZ
@given(steps=STEPS)
def test_sequences_of_applies_agree(twins, steps):
    name = f"applied-{next(_numbers)}"
    note(repr(steps))
    for manager, force, spec in steps:
        query = f"?fieldManager={manager}&force={str(force).lower()}"
        body = widget(name, spec)
        real, ours = (c.patch("apply", f"{WIDGETS}/{name}", body, query) for c in twins)

        note(f"real: {real[0]} {real[1].get('message')}\nours: {ours[0]} {ours[1].get('message')}")
        if real[0] == 500:
            assert ours[0] == 400
            continue
        if real[0] == 422 and '"null"' in real[1]["message"]:
            return  # it leaves null where the last field of a map went, and then finds that invalid
        assert real[0] == ours[0]
        if real[0] in (200, 201):
            assert without_managers(real[1]) == without_managers(ours[1])
            assert managers(real[1]) == managers(ours[1])
        else:
            assert causes(real[1]) == causes(ours[1])
