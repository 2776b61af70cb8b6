"""A profile makes its plugins, runs them in order, and survives what they do wrong."""

import sys
import types

import numpy as np
import pytest

from bayplan.config import default_config
from bayplan.config.gates import FeatureGates
from bayplan.errors import ConfigError
from bayplan.framework import (
    SKIP,
    Code,
    CycleState,
    Effects,
    Handle,
    NodeTable,
    PostFilterResult,
    PreFilterResult,
    Profile,
    Status,
    Verdict,
    from_modules,
    merge,
    unresolvable,
    unschedulable,
)
from bayplan.framework.contract.results import PreBindPreFlightResult
from bayplan.framework.runtime.binding import (
    pre_bind_groups,
    run_bind,
    run_permit,
    run_pre_bind_pre_flight,
    run_reserve,
    run_unreserve,
)
from bayplan.framework.runtime.filtering import (
    call_filter,
    run_filters_on,
    run_post_filters,
    run_pre_enqueue,
    run_pre_filters,
)
from bayplan.framework.runtime.scoring import range_problem
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod

POD = make_pod("p").build()


class Fake:
    """A plugin whose methods are what a test gives it."""

    def __init__(self, name, **methods):
        self.name = name
        for method, value in methods.items():
            setattr(self, method, value if callable(value) else lambda *args, v=value: v)


def profile(point, *plugins, weights=None):
    made = {plugin.name: plugin for plugin in plugins}
    points = [point] if isinstance(point, str) else point
    return Profile("test", made, {p: tuple(made) for p in points}, weights or {})


def table(*names):
    made = NodeTable()
    for name in names or ("a", "b"):
        made.add_node(make_node(name).build())
    return made


@pytest.mark.parametrize(
    ("version", "first"),
    [("1.36", ["NodeUnschedulable", "NodeName"]), ("1.37", ["NodeName", "NodeUnschedulable"])],
)
def test_default_configuration_builds_every_plugin(version, first):
    config = default_config(FeatureGates(version=version)).profiles[0]
    made = Profile.build(config, in_tree_registry(), Handle())

    names = [plugin.name for plugin in made.filter]
    assert [*first, "TaintToleration", "NodeAffinity"] == names[:4]
    assert 3 == made.weight_of("TaintToleration")
    assert "PrioritySort" == made.queue_sort.name
    assert "NodeName" in made.events()
    assert "ImageLocality" not in made.events()


def test_an_unknown_plugin_is_named_with_the_known_ones():
    registry = {name: new for name, new in in_tree_registry().items() if name != "NodeName"}

    with pytest.raises(ConfigError, match=r"known plugins: .*; --plugins brings others$") as told:
        Profile.build(default_config().profiles[0], registry, Handle())
    assert 'plugin "NodeName" is not registered' in str(told.value)


def test_a_plugin_that_fails_to_start_is_named():
    def broken(args, handle):
        raise RuntimeError("no luck")

    registry = in_tree_registry() | {"NodeName": broken}
    with pytest.raises(ConfigError, match='initializing plugin "NodeName": RuntimeError: no luck'):
        Profile.build(default_config().profiles[0], registry, Handle())


def test_skip_leaves_a_plugin_out_and_sets_intersect():
    made = profile(
        "preFilter",
        Fake("A", pre_filter=(None, SKIP)),
        Fake("B", pre_filter=(PreFilterResult(frozenset("ab")), None)),
        Fake("C", pre_filter=(PreFilterResult(frozenset("bc")), None)),
    )
    state = CycleState()
    outcome = run_pre_filters(made, state, POD, table())

    assert {"A"} == state.skip_filter
    assert frozenset("b") == outcome.node_names
    assert outcome.status is None


def test_sets_that_exclude_each_other_end_the_attempt():
    made = profile(
        "preFilter",
        Fake("B", pre_filter=(PreFilterResult(frozenset("a")), None)),
        Fake("A", pre_filter=(PreFilterResult(frozenset("c")), None)),
    )
    outcome = run_pre_filters(made, CycleState(), POD, table())

    text = "node(s) didn't satisfy plugin(s) [A B] simultaneously"
    assert unresolvable(text) == outcome.status


