"""Table form, selection of rows, scalar form and reference of each plugin say the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.config import FeatureGates, from_data
from bayplan.engine.answers.domains import DomainShare
from bayplan.framework import Code, CycleState, Handle, Status
from bayplan.framework.runtime.filtering import call_filter, call_filter_node, call_pre_filter
from bayplan.framework.runtime.profile import Profile
from bayplan.framework.runtime.scoring import call_normalize, call_pre_score, call_score
from bayplan.plugins import in_tree_registry
from bayplan.testing.strategies import clusters, pods
from tests.engine.clusters import world_for
from tests.reference import interpod, nodes, resources, spread
from tests.reference.world import SKIP

FILTERS = {
    "NodeUnschedulable": nodes.NodeUnschedulable,
    "NodeName": nodes.NodeName,
    "TaintToleration": nodes.TaintToleration,
    "NodeAffinity": nodes.NodeAffinity,
    "NodePorts": resources.NodePorts,
    "NodeResourcesFit": resources.NodeResourcesFit,
    "PodTopologySpread": spread.PodTopologySpread,
    "InterPodAffinity": interpod.InterPodAffinity,
}
SCORES = {
    "TaintToleration": nodes.TaintToleration,
    "NodeAffinity": nodes.NodeAffinity,
    "NodeResourcesFit": resources.NodeResourcesFit,
    "PodTopologySpread": spread.PodTopologySpread,
    "InterPodAffinity": interpod.InterPodAffinity,
    "NodeResourcesBalancedAllocation": resources.NodeResourcesBalancedAllocation,
    "ImageLocality": resources.ImageLocality,
}
RELAXED = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
GATES = FeatureGates(version="1.36")  # which tests/reference follows


def handle_for(cluster):
    handle = Handle(gates=GATES)
    for node in cluster.nodes:
        handle.table.add_node(node)
    for item in (*cluster.services, *cluster.namespaces):
        handle.objects.put(item)
    for pod in cluster.pods:
        handle.table.add_pod(handle.infos.make(pod))
    return handle


def make(name, handle, args=None):
    plugin = in_tree_registry()[name](loaded(name, args) if args else None, handle)
    points = dict.fromkeys(("preFilter", "filter", "preScore", "score"), (name,))
    kept = {p: names for p, names in points.items() if _has(plugin, p)}
    return plugin, Profile("test", {name: plugin}, kept, {})


def loaded(name, args):
    """Arguments of a plugin as a configuration file has them."""
    api_version = "kubescheduler.config.k8s.io/v1"
    named = {"apiVersion": api_version, "kind": f"{name}Args", **args}
    profile = {"schedulerName": "x", "pluginConfig": [{"name": name, "args": named}]}
    kind = "KubeSchedulerConfiguration"
    config = from_data({"apiVersion": api_version, "kind": kind, "profiles": [profile]}, GATES)
    return config.profiles[0].args(name)


def _has(plugin, point):
    from bayplan.framework import implements

    return implements(plugin, point)


def flat(status):
    return None if status is None else (status.code.text, tuple(sorted(status.reasons)))


def flat_reference(status):
    return None if status is None else (status.code, tuple(sorted(status.reasons)))


@pytest.mark.parametrize("name", sorted(FILTERS))
@RELAXED
@given(data=st.data())
def test_filters_agree(name, data):
    cluster, pod = data.draw(clusters(about=name)), data.draw(pods(about=name))
    rows = st.lists(st.integers(0, len(cluster.nodes) - 1), unique=True, min_size=1)

    assert_filters_agree(name, cluster, pod, data.draw(rows))


def assert_filters_agree(name, cluster, pod, rows, args=None):
    """All forms of a filter say what the reference says; `rows` are those of the selection."""
    handle, world = handle_for(cluster), world_for(cluster)
    plugin, profile = make(name, handle, args)
    scalar = FILTERS[name](world, pod, args or {})
    state, table = CycleState(handle.infos.make(pod)), handle.table
    status = None
    if hasattr(plugin, "pre_filter"):
        _, status = call_pre_filter(profile, plugin, state, pod, table)
    expected = scalar.prefilter()

    if expected == SKIP:
        assert status is not None
        assert status.code is Code.SKIP
        return
    if hasattr(expected, "code"):
        assert flat_reference(expected) == flat(status)
        return
    assert status is None
    verdict = call_filter(profile, plugin, state, pod, table)
    wanted = {node.name: flat_reference(scalar.filter(node)) for node in world.nodes}
    assert wanted == {n: flat(verdict.status_of(r)) for r, n in enumerate(table.names())}
    for row, node in enumerate(table.names()):
        one = call_filter_node(profile, plugin, state, pod, table.info(row))
        assert wanted[node] == flat(one)
    view = table.select(np.array(rows, dtype=np.int64))
    part = call_filter(profile, plugin, state, pod, view)
    assert [wanted[n] for n in view.names()] == [flat(part.status_of(i)) for i in range(len(rows))]


@pytest.mark.parametrize("name", sorted(SCORES))
@RELAXED
@given(data=st.data())
def test_scores_agree(name, data):
    cluster, pod = data.draw(clusters(about=name)), data.draw(pods(about=name))
    size = len(cluster.nodes)
    feasible = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    if not feasible.any():
        feasible[0] = True

    assert_scores_agree(name, cluster, pod, feasible)


def assert_scores_agree(name, cluster, pod, feasible, args=None):
    """All forms of a score, of nodes that fit, are those of the reference."""
    handle, world = handle_for(cluster), world_for(cluster)
    plugin, profile = make(name, handle, args)
    table = handle.table
    names = table.names()
    fitting = [node for node in world.nodes if feasible[names.index(node.name)]]
    scalar = SCORES[name](world, pod, args or {})
    state = CycleState(handle.infos.make(pod))
    if hasattr(plugin, "pre_score"):
        problem = call_pre_score(profile, plugin, state, pod, table, feasible)
        assert problem is None
    skips = scalar.prescore(fitting) == SKIP

    assert skips == (name in state.skip_score)
    if skips:
        return
    raw = call_score(profile, plugin, state, pod, table)
    wanted = {node.name: scalar.score(node) for node in fitting}
    rows = {n: r for r, n in enumerate(names)}
    ignored = name == "PodTopologySpread"
    if not ignored:
        assert wanted == {n: int(raw[rows[n]]) for n in wanted}
    for n in wanted:
        assert wanted[n] == plugin.score_node(state, pod, table.info(rows[n]))
    final = call_normalize(profile, plugin, state, pod, raw, feasible)
    assert not isinstance(final, Status)
    assert scalar.normalize(wanted) == {n: int(final[rows[n]]) for n in wanted}
    if hasattr(plugin, "score_domains"):
        by_domain = domain_scores(plugin, state, pod, table, feasible)
        assert by_domain is None or by_domain == {n: int(final[rows[n]]) for n in wanted}


def domain_scores(plugin, state, pod, table, feasible):
    """What feasible nodes score as told by domain; None if the plugin cannot tell it so."""
    told = plugin.score_domains(state, pod, table)
    if told is None:
        return None
    domains = table.label_column(told.key).domains(table.count)
    counts = np.bincount(domains.codes[feasible], minlength=len(domains.sizes)).tolist()
    share = DomainShare(domains, told.worth, told.own, feasible, counts)
    share.normalize(plugin.normalize_domains(state, pod, share.scores()))
    values = share.record().array()
    return {table.name_of(row): int(values[row]) for row in np.flatnonzero(feasible).tolist()}
