"""The domain that the pods of a group are in already, and what is wrong where there is none."""

from types import SimpleNamespace

import pytest

from bayplan.framework import NodeTable
from bayplan.plugins.topology_placement_generator import TopologyPlacementGenerator
from bayplan.testing import make_node, make_pod


def domain(*names):
    table = NodeTable()
    for name, labels in (
        ("a", {"zone": "z"}),
        ("b", {"zone": "z"}),
        ("c", {"zone": "y"}),
        ("d", {}),
    ):
        table.add_node(make_node(name).label(labels).build())
    plugin = object.__new__(TopologyPlacementGenerator)
    plugin._handle = SimpleNamespace(table=table)
    scheduled = [(make_pod(f"p-{name}").build(), name) for name in names]
    return plugin._domain_of(SimpleNamespace(scheduled=scheduled), "zone")


def test_pods_in_one_domain_bind_the_others_to_it():
    assert ["", "z", "z"] == [domain(), domain("a"), domain("a", "b")]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gone"], 'getting node for pod default/p-gone: nodeinfo not found for node name "gone"'),
        (["d"], "no topology domain found for pod default/p-d"),
        (["a", "c"], "more than 1 domain found for pod group: z, y"),
    ],
)
def test_what_is_no_domain_is_told(names, text):
    with pytest.raises(LookupError) as problem:
        domain(*names)

    assert text == str(problem.value)
