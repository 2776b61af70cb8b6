"""What is written to a claim: drivers' parameters and the amounts of shared devices."""

import pytest

from bayplan.config import FeatureGates
from bayplan.framework import ClusterObjects, CycleState, Handle, NodeTable
from bayplan.plugins import dynamic_resources
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)


def allocated(version, *objects):
    """The devices that claim `c` gets on the only node."""
    table, known = NodeTable(), ClusterObjects()
    table.add_node(make_node("a").build())
    for item in objects:
        known.put(item.build())
    handle = Handle(table=table, objects=known, gates=FeatureGates(version=version))
    plugin = dynamic_resources.new(None, handle)
    state, pod = CycleState(), make_pod().device_claim("c").build()
    plugin.pre_filter(state, pod, table)
    assert plugin.filter_node(state, pod, table.info_of("a")) is None
    plugin.reserve(state, pod, "a")
    status = plugin.pre_bind(state, pod, "a").calls[-1].body["status"]
    return status["allocation"]["devices"]


def parameters(text, *requests):
    found = {"opaque": {"driver": "gpu.example.com", "parameters": {"for": text}}}
    return {**found, "requests": list(requests)} if requests else found


def told(devices):
    return [
        (item["source"], item["opaque"]["parameters"]["for"], item.get("requests"))
        for item in devices["config"]
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "1.36",
            [
                ("FromClass", "class", ["r0", "r1"]),
                ("FromClaim", "all", None),
                ("FromClaim", "both", ["r0", "r1"]),
                ("FromClaim", "both", ["r0", "r1"]),
                ("FromClaim", "one", ["r1"]),
            ],
        ),
        (
            "1.37",
            [
                ("FromClass", "class", None),
                ("FromClaim", "all", None),
                ("FromClaim", "both", None),
                ("FromClaim", "one", ["r1"]),
            ],
        ),
    ],
)
def test_parameters_of_class_and_claim(version, expected):
    served = make_device_class("gpu")
    served.spec["config"] = [parameters("class")]
    claim = make_resource_claim("c").exactly("r0", request("gpu")).exactly("r1", request("gpu"))
    claim.spec["devices"]["config"] = [
        parameters("all"),
        parameters("both", "r0", "r1"),
        parameters("one", "r1"),
    ]
    devices = allocated(version, served, make_slice("s", "d0", "d1", node="a"), claim)

    assert told(devices) == expected


def test_parameters_of_a_choice_that_was_not_taken_are_left_out():
    claim = make_resource_claim("c").first_of("r", many=request("gpu", count=2), one=request("gpu"))
    claim.exactly("other", request("gpu"))
    claim.spec["devices"]["config"] = [parameters("many", "r/many"), parameters("one", "r/one")]
    devices = allocated(
        "1.37", make_device_class("gpu"), make_slice("s", "d0", "d1", node="a"), claim
    )

    assert told(devices) == [("FromClaim", "one", ["r/one"])]


STEPS = {"default": "1k", "validRange": {"min": "1024", "step": "1024"}}


@pytest.mark.parametrize(
    ("version", "policy", "asked", "amount"),
    [
        ("1.37", None, "1500m", "1500m"),
        ("1.37", STEPS, "1500", "2048"),
        ("1.36", STEPS, "1500", "2Ki"),
        ("1.37", STEPS, "1", "1024"),
        ("1.37", STEPS, None, "1k"),
        ("1.37", None, None, "4Ki"),
        ("1.37", {"default": "1k", "validValues": ["1k", "3Ki"]}, "2k", "3Ki"),
    ],
)
def test_amounts_are_written_as_upstream_writes_them(version, policy, asked, amount):
    device = make_device("d0", None, {"slots": "4Ki"}, allowMultipleAllocations=True)
    if policy is not None:
        device["capacity"]["slots"]["requestPolicy"] = policy
    wanted = request("gpu")
    if asked is not None:
        wanted["capacity"] = {"requests": {"slots": asked}}
    devices = allocated(
        version,
        make_device_class("gpu"),
        make_slice("s", device, node="a"),
        make_resource_claim("c").exactly("r", wanted),
    )

    assert devices["results"][0]["consumedCapacity"] == {"slots": amount}
