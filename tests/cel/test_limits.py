"""What an expression may cost: bounded text, bounded depth, bounded work."""

import pytest

from bayplan.cel import types as t
from bayplan.cel.environment import Environment
from bayplan.cel.errors import MOST_WORDS, CompileError, CostExceeded
from bayplan.cel.types import INT, list_of
from tests.effort import at_most

ANY = Environment({"self": t.DYN})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 4000 + "1" + ")" * 4000, id="deep parentheses"),
        pytest.param("[" * 4000 + "]" * 4000, id="deep lists"),
        pytest.param("!" * 50_001 + "1", id="many negations"),
        pytest.param("1" + "+1" * 49_000, id="a long sum"),
        pytest.param("x" * 100_001, id="a long name"),
        pytest.param("9" * 5000, id="a long number"),
    ],
)
def test_long_and_deep_texts_are_refused_not_fatal(text):
    with pytest.raises(CompileError):
        ANY.compile(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [("1 2", "extraneous input '2'"), ("1 2 3", "mismatched input '2'")],
    ids=["one word too many", "two"],
)
def test_what_follows_an_expression_is_named(text, said):
    with pytest.raises(CompileError, match=f"Syntax error: {said} expecting <EOF>"):
        ANY.compile(text)


def test_a_hundred_problems_are_told_and_the_rest_counted():
    """Each quotes its line: 20,000 of them in 40 KB took minutes and 3 GB."""
    text = "[" + ",".join("q" * 20_000) + "]"

    with at_most(50), pytest.raises(CompileError) as refused:
        ANY.compile(text)

    *told, last = str(refused.value).split("\nERROR: ")[-1].split("\n")
    assert (3, "more errors were truncated") == (len(told), last.partition(" ")[2])
    assert MOST_WORDS < len(str(refused.value)) < MOST_WORDS + 3 * len(text)


def test_of_a_short_text_as_many_problems_are_told_as_upstream_tells():
    with pytest.raises(CompileError) as refused:
        ANY.compile("[" + ",".join("q" * 130) + "]")

    assert 100 == str(refused.value).count("undeclared reference")
    assert str(refused.value).endswith("\n30 more errors were truncated")


def test_many_empty_lists_are_checked_in_linear_time():
    with at_most(150):
        ANY.compile("[" + ",".join(["[]"] * 30_000) + "]")


def test_variables_of_deep_types_are_joined_in_linear_time():
    deep = INT
    for _ in range(200):
        deep = list_of(deep)
    made = Environment({"v": deep})

    with at_most(20):
        assert "list" == made.compile("[" + ",".join(["v"] * 2000) + "]").type.kind


def test_an_evaluation_stops_at_its_limit():
    program = ANY.compile("self.all(a, self.all(b, a + b >= 0))")

    with pytest.raises(CostExceeded, match="actual cost limit exceeded"):
        program.evaluate({"self": list(range(1000))}, limit=10_000)


def test_failures_that_decide_nothing_are_forgotten():
    program = ANY.compile("self.exists(x, 1 / x > 0)")

    assert program.evaluate({"self": [0, 1]})


def test_a_list_that_grows_in_a_loop_is_not_seen_outside():
    program = ANY.compile("[self].map(x, x + [2])[0] == [1, 2] && self == [1]")

    assert program.evaluate({"self": [1]})


def doubled(step, times=60, first="[1]"):
    return f"{first}{f'.map(x, {step})' * times}"


@pytest.mark.parametrize("step", ["{x: x}", "{x: [x]}", "optional.of({x: x})"])
def test_a_type_that_doubles_with_each_call_is_refused(step):
    """Of 224 characters the checker thought for 4 s, and twice as long for each 15 more."""
    with pytest.raises(CompileError, match="nested too deeply"):
        ANY.compile(f"{doubled(step)}.size() > 0")


TREE = doubled("[x, x]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{TREE}.map(z, [z]).exists(l, l == l)", True),
        (f"{TREE}[0] in {doubled('[x, x]', first='[2, 1]')}", True),
        (f"{TREE} == {doubled('[x, x]', first='[2]')}", False),
        (f"{doubled('optional.of([x, x])')}.exists(l, l != l)", False),
        (f"({TREE} + {TREE}).distinct().size()", 1),
        ("[[0.0 / 0.0]].exists(l, l == l)", False),
    ],
    ids=["itself", "in", "another", "optional", "distinct", "no number"],
)
def test_what_unfolds_without_end_is_compared_once(text, expected):
    assert expected == ANY.compile(text).evaluate({})


@pytest.mark.parametrize(
    "text",
    [f"'%s'.format([{TREE}])", f"{TREE}.flatten(100)", f"{TREE}.indexOf({TREE}[0]) == 0"],
    ids=["format", "flatten", "indexOf"],
)
def test_what_unfolds_without_end_is_not_written_out(text):
    with pytest.raises(CostExceeded):
        ANY.compile(text).evaluate({})