def test_unschedulable_lets_the_others_run_but_unresolvable_does_not():
    seen = []

    def noted(name, status):
        return Fake(name, pre_filter=lambda *args: (seen.append(name), (None, status))[1])

    first = profile("preFilter", noted("A", unschedulable("x")), noted("B", unschedulable("y")))
    second = profile("preFilter", noted("C", unresolvable("z")), noted("D", None))

    status = run_pre_filters(first, CycleState(), POD, table()).status
    assert ("B", ("y",)) == (status.plugin, status.reasons)
    assert "C" == run_pre_filters(second, CycleState(), POD, table()).status.plugin
    assert ["A", "B", "C"] == seen


def test_a_scalar_filter_gets_the_table_form():
    rejects_b = Fake(
        "S", filter_node=lambda s, p, n: unschedulable("no") if n.name == "b" else None
    )
    verdict = call_filter(profile("filter", rejects_b), rejects_b, CycleState(), POD, table())

    assert [True, False] == verdict.mask.tolist()


def test_a_table_filter_answers_what_ifs_on_a_table_of_one_row():
    full = Fake("T", filter=lambda s, p, n: Verdict(n.pod_count < 1, Code.UNSCHEDULABLE, "full"))
    made, handle = profile("filter", full), Handle()
    handle.table.add_node(make_node("a").build())
    node = handle.table.info(0).clone()

    assert run_filters_on(made, CycleState(), POD, node) is None
    node.add_pod(handle.info(make_pod("other").build()))
    assert ("full",) == run_filters_on(made, CycleState(), POD, node).reasons


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(lambda *a: 1 / 0, "ZeroDivisionError", id="raises"),
        pytest.param(lambda *a: None, "not a Verdict", id="returns nothing"),
        pytest.param(lambda *a: Verdict(np.ones(7, dtype=bool)), "7 rows", id="wrong shape"),
    ],
)
def test_a_broken_filter_is_named_and_counted(answer, text):
    broken = Fake("Broken", filter=answer)
    made = profile("filter", broken)
    status = call_filter(made, broken, CycleState(), POD, table())

    assert Code.ERROR is status.code
    assert text in status.message
    assert 'running "Broken" filter plugin' in status.message
    assert 1 == made.problems[("Broken", "filter")]


def test_a_score_out_of_range_fails_the_attempt():
    scores = np.array([10, 101])
    status = range_problem("A", scores, np.ones(2, dtype=bool))

    assert (
        'applying score defaultWeights on Score plugins: plugin "A" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing"
    ) == status.message
    assert range_problem("A", scores, np.array([True, False])) is None


def test_post_filters_add_their_reasons_until_one_succeeds():
    made = profile(
        "postFilter",
        Fake("A", post_filter=(None, unschedulable("a"))),
        Fake("B", post_filter=(None, unschedulable("b"))),
    )
    result, status = run_post_filters(made, CycleState(), POD, None)

    assert (None, "a, b", "A") == (result, status.message, status.plugin)
    good = profile(
        "postFilter", Fake("C", post_filter=(PostFilterResult(), None)), Fake("D", post_filter=None)
    )
    result, status = run_post_filters(good, CycleState(), POD, None)
    assert PostFilterResult(plugin="C") == result
    assert Status(Code.SUCCESS) == status  # as upstream, which names nobody here


def test_missing_state_in_a_post_filter_reads_not_found():
    def reads(state, pod, statuses):
        state.read("never written")

    made = profile("postFilter", Fake("A", post_filter=reads))

    assert "not found" == run_post_filters(made, CycleState(), POD, None)[1].message


def test_reserve_stops_at_the_first_refusal_and_unreserve_runs_backwards():
    undone = []
    made = profile(
        "reserve",
        Fake("A", reserve=None, unreserve=lambda *a: undone.append("A")),
        Fake("B", reserve=unschedulable("busy"), unreserve=lambda *a: undone.append("B")),
        Fake("C", reserve=None, unreserve=lambda *a: undone.append("C")),
    )
    status = run_reserve(made, CycleState(), POD, "a")
    run_unreserve(made, CycleState(), POD, "a")

    assert ("B", "busy") == (status.plugin, status.message)
    assert ["C", "B", "A"] == undone


