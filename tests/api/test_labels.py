"""Label and node selectors match as upstream's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api import LabelSelector, LabelSelectorRequirement, NodeSelector, NodeSelectorTerm
from bayplan.api.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    compile_selector,
    from_map,
    parse_selector,
)
from bayplan.api.meta import NodeSelectorRequirement
from bayplan.api.node_selectors import compile_node_selector, compile_preferred, compile_term
from bayplan.api.pod import PreferredSchedulingTerm

UNABLE = "unable to parse requirement: "
NUMBERS = "for 'Gt', 'Lt' operators, the value"


def expression(key, operator, *values):
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        pytest.param(None, {}, False, id="a missing selector matches nothing"),
        pytest.param(LabelSelector(), {}, True, id="an empty selector matches everything"),
        pytest.param(
            LabelSelector(match_labels={"a": "1"}), {"a": "1", "b": "2"}, True, id="equal"
        ),
        pytest.param(LabelSelector(match_labels={"a": "1"}), {"a": "2"}, False, id="not equal"),
        pytest.param(expression("a", "In", "1", "2"), {"a": "2"}, True, id="in"),
        pytest.param(expression("a", "In", "1"), {}, False, id="in needs the key"),
        pytest.param(expression("a", "NotIn", "1"), {}, True, id="not in holds without the key"),
        pytest.param(expression("a", "NotIn", "1"), {"a": "1"}, False, id="not in"),
        pytest.param(expression("a", "Exists"), {"a": ""}, True, id="exists with an empty value"),
        pytest.param(expression("a", "DoesNotExist"), {"a": ""}, False, id="does not exist"),
    ],
)
def test_label_selector(selector, labels, matches):
    assert matches == compile_selector(selector).matches(labels)


@pytest.mark.parametrize(
    "selector",
    [
        expression("a", "Gt", "1"),
        expression("a", "Like", "1"),
        expression("a", "In"),
        expression("a", "Exists", "1"),
        expression("a b", "Exists"),
        expression("/a", "Exists"),
        expression("a", "In", "-x"),
        LabelSelector(match_labels={"a": "no spaces allowed"}),
    ],
)
def test_a_bad_label_selector_is_refused_and_names_the_key(selector):
    with pytest.raises(SelectorError, match=r"^(key|values)"):
        compile_selector(selector)


def test_equal_selectors_are_the_same_key_whatever_their_order():
    one = compile_selector(LabelSelector(match_labels={"a": "1", "b": "2"}))
    other = compile_selector(
        LabelSelector(
            match_labels={"b": "2"},
            match_expressions=(LabelSelectorRequirement("a", "In", ("1", "1")),),
        )
    )

    assert one == other
    assert hash(one) == hash(other)


def test_nothing_and_everything():
    assert compile_selector(None) == NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert NOTHING.and_also([Requirement("a", "Exists")]) is NOTHING
    assert not NOTHING.empty
    assert EVERYTHING.empty
    assert from_map(None) == NOTHING
    assert from_map({}) == EVERYTHING


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a=b", {"a": "b"}, {"a": "c"}),
        ("a == b", {"a": "b"}, {}),
        ("a!=b", {}, {"a": "b"}),
        ("a in (b, c),d", {"a": "c", "d": ""}, {"a": "c"}),
        ("a notin (b)", {"a": "x"}, {"a": "b"}),
        ("!a", {}, {"a": ""}),
        ("a>5", {"a": "6"}, {"a": "5"}),
        ("a<5,b", {"a": "4", "b": ""}, {"a": "x", "b": ""}),
        ("a=", {"a": ""}, {"a": "b"}),
        ("in in (in)", {"in": "in"}, {"in": "notin"}),
        ("a in (,b)", {"a": ""}, {"a": "c"}),
        ("x.example/app=web,tier!=db", {"x.example/app": "web"}, {"x.example/app": "w"}),
    ],
)
def test_query_form(text, matching, other):
    selector = parse_selector(text)

    assert selector.matches(matching)
    assert not selector.matches(other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("()", "found '(', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("!", f"{UNABLE}found '', expected: identifier"),
        ("a b", f"{UNABLE}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", f"{UNABLE}found 'b' expected: '('"),
        ("a in (", f"{UNABLE}found '', expected: ',', ')' or identifier"),
        ("a in (b", f"{UNABLE}found '', expected: ',' or ')'"),
        ("a in (b,", f"{UNABLE}found '', expected: ',', or identifier"),
        ("a in (b c)", f"{UNABLE}found 'c', expected: ',' or ')'"),
        ("a>x", f'{UNABLE}values[0]: Invalid value: "x": {NUMBERS} must be an integer'),
        ("/a", f'{UNABLE}<nil>: Invalid value: "/a": prefix part must be non-empty'),
    ],
)
def test_a_bad_query_is_refused_in_the_words_of_the_real_server(text, words):
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)
    assert words == str(refused.value)


def test_an_empty_query_selects_everything():
    assert parse_selector("  ") == EVERYTHING


def term(*expressions, fields=()):
    return NodeSelectorTerm(
        tuple(NodeSelectorRequirement(*e) for e in expressions),
        tuple(NodeSelectorRequirement(*f) for f in fields),
    )


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([], False, id="no terms"),
        pytest.param([term()], False, id="an empty term"),
        pytest.param([term(("n", "Gt", ("10",)))], True, id="greater"),
        pytest.param([term(("n", "Gt", ("11",)))], False, id="greater is strict"),
        pytest.param([term(("n", "Lt", ("12",)))], True, id="less"),
        pytest.param([term(("zone", "Gt", ("1",)))], False, id="greater on a text"),
        pytest.param([term(("n", "Gt", ("-5",)))], False, id="a sign is not a label value"),
        pytest.param([term(("n", "Gt", ("1", "2")))], False, id="greater takes one value"),
        pytest.param([term(("x", "Nope", ())), term(("n", "Exists", ()))], True, id="or"),
        pytest.param([term(("n", "Exists", ()), ("x", "Exists", ()))], False, id="and"),
        pytest.param([term(fields=[("metadata.name", "In", ("node",))])], True, id="name"),
        pytest.param([term(fields=[("metadata.name", "NotIn", ("node",))])], False, id="not name"),
        pytest.param([term(fields=[("metadata.name", "In", ("node", "b"))])], False, id="two"),
        pytest.param([term(fields=[("metadata.uid", "In", ("",))])], True, id="other field"),
        pytest.param([term(fields=[("metadata.name", "Exists", ())])], False, id="field operator"),
    ],
)
def test_node_selector(terms, matches):
    selector = compile_node_selector(NodeSelector(tuple(terms)))

    assert matches == selector.matches({"n": "11", "zone": "a"}, "node")


def test_a_problem_in_a_term_is_kept():
    assert '"Nope"' in compile_node_selector(NodeSelector((term(("x", "Nope", ())),))).problem


def test_fields_are_satisfied_where_there_is_no_name():
    selector = compile_term(term(fields=[("metadata.name", "In", ("other",))]))

    assert selector.matches({}, "")


def test_preferred_terms_without_weight_or_requirement_are_left_out():
    compiled = compile_preferred(
        [
            PreferredSchedulingTerm(0, term(("a", "Exists", ()))),
            PreferredSchedulingTerm(5, term()),
            PreferredSchedulingTerm(7, term(("a", "Exists", ()))),
        ]
    )

    assert [weight for weight, _ in compiled] == [7]


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("123"), max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from("123"), min_size=1, max_size=2),
        ),
        max_size=3,
    ),
)
def test_query_form_and_struct_form_agree(labels, requirements):
    text = ",".join(f"{k} {op.lower()} ({','.join(vs)})" for k, op, vs in requirements)
    struct = LabelSelector(
        match_expressions=tuple(
            LabelSelectorRequirement(k, op, tuple(vs)) for k, op, vs in requirements
        )
    )

    assert parse_selector(text) == compile_selector(struct)
    assert parse_selector(text).matches(labels) == compile_selector(struct).matches(labels)


@pytest.mark.parametrize(
    "text", ["a=\u00a0b", "a\x0b=b", "\u2003"], ids=["no-break", "vertical tab", "em space"]
)
def test_only_four_characters_are_space_between_words(text):
    with pytest.raises(SelectorError, match="Invalid value"):
        parse_selector(text)
