"""Devices are found, booked, shared and given back as claims say."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bayplan import api
from bayplan.api.devices import DeviceConstraint
from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
from bayplan.framework import (
    ClusterObjects,
    Code,
    CycleState,
    Depends,
    Diagnosis,
    Handle,
    NodeTable,
    Outcomes,
    unresolvable,
)
from bayplan.plugins import dynamic_resources
from bayplan.plugins.dynamic_resources.constraints import AllocationError, Constraints
from bayplan.plugins.dynamic_resources.results import FINALIZER, delete_calls
from bayplan.plugins.dynamic_resources.verdicts import Verdicts
from bayplan.testing import (
    ZONE,
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)

DRIVER = "gpu.example.com"


class Cluster:
    """Nodes a and b with the objects of a test."""

    def __init__(self, *objects, nodes=("a", "b")):
        table, self.objects = NodeTable(), ClusterObjects()
        for node in nodes:
            node = make_node(node) if isinstance(node, str) else node
            table.add_node(node.build())
        self.objects.put(make_device_class("gpu", f'device.driver == "{DRIVER}"').build())
        for item in objects:
            self.objects.put(item.build())
        self.handle = Handle(table=table, objects=self.objects)
        self.plugin = dynamic_resources.new(None, self.handle)

    def filter(self, pod):
        """(state, PreFilter text, text by node); an empty text is success."""
        state = CycleState()
        _, status = self.plugin.pre_filter(state, pod, self.handle.table)
        if status is not None:
            return state, status.message or status.code.text, {}
        verdict = self.plugin.filter(state, pod, self.handle.table)
        found = {}
        for row, name in enumerate(self.handle.table.names()):
            table_form = verdict.status_of(row)
            scalar_form = self.plugin.filter_node(state, pod, self.handle.table.info(row))
            assert (table_form and table_form.message) == (scalar_form and scalar_form.message)
            found[name] = table_form.message if table_form else ""
        return state, "", found

    def place(self, pod, node):
        state, problem, nodes = self.filter(pod)
        assert (problem, nodes[node]) == ("", "")
        assert self.plugin.reserve(state, pod, node) is None
        return state


def pod_with(*claims, name="pod"):
    builder = make_pod(name)
    for claim in claims:
        builder.device_claim(claim)
    return builder.build()


CANNOT = "cannot allocate all claims"
TOO_MANY = (
    "claim default/c, request r: adding 33 devices exceeds the claim limit of 32, "
    "with 0 already accounted for"
)


def test_a_pod_without_claims_is_skipped_and_has_nothing_to_deallocate():
    cluster = Cluster()
    state, problem, _ = cluster.filter(make_pod().build())

    assert "Skip" == problem
    _, status = cluster.plugin.post_filter(state, make_pod().build(), None)
    assert (Code.UNSCHEDULABLE, "") == (status.code, status.message)
    assert cluster.plugin.pre_score(state, make_pod().build(), None, None).code is Code.SKIP


def test_a_device_on_one_node_keeps_the_pod_there():
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    cluster = Cluster(make_slice("s", "d0", node="a"), claim)

    assert {"a": "", "b": CANNOT} == cluster.filter(pod_with("c"))[2]


def test_two_pods_do_not_get_one_device():
    claims = [make_resource_claim(n).exactly("r", request("gpu")) for n in ("c1", "c2")]
    cluster = Cluster(make_slice("s", "d0", node="a"), *claims)
    state = cluster.place(pod_with("c1"), "a")
    second = pod_with("c2", name="second")

    assert {"a": CANNOT, "b": CANNOT} == cluster.filter(second)[2]

    cluster.plugin.unreserve(state, pod_with("c1"), "a")
    cluster.plugin.unreserve(state, pod_with("c1"), "a")

    assert {"a": "", "b": CANNOT} == cluster.filter(second)[2]


def test_a_claim_on_its_way_makes_other_pods_wait():
    cluster = Cluster(
        make_slice("s", "d0", node="a"), make_resource_claim("c").exactly("r", request("gpu"))
    )
    cluster.place(pod_with("c"), "a")

    _, problem, _ = cluster.filter(pod_with("c", name="other"))

    assert "resource claim default/c is in the process of being allocated" == problem


def test_written_allocations_replace_booked_ones():
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    other = make_resource_claim("o").exactly("r", request("gpu"))
    cluster = Cluster(make_slice("s", "d0", "d1", node="a"), claim, other)
    cluster.place(pod_with("c"), "a")
    cluster.objects.put(claim.allocated((DRIVER, "a", "d0"), node="a").build())

    state = cluster.place(pod_with("o", name="other"), "a")
    effects = cluster.plugin.pre_bind(state, pod_with("o", name="other"), "a")
    results = effects.calls[-1].body["status"]["allocation"]["devices"]["results"]

    assert ["d1"] == [result["device"] for result in results]


@pytest.mark.parametrize(
    ("count", "devices", "text"),
    [(2, 2, ""), (3, 2, CANNOT), (None, 3, ""), (None, 0, CANNOT), (33, 40, TOO_MANY)],
)
def test_counts(count, devices, text):
    claim = make_resource_claim("c").exactly("r", request("gpu", count=count))
    names = [f"d{i}" for i in range(devices)]
    cluster = Cluster(make_slice("s", *names, node="a"), claim)

    assert text == cluster.filter(pod_with("c"))[2]["a"]


def test_all_devices_must_be_free():
    used = make_resource_claim("u").allocated((DRIVER, "a", "d1"), node="a")
    claim = make_resource_claim("c").exactly("r", request("gpu", count=None))
    cluster = Cluster(make_slice("s", "d0", "d1", node="a"), claim, used)

    assert CANNOT == cluster.filter(pod_with("c"))[2]["a"]


def test_selectors_of_class_and_request_both_count():
    big = make_device("big", {"model": "A100"}, {"memory": "80Gi"})
    small = make_device("small", {"model": "A100"}, {"memory": "10Gi"})
    want = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    claim = make_resource_claim("c").exactly("r", request("gpu", want))
    cluster = Cluster(
        make_slice("s1", small, node="a"), make_slice("s2", small, big, node="b"), claim
    )
    state, _, nodes = cluster.filter(pod_with("c"))

    assert {"a": CANNOT, "b": ""} == nodes
    cluster.plugin.reserve(state, pod_with("c"), "b")
    effects = cluster.plugin.pre_bind(state, pod_with("c"), "b")
    finalizer, status = effects.calls
    assert ["resource.kubernetes.io/delete-protection"] == finalizer.body["metadata"]["finalizers"]
    allocation = status.body["status"]["allocation"]
    assert [{"request": "r", "driver": DRIVER, "pool": "b", "device": "big"}] == (
        allocation["devices"]["results"]
    )
    field = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]
    assert ("metadata.name", ["b"]) == (field["key"], list(field["values"]))
    consumer = {"resource": "pods", "name": "pod", "uid": "uid-default-pod"}
    assert [consumer] == status.body["status"]["reservedFor"]


def test_a_wrong_expression_is_an_error_that_names_claim_and_device():
    claim = make_resource_claim("c").exactly(
        "r", request("gpu", "device.attributes['gpu.example.com'].nonsense == 1")
    )
    cluster = Cluster(make_slice("s", "d0", node="a"), claim)
    state = CycleState()
    cluster.plugin.pre_filter(state, pod_with("c"), cluster.handle.table)

    status = cluster.plugin.filter_node(state, pod_with("c"), cluster.handle.table.info_of("a"))

    assert Code.ERROR is status.code
    assert (
        "claim default/c: selector #0 on device gpu.example.com/a/d0: CEL runtime error: "
        "no such key: nonsense. consider using CEL optional chaining"
    ) in status.message


def test_the_first_choice_that_can_be_had_is_taken_and_scored():
    claim = make_resource_claim("c").first_of(
        "r",
        big=request("gpu", f'device.attributes["{DRIVER}"].model == "H100"'),
        any=request("gpu"),
    )
    cluster = Cluster(
        make_slice("s1", make_device("d0", {"model": "A100"}), node="a"),
        make_slice("s2", make_device("d0", {"model": "H100"}), node="b"),
        claim,
    )
    state, _, nodes = cluster.filter(pod_with("c"))

    assert {"a": "", "b": ""} == nodes
    assert [7, 8] == cluster.plugin.score(state, pod_with("c"), cluster.handle.table).tolist()


def test_the_search_backs_up_when_a_later_request_fails():
    claim = make_resource_claim("c").exactly("any", request("gpu"))
    claim.exactly("h", request("gpu", f'device.attributes["{DRIVER}"].model == "H100"'))
    devices = (make_device("d0", {"model": "H100"}), make_device("d1", {"model": "A100"}))
    cluster = Cluster(make_slice("s", *devices, node="a"), claim)

    assert "" == cluster.filter(pod_with("c"))[2]["a"]


@pytest.mark.parametrize(
    ("constrain", "values", "text"),
    [
        ("same", ("x", "x"), ""),
        ("same", ("x", "y"), CANNOT),
        ("same", ("x", "y", "x"), ""),
        ("distinct", ("x", "x"), CANNOT),
        ("distinct", ("x", "x", "y"), ""),
        ("same", ("x", None), CANNOT),
    ],
)
def test_constraints(constrain, values, text):
    claim = make_resource_claim("c").exactly("r", request("gpu", count=2))
    getattr(claim, constrain)(f"{DRIVER}/numa")
    devices = [
        make_device(f"d{i}", {"numa": value} if value else None) for i, value in enumerate(values)
    ]
    cluster = Cluster(make_slice("s", *devices, node="a"), claim)

    assert text == cluster.filter(pod_with("c"))[2]["a"]


def test_tainted_devices_need_a_toleration():
    taint = {"key": "sick", "effect": "NoSchedule"}
    tolerant = request("gpu", tolerations=[{"key": "sick", "operator": "Exists"}])
    cluster = Cluster(
        make_slice("s", make_device("d0", taints=[taint]), node="a"),
        make_resource_claim("c1").exactly("r", request("gpu")),
        make_resource_claim("c2").exactly("r", tolerant),
    )

    assert CANNOT == cluster.filter(pod_with("c1"))[2]["a"]
    assert "" == cluster.filter(pod_with("c2"))[2]["a"]


def test_admin_access_sees_devices_in_use():
    used = make_resource_claim("u").allocated((DRIVER, "a", "d0"), node="a")
    admin = make_resource_claim("c").exactly("r", request("gpu", adminAccess=True))
    cluster = Cluster(make_slice("s", "d0", node="a"), used, admin)

    assert "" == cluster.filter(pod_with("c"))[2]["a"]


def test_partitions_share_counters():
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    takes = [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]
    devices = [make_device(f"d{i}", consumesCounters=takes) for i in range(4)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    cluster = Cluster(
        make_slice("s", *devices, node="a", pool=pool),
        make_slice("t", node="a", pool=pool, sharedCounters=counters),
        make_resource_claim("c2").exactly("r", request("gpu", count=2)),
        make_resource_claim("c3").exactly("r", request("gpu", count=3)),
    )

    assert "" == cluster.filter(pod_with("c2"))[2]["a"]
    assert CANNOT == cluster.filter(pod_with("c3"))[2]["a"]


SICK = [{"key": "sick", "effect": "NoSchedule"}]


def with_counters(*devices):
    """A pool whose devices take from one card of 40Gi what they say."""
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    return (
        make_slice("s", *devices, node="a", pool=pool),
        make_slice("t", node="a", pool=pool, sharedCounters=counters),
    )


def takes(amount):
    return [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]


def test_a_device_that_is_refused_for_its_taint_gives_its_counters_back():
    devices = (
        make_device("d0", consumesCounters=takes("40Gi"), taints=SICK),
        make_device("d1", consumesCounters=takes("40Gi")),
    )
    claim = make_resource_claim("c").exactly("r", request("gpu"))

    assert "" == Cluster(*with_counters(*devices), claim).filter(pod_with("c"))[2]["a"]


def test_a_device_that_is_refused_for_a_constraint_gives_its_counters_back():
    devices = [
        make_device(f"d{number}", {"numa": value}, consumesCounters=takes("20Gi"))
        for number, value in enumerate("xyx")
    ]
    claim = make_resource_claim("c").exactly("r", request("gpu", count=2)).same(f"{DRIVER}/numa")

    assert "" == Cluster(*with_counters(*devices), claim).filter(pod_with("c"))[2]["a"]


@pytest.mark.parametrize("shared", ["counters", "constraint"])
def test_a_device_that_has_too_little_left_gives_back_what_it_took(shared):
    """All devices cannot be had, for the first is too small; the second choice is another one."""
    amount = "40Gi" if shared == "counters" else "1Gi"
    numa = {"counters": "xx", "constraint": "xy"}[shared]
    devices = [
        make_device(
            f"d{number}",
            {"numa": numa[number], "number": number},
            {"memory": f"{size}Gi"},
            allowMultipleAllocations=True,
            consumesCounters=takes(amount),
        )
        for number, size in enumerate((4, 10))
    ]
    much = {"requests": {"memory": "8Gi"}}
    second = f'device.attributes["{DRIVER}"].number == 1'
    claim = make_resource_claim("c").first_of(
        "r",
        all=request("gpu", allocationMode="All", capacity=much),
        one=request("gpu", second, capacity=much),
    )
    claim.same(f"{DRIVER}/numa")

    assert "" == Cluster(*with_counters(*devices), claim).filter(pod_with("c"))[2]["a"]


def test_a_shared_device_gives_parts_of_its_capacity():
    device = make_device("d0", None, {"memory": "10Gi"}, allowMultipleAllocations=True)
    part = request("gpu", capacity={"requests": {"memory": "4Gi"}})
    claims = [make_resource_claim(f"c{i}").exactly("r", part) for i in range(3)]
    cluster = Cluster(make_slice("s", device, node="a"), *claims)
    state = cluster.place(pod_with("c0"), "a")
    body = cluster.plugin.pre_bind(state, pod_with("c0"), "a").calls[-1].body
    result = body["status"]["allocation"]["devices"]["results"][0]

    assert {"memory": "4Gi"} == result["consumedCapacity"]
    assert 36 == len(result["shareID"])
    cluster.place(pod_with("c1", name="p1"), "a")
    assert CANNOT == cluster.filter(pod_with("c2", name="p2"))[2]["a"]


def test_only_the_newest_complete_pool_counts():
    pool = {"pool": {"name": "p", "generation": 2, "resourceSliceCount": 2}}
    old = {"pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    everything = make_resource_claim("all").exactly("r", request("gpu", count=None))
    first = make_slice("s1", "d1", node="a", **pool)
    cluster = Cluster(make_slice("s0", "d0", node="a", **old), first, claim, everything)

    assert CANNOT == cluster.filter(pod_with("c"))[2]["a"]
    assert "p is currently being updated" in cluster.filter(pod_with("all"))[2]["a"]
    cluster.objects.put(make_slice("s2", "d2", node="a", **pool).build())
    assert "" == cluster.filter(pod_with("c"))[2]["a"]


def test_devices_of_labelled_nodes():
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}]
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    cluster = Cluster(
        make_slice("s", "d0", nodeSelector={"nodeSelectorTerms": terms}),
        claim,
        nodes=(make_node("a").zone("z1"), make_node("b").zone("z2")),
    )

    assert {"a": "", "b": CANNOT} == cluster.filter(pod_with("c"))[2]


def test_network_devices_give_every_node_one_answer():
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    cluster = Cluster(make_slice("s", "d0"), claim, nodes=[f"n{i}" for i in range(20)])
    state, _, nodes = cluster.filter(pod_with("c"))

    assert {""} == set(nodes.values())
    assert cluster.plugin.reserve(state, pod_with("c"), "n19") is None
    body = cluster.plugin.pre_bind(state, pod_with("c"), "n19").calls[-1].body
    assert "nodeSelector" not in body["status"]["allocation"]


def test_an_allocated_claim_elsewhere_is_taken_back_if_nobody_else_uses_it():
    claim = make_resource_claim("c").exactly("r", request("gpu"))
    claim.allocated((DRIVER, "gone", "d0"), node="gone").reserved_for("pod")
    cluster = Cluster(claim)
    state, _, nodes = cluster.filter(pod_with("c"))

    assert {"resourceclaim not available on the node"} == set(nodes.values())
    _, status = cluster.plugin.post_filter(state, pod_with("c"), rejected(nodes, "NodeAffinity"))
    assert (Code.UNSCHEDULABLE, "") == (status.code, status.message)
    ours = rejected(nodes, "DynamicResources")
    result, status = cluster.plugin.post_filter(state, pod_with("c"), ours)
    assert "deallocation of ResourceClaim completed" == status.message
    assert result.effects.calls[0].body["status"]["allocation"] is None

    cluster.objects.put(claim.reserved_for("other").build())
    state, _, _ = cluster.filter(pod_with("c"))
    _, status = cluster.plugin.post_filter(state, pod_with("c"), ours)
    assert (Code.UNSCHEDULABLE, "") == (status.code, status.message)


def rejected(nodes, plugin):
    """What PostFilter is told when one plugin rejects all nodes."""
    status = unresolvable("no").with_plugin(plugin)
    rows = {name: row for row, name in enumerate(nodes)}
    own = dict.fromkeys(rows.values(), status)
    return Diagnosis(tuple(nodes), rows, Outcomes(), own=own)


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (None, 'could not find ResourceClaim "default/c"'),
        (make_resource_claim("c").terminating(), 'resourceclaim "c" is being deleted'),
    ],
)
def test_an_unusable_claim_gates_the_pod(claim, text):
    cluster = Cluster(*([claim] if claim else []))

    assert text == cluster.plugin.pre_enqueue(pod_with("c")).message
    assert text == cluster.filter(pod_with("c"))[1]


def test_template_claims_must_be_made_and_owned():
    cluster = Cluster(make_resource_claim("made").exactly("r", request("gpu")))
    waiting = make_pod().device_template("t").build()
    foreign = make_pod().device_template("t", "made").build()

    assert 'pod "default/pod": ResourceClaim not created yet' == cluster.filter(waiting)[1]
    assert "was not created for Pod default/pod" in cluster.filter(foreign)[1]


def test_a_missing_class_is_told():
    cluster = Cluster(make_resource_claim("c").exactly("r", request("nope")))

    assert "request r: device class nope does not exist" == cluster.filter(pod_with("c"))[1]


def test_extended_resources_are_served_by_devices():
    served = make_device_class("card", f'device.driver == "{DRIVER}"', resource="example.com/card")
    cluster = Cluster(
        served,
        make_slice("s", "d0", "d1", node="a"),
        nodes=("a", make_node("b"), make_node("c").capacity({"example.com/card": 4})),
    )
    pod = make_pod().req({"example.com/card": 2}).build()
    state, _, nodes = cluster.filter(pod)

    assert {"a": "", "b": CANNOT, "c": ""} == nodes
    assert cluster.plugin.reserve(state, pod, "a") is None
    create, finalizer, status, mapping = cluster.plugin.pre_bind(state, pod, "a").calls
    assert "create" == create.verb
    wanted = create.body["spec"]["devices"]["requests"][0]
    assert ("container-0-request-0", "card", 2) == (
        wanted["name"], wanted["exactly"]["deviceClassName"], wanted["exactly"]["count"],
    )  # fmt: skip
    assert create.name == finalizer.name == status.name
    assert [{"containerName": "c0", "resourceName": "example.com/card",
             "requestName": "container-0-request-0"}] == (
        mapping.body["status"]["extendedResourceClaimStatus"]["requestMappings"]
    )  # fmt: skip


def test_init_containers_use_what_later_containers_have():
    served = make_device_class("card", f'device.driver == "{DRIVER}"', resource="example.com/card")
    pod = make_pod().req({"example.com/card": 1})
    pod.spec["initContainers"] = [{"name": "i", "resources": {"requests": {"example.com/card": 3}}}]
    cluster = Cluster(served, make_slice("s", "d0", "d1", "d2", node="a"))
    state, _, nodes = cluster.filter(pod.build())

    assert "" == nodes["a"]
    cluster.plugin.reserve(state, pod.build(), "a")
    create = cluster.plugin.pre_bind(state, pod.build(), "a").calls[0]
    counts = [item["exactly"]["count"] for item in create.body["spec"]["devices"]["requests"]]
    assert [2, 1] == counts


@settings(max_examples=60, deadline=None)
@given(
    models=st.lists(st.sampled_from("xyz"), max_size=5),
    wants=st.lists(st.tuples(st.sampled_from("xyz*"), st.integers(1, 2)), min_size=1, max_size=3),
)
def test_a_solution_is_found_exactly_when_there_is_one(models, wants):
    claim = make_resource_claim("c")
    for number, (model, count) in enumerate(wants):
        text = "true" if model == "*" else f'device.attributes["{DRIVER}"].model == "{model}"'
        claim.exactly(f"r{number}", request("gpu", text, count=count))
    devices = [make_device(f"d{i}", {"model": model}) for i, model in enumerate(models)]
    cluster = Cluster(make_slice("s", *devices, node="a"), claim)
    slots = [model for model, count in wants for _ in range(count)]
    possible = len(slots) <= len(models) and any(
        all(want in ("*", model) for want, model in zip(slots, order, strict=True))
        for order in itertools.permutations(models, len(slots))
    )

    assert ("" if possible else CANNOT) == cluster.filter(pod_with("c"))[2]["a"]


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("place", "undo", "slice", "class", "free")), st.integers(0, 3)),
        max_size=12,
    )
)
def test_kept_answers_equal_fresh_ones(steps):
    counts = (1, 2, None)
    cluster = Cluster(
        make_slice("s0", "d0", "d1", node="a"),
        make_slice("s1", "d0", "d1", "d2", node="b"),
        nodes=("a", "b", "c"),
    )
    placed = []
    for number, (what, choice) in enumerate(steps):
        name = f"c{number}"
        claim = make_resource_claim(name).exactly("r", request("gpu", count=counts[choice % 3]))
        cluster.objects.put(claim.build())
        pod = pod_with(name, name=f"p{number}")
        state, _, nodes = cluster.filter(pod)
        fresh = dynamic_resources.new(None, cluster.handle)
        fresh._verdicts = Verdicts(fresh._books, fresh._pools, cluster.objects.device_classes)
        kept, cluster.plugin = cluster.plugin, fresh

        assert nodes == cluster.filter(pod)[2]
        cluster.plugin = kept
        fitting = [node for node, text in nodes.items() if not text]
        if what == "place" and fitting:
            kept.reserve(state, pod, fitting[choice % len(fitting)])
            placed.append((state, pod, claim, fitting[choice % len(fitting)]))
        elif what == "undo" and placed:
            state, pod, _, node = placed.pop()
            kept.unreserve(state, pod, node)
        elif what == "slice":
            devices = [f"d{i}" for i in range(choice)]
            cluster.objects.put(make_slice("s2", *devices, node="c" if choice else "").build())
        elif what == "class":
            text = f'device.driver == "{DRIVER}" && {"true" if choice else "false"}'
            cluster.objects.put(make_device_class("gpu", text).build())
        elif what == "free" and placed:
            cluster.objects.resource_claims.delete(placed.pop()[2].build().key)


def test_answers_are_kept_for_resources_that_no_class_serves():
    cluster = Cluster()
    plugin = cluster.plugin
    plain = make_pod().req(cpu=1).build()
    unserved = make_pod().req({"example.com/card": 1}).build()
    before = plugin.revision(CycleState(), unserved)

    assert plugin.depends_on(plain) is Depends.NODE
    assert plugin.depends_on(unserved) is Depends.CLUSTER
    assert before is not None
    assert plugin.revision(CycleState(), pod_with("c")) is None
    cluster.objects.put(make_device_class("other").build())
    assert plugin.revision(CycleState(), unserved) not in (None, before)
    cluster.objects.put(make_device_class("card", resource="example.com/card").build())
    assert plugin.revision(CycleState(), unserved) is None


@pytest.mark.parametrize(("version", "fits"), [("1.36", True), ("1.37", False)])
def test_a_taint_rule_keeps_requests_off_devices_since_1_37(version, fits):
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    rule = {"deviceSelector": {"driver": "gpu.example.com", "pool": "a"}, "taint": taint}
    body = {
        "nodes": [api.to_builtins(make_node("a").build())],
        "resourceSlices": [api.to_builtins(make_slice("s", "d0", node="a").build())],
        "deviceClasses": [api.to_builtins(make_device_class("gpu").build())],
        "resourceClaims": [
            api.to_builtins(make_resource_claim("c").exactly("r", request("gpu")).build())
        ],
        "deviceTaintRules": [{"metadata": {"name": "rule"}, "spec": rule}],
    }

    told = decide(body, api.to_builtins(pod_with("c")), gates=FeatureGates(version=version))

    assert fits == ("best" in told)


@pytest.mark.parametrize(("asked", "text"), [("b", None), ("a", "no such key")])
def test_an_error_ends_the_attempt_only_where_the_search_gets(asked, text):
    expression = f'device.attributes["{DRIVER}"].model == "x"'
    devices = {"a": make_device("d0", {"other": "x"}), "b": make_device("d1", {"model": "x"})}
    claim = make_resource_claim("c").exactly("r", request("any")).build()
    objects = {
        "nodes": [api.to_builtins(make_node(name).build()) for name in "ab"],
        "resourceSlices": [
            api.to_builtins(make_slice(f"s-{name}", devices[name], node=name).build())
            for name in "ab"
        ],
        "deviceClasses": [api.to_builtins(make_device_class("any", expression).build())],
        "resourceClaims": [api.to_builtins(claim)],
    }
    pod = api.to_builtins(pod_with("c"))
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": asked}
    answer = decide(objects, pod)

    if text is None:
        assert ["b"] == answer["best"]
    else:
        assert text in answer["error"]


def test_preemption_tells_what_went_wrong_on_every_node():
    objects = {
        "nodes": [make_node(name).capacity({"cpu": 2}).body() for name in "ab"],
        "pods": [make_pod(f"p-{name}").node(name).req({"cpu": 2}).body() for name in "ab"],
        "deviceClasses": [make_device_class("gpu", 'device.attributes["x"].none == 1').body()],
        "resourceSlices": [make_slice(f"s-{name}", "d0", node=name).body() for name in "ab"],
        "resourceClaims": [make_resource_claim("c").exactly("r0", request("gpu")).body()],
    }
    pod = make_pod("pod").req({"cpu": 2}).priority(10).device_claim("c").body()
    message = decide(objects, pod, gates=FeatureGates({}, "1.36"))["message"]

    told = 'running "DynamicResources" filter plugin: '
    error = f"{told}class gpu: selector #0: CEL runtime error: no such key: none"
    assert message.endswith(f" preemption: {error}")  # both nodes say the same, in 1.37 by device
    message = decide(objects, pod, gates=FeatureGates({}, "1.37"))["message"]
    assert 2 == message.count(told)
    assert " preemption: [running" in message
    assert message.endswith("optional fields]")


def test_of_init_containers_that_want_as_many_the_first_one_asks():
    served = make_device_class("card", f'device.driver == "{DRIVER}"', resource="example.com/card")
    pod = make_pod()
    wanted = {"requests": {"example.com/card": 2}}
    pod.spec["initContainers"] = [{"name": name, "resources": wanted} for name in ("i", "j")]
    cluster = Cluster(served, make_slice("s", "d0", "d1", node="a"))
    built = pod.build()
    state, *_ = cluster.filter(built)
    assert cluster.plugin.reserve(state, built, "a") is None
    create, *_, mapping = cluster.plugin.pre_bind(state, built, "a").calls

    assert ["container-0-request-0"] == [
        each["name"] for each in create.body["spec"]["devices"]["requests"]
    ]
    mappings = mapping.body["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert {"container-0-request-0"} == {each["requestName"] for each in mappings}


def test_a_claim_that_is_gone_already_need_not_be_removed():
    claim = make_resource_claim("c").exactly("r", request("card")).build()
    unblock, gone = delete_calls(claim)

    assert ("patch", "delete") == (unblock.verb, gone.verb)
    assert gone.ignore_not_found


def test_a_claim_that_is_removed_keeps_the_finalizers_of_others():
    claim = make_resource_claim("c").exactly("r", request("card")).build()
    metadata = replace(claim.metadata, finalizers=["a.example/x", FINALIZER, "b.example/y"])

    unblock, _ = delete_calls(replace(claim, metadata=metadata))

    assert ["a.example/x", "b.example/y"] == unblock.body["metadata"]["finalizers"]


def test_a_constraint_without_an_attribute_is_an_error():
    with pytest.raises(AllocationError, match="a constraint of an unknown type"):
        Constraints([DeviceConstraint()], modern=True)