def test_permit_collects_waits_up_to_fifteen_minutes():
    made = profile(
        "permit",
        Fake("A", permit=(Status(Code.WAIT, "for me"), 10_000)),
        Fake("B", permit=(None, 0)),
    )
    outcome = run_permit(made, CycleState(), POD, "a")

    assert {"A": 900.0} == outcome.timeouts
    assert Code.WAIT is outcome.status.code


def test_pre_bind_plugins_that_allow_it_run_together():
    parallel = (PreBindPreFlightResult(allow_parallel=True), None)
    made = profile(
        "preBind",
        Fake("A", pre_bind=None, pre_bind_pre_flight=parallel),
        Fake("B", pre_bind=None, pre_bind_pre_flight=parallel),
        Fake("C", pre_bind=None, pre_bind_pre_flight=(None, None)),
        Fake("D", pre_bind=None, pre_bind_pre_flight=(None, SKIP)),
        Fake("E", pre_bind=None, pre_bind_pre_flight=parallel),
    )
    state = CycleState()

    assert run_pre_bind_pre_flight(made, state, POD, "a") is None
    groups = pre_bind_groups(made, state)
    assert [["A", "B"], ["C"], ["E"]] == [[plugin.name for plugin in group] for group in groups]


def test_the_first_bind_plugin_that_does_not_skip_decides():
    done = Effects()
    made = profile("bind", Fake("A", bind=SKIP), Fake("B", bind=done), Fake("C", bind=1 / 1))

    assert done is run_bind(made, CycleState(), POD, "a")
    assert Code.SKIP is run_bind(profile("bind", Fake("A", bind=SKIP)), CycleState(), POD, "a").code


def test_the_plugin_that_gated_last_is_asked_first():
    asked = []

    def gate(name, status):
        return Fake(name, pre_enqueue=lambda pod: (asked.append(name), status)[1])

    made = profile("preEnqueue", gate("A", None), gate("B", unresolvable("closed")))

    assert "B" == run_pre_enqueue(made, POD, first="B").plugin
    assert ["B"] == asked


def test_modules_named_by_the_user_offer_their_plugins():
    module = types.ModuleType("bayplan_test_plugins")
    module.PLUGINS = {"Mine": lambda args, handle: Fake("Mine")}
    sys.modules["bayplan_test_plugins"] = module
    try:
        assert ["Mine"] == list(from_modules(["bayplan_test_plugins"]))
        with pytest.raises(ConfigError, match='named "Mine" already exists'):
            merge(module.PLUGINS, module.PLUGINS)
        del module.PLUGINS
        with pytest.raises(ConfigError, match="has no PLUGINS; define PLUGINS"):
            from_modules(["bayplan_test_plugins"])
    finally:
        del sys.modules["bayplan_test_plugins"]
    with pytest.raises(ConfigError, match='loading plugin module "no_such_module_here"'):
        from_modules(["no_such_module_here"])


def test_a_module_that_cannot_be_imported_is_told_with_its_own_line(tmp_path, monkeypatch):
    (tmp_path / "bayplan_broken_plugins.py").write_text("PLUGINS = {}\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError, match=r"division by zero \(bayplan_broken_plugins.py:2\)$"):
        from_modules(["bayplan_broken_plugins"])
    with pytest.raises(ConfigError, match=r"No module named 'no_such_module_here'$"):
        from_modules(["no_such_module_here"])


def test_what_a_plugin_raises_is_told_with_file_and_line():
    def look_up(*args):
        return {}["rack"]

    broken = Fake("Mine", filter=look_up)

    status = call_filter(profile("filter", broken), broken, CycleState(), POD, table())

    line = look_up.__code__.co_firstlineno + 1
    assert f"raised KeyError in filter: 'rack' (test_profile.py:{line})" in str(status.error)
