"""PodGroups, Workloads and DeviceTaintRules: the real API server and ours answer alike.

One list of requests is sent to both; compared are status, object or message and causes, and the
columns and cells of tables. Of a message that shows a whole object only its beginning is compared.
"""

import json
import re
import ssl
import urllib.error
import urllib.request

import pytest

from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_assets, kube_version, start_embedded, start_kube

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-groups"),
]
GATES = {
    "1.36": "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,"
    "DRADeviceTaintRules=true",
    "1.37": "GenericWorkload=true",
}
NAMED = {"1.36": ("v1alpha2", "v1beta2"), "1.37": ("v1beta1", "v1")}
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
SHOWN = re.compile(r"((?:Duplicate|Invalid) value: )\[?\{.*\}\]?")
GANG = {"gang": {"minCount": 2}}
WHOLE = {"gang": {"minGroupCount": 2}}


def group(name, policy=None, **spec):
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy or GANG, **spec}}


def workload(name, *templates, **spec):
    return {"metadata": {"name": name}, "spec": {"podGroupTemplates": list(templates), **spec}}


def template(name="t", **more):
    return {"name": name, "schedulingPolicy": GANG, **more}


def rule(name, **spec):
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    return {"metadata": {"name": name}, "spec": {"taint": taint, **spec}}


def requests(version):
    """Method, path and body of every request, in order."""
    groups = f"/apis/scheduling.k8s.io/{NAMED[version][0]}"
    pods, works = (f"{groups}/namespaces/default/{name}" for name in ("podgroups", "workloads"))
    rules = f"/apis/resource.k8s.io/{NAMED[version][1]}/devicetaintrules"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    modern = version == "1.37"
    reference = {"workloadName": "w"} | ({"templateName": "t"} if modern else {})
    if not modern:
        reference["podGroupTemplateName"] = "t"
    made_by = (
        {"workloadRef": reference} if modern else {"podGroupTemplateRef": {"workload": reference}}
    )
    condition = {"type": "Odd", "status": "Perhaps", "reason": "1"}
    yield "GET", groups, None
    yield "POST", classes, {"metadata": {"name": "high"}, "value": 7}
    yield "POST", pods, group("plain")
    yield "POST", pods, group("none", {"other": {}})
    yield "POST", pods, group("both", {"basic": {}, **GANG})
    yield "POST", pods, group("zero", {"gang": {"minCount": 0}})
    yield "POST", pods, group("negative", {"gang": {"minCount": -3}})
    yield "POST", pods, group("Bad Name")
    yield "POST", pods, group("high", priorityClassName="high")
    yield "POST", pods, group("wrong", priorityClassName="high", priority=9)
    yield "POST", pods, group("absent", priorityClassName="absent")
    yield "POST", pods, group("critical", priorityClassName="system-node-critical")
    yield "POST", pods, group("odd", disruptionMode={"all": {}, "single": {}} if modern else "Odd")
    yield "POST", pods, group("constrained", schedulingConstraints={"topology": [{"key": "rack"}]})
    yield "POST", works, workload("w", template())
    yield "POST", works, workload("twice", template(), template())
    yield "POST", works, workload("many", *(template(f"t{i}") for i in range(9)))
    yield "POST", works, workload("nothing")
    yield "POST", works, workload("names", template("Bad_Name"))
    yield "POST", works, workload("owner", template(), controllerRef={"kind": "", "name": "a/b"})
    yield "POST", works, workload("priorities", template("a", priorityClassName="x"), template("b"))
    yield "POST", pods, group("made", **made_by)
    yield "PATCH", f"{pods}/plain", {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}
    yield "PATCH", f"{pods}/plain", {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}
    yield "PATCH", f"{pods}/plain", {"spec": {"priorityClassName": "other"}}
    yield "PATCH", f"{pods}/plain", {"metadata": {"labels": {"a": "b"}}}
    yield "PATCH", f"{works}/w", {"spec": {"podGroupTemplates": [template("other")]}}
    yield "PATCH", f"{works}/w", {"spec": {"controllerRef": {"kind": "Job", "name": "j"}}}
    yield "PATCH", f"{pods}/made/status", {"status": {"conditions": [condition]}}
    good = {"status": "True", "reason": "Good", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    yield "PATCH", f"{pods}/made/status", {"status": {"conditions": [{"type": "A", **good}]}}
    kind = "PodGroupInitiallyScheduled" if modern else "PodGroupScheduled"
    yield "PATCH", f"{pods}/made/status", {"status": {"conditions": [{"type": kind, **good}]}}
    yield "TABLE", pods, None
    yield "TABLE", works, None
    yield "POST", rules, rule("r")
    yield "POST", rules, rule("bad", taint={"key": "", "effect": "Never"})
    yield (
        "POST",
        rules,
        rule("bad", deviceSelector={"driver": "B d", "pool": "a//b", "device": "A"}),
    )
    yield "PATCH", f"{rules}/r", {"spec": {"deviceSelector": {"driver": "gpu.example.com"}}}
    yield "PATCH", f"{rules}/r/status", {"status": {"conditions": [condition]}}
    yield "TABLE", rules, None
    yield "DELETE", f"{pods}/plain", None


def constrained_requests(version):
    """The same for what only TopologyAwareWorkloadScheduling lets through."""
    pods, works = (
        f"/apis/scheduling.k8s.io/{NAMED[version][0]}/namespaces/default/{name}"
        for name in ("podgroups", "workloads")
    )

    def topology(*keys):
        return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}

    for number, keys in enumerate([["rack"], [], ["a", "b"], [""], ["no label"], ["a/b/c"]]):
        yield "POST", pods, group(f"g{number}", **topology(*keys))
        yield "POST", works, workload(f"w{number}", template(**topology(*keys)))
    yield "PATCH", f"{pods}/g0", {"spec": topology("zone")}
    yield "PATCH", f"{pods}/g0", {"spec": {"schedulingConstraints": None}}
    yield "PATCH", f"{works}/w0", {"spec": {"podGroupTemplates": [template(**topology("zone"))]}}
    yield "TABLE", pods, None


