"""How each kind of object is read and answered, and what a member cluster gives."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bayplan.api import Node, Pod
from bayplan.client import ApiError, Conflict, NotFound
from bayplan.global_scheduler.inventory import Inventory, Site
from bayplan.global_scheduler.kinds import (
    Placeable,
    in_tree_adapters,
    node_name,
)
from bayplan.global_scheduler.members import (
    ALLOCATION_LABEL,
    Changes,
    Member,
    Members,
    read_members,
)
from bayplan.global_scheduler.table import SiteTable
from bayplan.testing import make_node, make_pod

ADAPTERS = in_tree_adapters()
KNOWN = (frozenset({"f2"}), frozenset({"SAS"}))
MACHINE = {"flavors": [{"flavorID": "f2"}]}


def item(spec: Any = None, status: Any = None, **meta: Any) -> Placeable:
    body = {"metadata": {"name": "x", "namespace": "n", "uid": "u", "generation": 4} | meta}
    body |= {"spec": spec or {}, "status": status or {}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Placeable)


GONE = "2026-11-18T12:00:00Z"
PLACED = [{"site": "s1"}]


@pytest.mark.parametrize(
    ("kind", "given", "wants", "holds"),
    [
        ("pods", item({"virtualMachine": {}}), True, True),
        ("pods", item({}), False, False),
        ("pods", item({"virtualMachine": {}, "nodeName": "s1"}), False, True),
        ("pods", item({"virtualMachine": {}, "nodeName": ""}), True, True),
        ("pods", item({"virtualMachine": {}}, deletionTimestamp=GONE), False, True),
        ("pods", item({"virtualMachine": {}}, {"phase": "Succeeded"}), False, False),
        ("pods", item({"virtualMachine": {}}, {"phase": "Failed"}), False, False),
        ("pods", item({"virtualMachine": {}}, {"phase": "Running"}), True, True),
        ("stacks", item(), True, True),
        ("stacks", item({}, {"groups": PLACED}), False, True),
        ("stacks", item({}, {"groups": []}), True, True),
        ("stacks", item(deletionTimestamp=GONE), False, False),
    ],
)
def test_what_waits_for_a_place_and_what_still_needs_it(
    kind: str, given: Placeable, wants: bool, holds: bool
) -> None:
    adapter = ADAPTERS[kind]

    assert (wants, holds) == (adapter.wants_placing(given), adapter.holds(given))


def asked(kind: str, spec: Any, **meta: Any) -> tuple[Any, list[str]]:
    found, problems = ADAPTERS[kind].allocation(item(spec, **meta), KNOWN)
    return found, [str(problem) for problem in problems]


def test_an_object_may_ask_for_as_much_as_a_request() -> None:
    two = [{"name": name, "flavors": [{"flavor_id": "f"}]} for name in "ab"]
    spec = {"resource_group": {"resources": two}, "replicas": 50_000}
    assert [] == [text for text in asked("allocations", spec)[1] if "replicas" in text]

    [problem] = [p for p in asked("allocations", spec | {"replicas": 50_001})[1] if "replicas" in p]
    assert problem.startswith("spec.replicas: ask for 100002 resources")


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        (
            "pods",
            {"virtualMachine": MACHINE | {"resourceCommonInfo": {"count": 0}}},
            "spec.virtualMachine.resourceCommonInfo.count: must be from 1 to 1000000, got 0",
        ),
        (
            "pods",
            {"virtualMachine": {"flavors": []}},
            "spec.virtualMachine.flavors: must have at least one entry",
        ),
        ("virtualmachines", {"flavors": []}, "spec.flavors: must have at least one entry"),
        ("allocations", {"replicas": 0}, "spec.replicas: must be from 1 to 100000, got 0"),
        (
            "allocations",
            {"replicas": 10**9},
            "spec.replicas: must be from 1 to 100000, got 1000000000",
        ),
        ("allocations", {"replicas": -3}, "spec.replicas: must be from 1 to 100000, got -3"),
    ],
)
def test_what_an_object_cannot_ask_for_is_named(kind: str, spec: Any, problem: str) -> None:
    found, problems = asked(kind, spec)

    assert problem in problems
    assert (1, "u") == (found.replicas, found.id)


@pytest.mark.parametrize("count", [None, 1, 3])
def test_a_machine_is_a_stack_of_one_resource(count: int | None) -> None:
    body = MACHINE | ({"resourceCommonInfo": {"count": count}} if count else {})
    for kind, spec in (("pods", {"virtualMachine": body}), ("virtualmachines", body)):
        found, problems = asked(kind, spec, labels={"l": "v"})

        assert [] == problems
        (machines,) = found.stack.resources
        assert ("x", count or 1, ["f2"]) == (
            machines.name,
            machines.count,
            [choice.flavor_id for choice in machines.flavors],
        )
        assert ("x", {"l": "v"}, 1) == (found.stack.name, found.stack.labels, found.replicas)


class Cluster:
    """A client whose next call fails so, and that has one pod."""

    def __init__(self, problem: type[ApiError] | None, pod: Any = NotFound) -> None:
        self.problem, self.pod = problem, pod
        self.told: list[Any] = []

    async def bind(self, *given: Any) -> None:
        await self._do(given)

    async def patch_status(self, *given: Any, **more: Any) -> None:
        await self._do((*given, more))

    async def _do(self, given: Any) -> None:
        self.told.append(given)
        if self.problem is not None:
            raise self.problem(409, "No", "no")

    async def get(self, *given: Any) -> bytes:
        if self.pod is NotFound:
            raise NotFound(404, "NotFound", "no")
        return msgspec.json.encode(self.pod)


def pod_on(node: str, uid: str) -> Any:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node}}


@pytest.mark.parametrize(
    ("cluster", "placed"),
    [
        (Cluster(None), True),
        (Cluster(NotFound), False),
        (Cluster(Conflict), False),
        (Cluster(Conflict, pod_on("s1", "u")), True),
        (Cluster(Conflict, pod_on("s2", "u")), False),
        (Cluster(Conflict, pod_on("s1", "other")), False),
    ],
    ids=["bound", "gone", "bound and gone", "bound there before", "elsewhere", "another pod"],
)
async def test_whether_a_pod_was_placed(cluster: Cluster, placed: bool) -> None:
    given = item({"virtualMachine": {}})

    assert placed == await ADAPTERS["pods"].placed(cluster, given, None, "s1")
    assert [("n", "x", "u", "s1")] == cluster.told


def record(*sites: str) -> Any:
    groups = [
        SimpleNamespace(
            selected=SimpleNamespace(node_id=site, region="r", availability_zone="z", cluster=""),
            resources=[SimpleNamespace(flavor_id="f2")],
        )
        for site in sites
    ]
    return SimpleNamespace(groups=groups)


@pytest.mark.parametrize(
    ("problem", "placed"), [(None, True), (NotFound, False), (Conflict, False)]
)
async def test_a_status_tells_where_an_object_is(
    problem: type[Exception] | None, placed: bool
) -> None:
    cluster = Cluster(problem)
    adapter = ADAPTERS["stacks"]

    assert placed == await adapter.placed(cluster, item(), record("s1", "s2"), "s1")
    _, name, body, namespace, more = cluster.told[0]
    assert ("x", "n", {"kind": "merge"}) == (name, namespace, more)
    status = body["status"]
    assert ("Bound", 4, ["s1", "s2"]) == (
        status["phase"],
        status["observedGeneration"],
        [group["site"] for group in status["groups"]],
    )
    assert {"uid": "u"} == body["metadata"], "of that object only"


async def test_who_is_refused_is_told_why() -> None:
    cluster = Cluster(None)
    await ADAPTERS["pods"].refused(cluster, item(), "no room", GONE)
    await ADAPTERS["stacks"].refused(cluster, item(), "no room", GONE)
    await ADAPTERS["stacks"].refused(Cluster(NotFound), item(), "no room", GONE)

    (pod, stack) = (told[2]["status"] for told in cluster.told)
    (condition,) = pod["conditions"]
    assert ("PodScheduled", "False", "Unschedulable", "no room", GONE) == tuple(condition.values())
    assert {"phase": "Pending", "message": "no room", "observedGeneration": 4} == stack


@pytest.mark.parametrize(
    ("groups", "behind"),
    [
        (PLACED, False),
        ([{"site": "s2"}], True),
        ([*PLACED, *PLACED], True),
        ([], True),
        (None, True),
        ("odd", True),
        (["odd"], True),
    ],
)
def test_whether_a_status_tells_an_older_place(groups: Any, behind: bool) -> None:
    given = item({}, {"groups": groups})

    assert behind == ADAPTERS["stacks"].is_behind(given, record("s1"))
    assert not ADAPTERS["pods"].is_behind(given, record("s1")), "a bound pod stays"


def test_what_the_node_of_a_placed_pod_is_called() -> None:
    sites = (
        Site("a", "east", "z1"),
        Site("b", "west", "z1"),
        Site("c", "west", "z2"),
        Site("d", "west", "z3", cluster="big"),
    )
    table = SiteTable(Inventory(sites=sites))

    names = [node_name(table, site) for site in ("a", "b", "c", "d", "gone")]

    assert ["east--z1", "west--z1", "z2", "big", "gone"] == names


def member() -> Member:
    return Member(Site("m", "r", "z"), SimpleNamespace(), Changes())  # type: ignore[arg-type]


def fill(found: Member, nodes: list[Node], pods: list[Pod]) -> None:
    for informer, objects in ((found.nodes, nodes), (found.pods, pods)):
        for each in objects:
            informer.store[f"{each.metadata.namespace}/{each.metadata.name}"] = each


def usable(name: str, ready: str = "True", *, closed: bool = False) -> Node:
    node = make_node(name).capacity(cpu="2500m", memory="3Gi").ready(ready)
    return (node.cordon() if closed else node).build()


def running(name: str, node: str = "a", phase: str = "Running", **labels: str) -> Pod:
    pod = make_pod(name).req(cpu="300m", memory="100Mi").phase(phase).label(labels)
    return (pod.node(node) if node else pod).build()


@pytest.mark.parametrize(
    ("pods", "used"),
    [
        pytest.param([], (0, 0), id="none"),
        pytest.param([running("p")], (1, 100), id="whole cores, rounded up"),
        pytest.param([running(f"p{n}") for n in range(4)], (2, 400), id="several"),
        pytest.param([running("p", phase="Succeeded")], (0, 0), id="it succeeded"),
        pytest.param([running("p", phase="Failed")], (0, 0), id="it failed"),
        pytest.param([running("p", phase="Pending")], (1, 100), id="it begins"),
        pytest.param([running("p", node="")], (0, 0), id="it waits"),
        pytest.param([running("p", node="closed")], (0, 0), id="on a node that does not count"),
        pytest.param([running("p", **{ALLOCATION_LABEL: "u"})], (0, 0), id="of ours: counted"),
        pytest.param([running("p"), running("q", phase="Failed")], (1, 100), id="mixed"),
    ],
)
def test_what_a_member_has_and_what_its_own_pods_take(
    pods: list[Pod], used: tuple[int, int]
) -> None:
    found = member()
    nodes = [usable("a"), usable("b"), usable("down", "False"), usable("closed", closed=True)]
    fill(found, nodes, pods)

    site, host = found.inventory()
    found.online = True
    online, _ = found.inventory()

    assert ("Offline", "Normal") == (site.status, online.status)
    assert (5, 6 * 1024, "kubernetes", "m") == (host.vcpus, host.memory, host.types, host.site)
    assert used == (host.used_vcpus, host.used_memory)


def test_only_members_that_changed_are_added_up_anew() -> None:
    told: list[Inventory] = []
    members = Members(told.append)
    for name in ("b", "a"):
        members.add(Site(name, "r", name), SimpleNamespace())  # type: ignore[arg-type]
    first = members.inventory({"a", "b"})
    fill(members.by_name["a"], [usable("n")], [])
    fill(members.by_name["b"], [usable("n")], [])
    second = members.inventory({"a"})
    del members.by_name["b"]
    third = members.inventory({"b"})

    assert [(0, 0), (2, 0), (2,)] == [
        tuple(host.vcpus for host in found.hosts) for found in (first, second, third)
    ]
    assert [["a", "b"], ["a", "b"], ["a"]] == [
        [site.id for site in found.sites] for found in (first, second, third)
    ]


def test_members_are_read_and_named_once(tmp_path: Path) -> None:
    assert ([], []) == read_members(tmp_path)
    entry = "{{name: {}, region: r, availability_zone: z, kubeconfig: '${{PWD}}/{}'}}"
    text = ", ".join(entry.format(name, n) for n, name in enumerate(("a", "b", "a")))
    (tmp_path / "members.yaml").write_text(f"members: [{text}]")

    members, problems = read_members(tmp_path)

    assert ["a", "b", "a"] == [each.site.id for each in members]
    assert f"{tmp_path.parent}/1" == members[1].kubeconfig
    assert any('members[2].name: "a" is listed twice' in str(each) for each in problems)
    assert not any("members[1]" in str(each) for each in problems)