def composite_requests(version):
    """The same for composite groups, which 1.36 does not have."""
    if version == "1.36":
        return
    space = "/apis/scheduling.k8s.io/{}/namespaces/default/{}".format
    composites = space("v1alpha3", "compositepodgroups")
    pods, works = space("v1beta1", "podgroups"), space("v1beta1", "workloads")
    reference = {"workloadName": "w", "templateName": "t"}

    def composite(name, policy=None, **spec):
        spec = {"workloadRef": reference, **spec}
        return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy or WHOLE, **spec}}

    def tree(name, *composites, **more):
        plain = {"podGroupTemplates": [template(f"{name}-leaf")]}
        inner = {"compositePodGroupTemplates": list(composites)} if composites else plain
        return {"name": name, "schedulingPolicy": WHOLE, **inner, **more}

    yield (
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "metadata": {"name": "high"},
            "value": 7,
        },
    )
    yield "POST", composites, composite("plain")
    yield "POST", composites, composite("none", {"other": {}})
    yield "POST", composites, composite("both", {"basic": {}, **WHOLE})
    yield "POST", composites, composite("zero", {"gang": {"minGroupCount": 0}})
    yield "POST", composites, composite("Bad Name")
    yield "POST", composites, composite("free", workloadRef=None)
    yield "POST", composites, composite("high", priorityClassName="high")
    yield "POST", composites, composite("wrong", priorityClassName="high", priority=9)
    yield "POST", composites, composite("child", parentCompositePodGroupName="plain")
    yield "POST", composites, composite("odd", parentCompositePodGroupName="No Name")
    yield "POST", composites, composite("modes", disruptionMode={"all": {}, "single": {}})
    for number, keys in enumerate([["rack"], ["a", "b"], ["no label"]]):
        constraints = {"topology": [{"key": key} for key in keys]}
        yield "POST", composites, composite(f"c{number}", schedulingConstraints=constraints)
    yield (
        "PATCH",
        f"{composites}/plain",
        {"spec": {"schedulingPolicy": {"gang": {"minGroupCount": 4}}}},
    )
    yield "PATCH", f"{composites}/plain", {"metadata": {"labels": {"a": "b"}}}
    condition = {"type": "Odd", "status": "Perhaps", "reason": "1"}
    yield "PATCH", f"{composites}/plain/status", {"status": {"conditions": [condition]}}
    yield "POST", pods, group("part", parentCompositePodGroupName="plain", workloadRef=reference)
    yield "POST", pods, group("orphan", parentCompositePodGroupName="plain")
    for number, templates in enumerate(
        [
            [tree("a")],
            [tree("a"), tree("b", tree("c"))],
            [tree("a", tree("a"))],
            [tree("a", tree("b", tree("c", tree("d"))))],
            [tree("a", tree("b", priorityClassName="x"))],
            [{"name": "a", "schedulingPolicy": WHOLE}],
        ]
    ):
        spec = {"compositePodGroupTemplates": templates}
        yield "POST", works, {"metadata": {"name": f"w{number}"}, "spec": spec}
    yield "TABLE", composites, None


SETS = {
    "": requests,
    ",TopologyAwareWorkloadScheduling=true": constrained_requests,
    ",TopologyAwareWorkloadScheduling=true,CompositePodGroup=true": composite_requests,
}
"""Further gates, and what is asked with them."""


def ask(cluster, method, path, body):
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    if method == "TABLE":
        method, headers["Accept"] = "GET", TABLE
    if method == "PATCH":
        headers["Content-Type"] = "application/merge-patch+json"
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(cluster.server + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, context=ssl._create_unverified_context()) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def plain(status, body):
    """An answer without what is never the same."""
    if body.get("kind") == "Table":
        columns = [
            (each["name"], each["type"], each["format"]) for each in body["columnDefinitions"]
        ]
        rows = sorted([str(c) for c in row["cells"][:-1]] for row in body["rows"])
        return status, columns, [[c for c in row if not re.fullmatch(r"\d+m?s", c)] for row in rows]
    for name in (
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "deletionTimestamp",
    ):
        body.get("metadata", {}).pop(name, None)
    (body.get("spec") or {}).get("taint", {}).pop("timeAdded", None)
    for each in body.get("resources", ()):
        each.pop("storageVersionHash", None)
    for each in (body, *(body.get("details", {}) or {}).get("causes", ())):
        if "message" in each:
            each["message"] = SHOWN.sub(r"\1…", each["message"])
    return status, body


def sets():
    """The gates whose kinds the release at hand knows."""
    if kube_assets() is None:
        return list(SETS)
    return [gates for gates, wanted in SETS.items() if list(wanted(minor(kube_version())))]


@pytest.fixture(scope="module", params=sets(), ids=lambda gates: SETS[gates].__name__)
def answers(request):
    version, wanted = minor(kube_version()), SETS[request.param]
    groups = [NAMED[version][0], *(["v1alpha3"] if wanted is composite_requests else [])]
    served = [
        *(f"scheduling.k8s.io/{each}=true" for each in groups),
        "resource.k8s.io/v1beta2=true",
    ]
    gates = f"--feature-gates={GATES[version]}{request.param}"
    real_flags = (gates, f"--runtime-config={','.join(served)}")
    with (
        start_kube(flags=real_flags) as real,
        start_embedded(None, f"--emulated-version={version}", gates) as ours,
    ):
        return [
            (
                f"{method} {path} {json.dumps(body)}",
                *(plain(*ask(each, method, path, body)) for each in (real, ours)),
            )
            for method, path, body in wanted(version)
        ]


def test_both_answer_the_same(answers):
    differing = [
        f"{asked}\n  real {json.dumps(real)}\n  ours {json.dumps(ours)}"
        for asked, real, ours in answers
        if real != ours
    ]

    assert not differing, "\n".join(differing)
    assert answers
