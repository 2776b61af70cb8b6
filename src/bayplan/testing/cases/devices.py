"""Random devices and claims for them: dynamic resource allocation."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import ZONE, ZONES

DRIVER = "gpu.example.com"
MODELS = ("a100", "h100")
SELECTORS = (
    f'device.attributes["{DRIVER}"].model == "a100"',
    f'device.attributes["{DRIVER}"].cores >= 4',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) >= 0',
    f'device.driver == "{DRIVER}"',
    f'"model" in device.attributes["{DRIVER}"] && device.attributes["{DRIVER}"].healthy',
    f'device.attributes["{DRIVER}"].model.startsWith("h") || !(device.driver == "x")',
    f'device.attributes["{DRIVER}"].missing == "x"',
)
EXTENDED = "example.com/accelerator"
EXTENDED_IMPLICIT = "deviceclass.resource.kubernetes.io/fast"
TAINT = {"key": "example.com/broken", "value": "yes"}


def devices(draw: Draw, names: list[str]) -> Body:
    """Slices, classes and claims by resource; claims are `rc-0` and so on, in `default`."""
    slices = [_slice(draw, name) for name in names if draw.chance(0.75)]
    if draw.chance(0.25):
        slices.append(_shared_slice(draw))
    objects: Body = {
        "resourceSlices": slices,
        "deviceClasses": [_class(draw, "gpu"), _class(draw, "fast", draw.pick(SELECTORS))],
        "resourceClaims": [_claim(draw, f"rc-{i}") for i in range(3)],
    }
    if draw.wants("allocated claims"):
        _allocate(draw, objects)
    if draw.wants("taint rules"):
        objects["deviceTaintRules"] = [_rule(draw, names)]
    return objects


def use_devices(draw: Draw, pod: Body) -> None:
    """Let a pod of `default` use claims, or an extended resource that devices back."""
    names = draw.some([f"rc-{i}" for i in range(3)], 2, 0 if draw.wants("device resource") else 1)
    if names:
        pod["spec"]["resourceClaims"] = [
            {"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(names)
        ]
    if draw.wants("device resource"):
        name, amount = EXTENDED, "1"
        if "device scoring" in draw.traits:
            name, amount = draw.pick((EXTENDED, EXTENDED_IMPLICIT)), draw.pick(("1", "1", "2"))
        container = pod["spec"]["containers"][0]
        for key in ("requests", "limits"):
            container.setdefault("resources", {}).setdefault(key, {})[name] = amount


def _device(draw: Draw, name: str) -> Body:
    attributes: Body = {
        "model": {"string": draw.pick(MODELS)},
        "cores": {"int": draw.number(1, 8)},
        "healthy": {"bool": draw.chance(0.8)},
        "numa": {"int": draw.number(0, 1)},
    }
    if draw.chance(0.15):
        del attributes["model"]
    body: Body = {"name": name, "attributes": attributes}
    body["capacity"] = {"memory": {"value": draw.pick(("10Gi", "20Gi", "40Gi"))}}
    if draw.wants("device taints"):
        effect = draw.pick(("NoSchedule", "NoExecute", "None"))
        body["taints"] = [{**TAINT, "effect": effect}]
    if draw.wants("consumable"):
        body["allowMultipleAllocations"] = True
    return body


def _slice(draw: Draw, node: str) -> Body:
    spec: Body = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(draw, f"dev-{i}") for i in range(draw.number(1, 4))],
    }
    if draw.chance(0.05):
        spec["pool"]["resourceSliceCount"] = 2  # the pool is not complete
    if draw.wants("partitions"):
        _partition(draw, spec)
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def _shared_slice(draw: Draw) -> Body:
    values = draw.some(ZONES, 2, 1)
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}
    where: Body = {"nodeSelector": {"nodeSelectorTerms": [term]}}
    if draw.chance(0.4):
        where = {"allNodes": True}
    pool = {"name": "shared", "generation": 1, "resourceSliceCount": 1}
    found = [_device(draw, f"net-{i}") for i in range(draw.number(1, 3))]
    return {
        "metadata": {"name": "slice-shared"},
        "spec": {"driver": DRIVER, "pool": pool, "devices": found, **where},
    }


def _partition(draw: Draw, spec: Body) -> None:
    counters = {"memory": {"value": draw.pick(("40Gi", "60Gi"))}}
    spec["sharedCounters"] = [{"name": "card", "counters": counters}]
    for device in spec["devices"]:
        used = {"memory": {"value": draw.pick(("10Gi", "20Gi", "40Gi"))}}
        device["consumesCounters"] = [{"counterSet": "card", "counters": used}]
    # counters and devices live in slices of their own
    spec["_counters"] = True


def split_counters(slices: list[Body]) -> list[Body]:
    """Put the counters of a slice into a slice of their own, as the API demands since 1.35."""
    found: list[Body] = []
    for body in slices:
        spec = body["spec"]
        if spec.pop("_counters", False):
            counters = spec.pop("sharedCounters")
            spec["pool"]["resourceSliceCount"] += 1
            rest = {k: v for k, v in spec.items() if k != "devices"}
            meta = {"name": body["metadata"]["name"] + "-counters"}
            found.append({"metadata": meta, "spec": {**rest, "sharedCounters": counters}})
        found.append(body)
    return found


def _class(draw: Draw, name: str, expression: str = "") -> Body:
    text = expression or f'device.driver == "{DRIVER}"'
    spec: Body = {"selectors": [{"cel": {"expression": text}}]}
    if name == "gpu" and draw.wants("device resource"):
        spec["extendedResourceName"] = EXTENDED
    if "bare classes" in draw.traits:
        del spec["selectors"]
    return {"metadata": {"name": name}, "spec": spec}


def _claim(draw: Draw, name: str) -> Body:
    requests = [_request(draw, f"r{i}") for i in range(draw.number(1, 2))]
    found: Body = {"requests": requests}
    if draw.chance(0.3):
        field = draw.pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
        found["constraints"] = [{field: f"{DRIVER}/{draw.pick(('model', 'numa'))}"}]
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"devices": found}, "status": {}}


def _request(draw: Draw, name: str) -> Body:
    if draw.wants("prioritized"):
        choices = [{"name": f"s{i}", **_exactly(draw)} for i in range(draw.number(1, 3))]
        return {"name": name, "firstAvailable": choices}
    return {"name": name, "exactly": _exactly(draw, admin=True)}


def _exactly(draw: Draw, *, admin: bool = False) -> Body:
    body: Body = {
        "deviceClassName": draw.pick(("gpu", "gpu", "fast", *(["absent"] * draw.chance(0.03)))),
        "allocationMode": "ExactCount",
        "count": draw.pick((1, 1, 1, 2, 3)),
    }
    if draw.chance(0.15):
        del body["count"]
        body["allocationMode"] = "All"
    if draw.chance(0.5):
        body["selectors"] = [{"cel": {"expression": draw.pick(SELECTORS)}}]
    if draw.wants("device taints"):
        body["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    if admin and draw.wants("admin access"):
        body["adminAccess"] = True
    if draw.wants("consumable"):
        body["capacity"] = {"requests": {"memory": draw.pick(("5Gi", "15Gi"))}}
    return body


def _allocate(draw: Draw, objects: Body) -> None:
    """Give a device of some node to the last claim, reserved for a pod or for none."""
    on_nodes = [body for body in objects["resourceSlices"] if "nodeName" in body["spec"]]
    if not on_nodes:
        return
    spec = draw.pick(on_nodes)["spec"]
    claim = objects["resourceClaims"][-1]
    asked = claim["spec"]["devices"]["requests"][0]
    name = asked["name"] + (
        f"/{asked['firstAvailable'][0]['name']}" if "firstAvailable" in asked else ""
    )
    result = {
        "request": name,
        "driver": DRIVER,
        "pool": spec["pool"]["name"],
        "device": draw.pick(spec["devices"])["name"],
    }
    field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
    where = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    claim["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": where}}
    if draw.chance(0.6):
        user = {"resource": "pods", "name": "p0", "uid": "uid-p0"}
        claim["status"]["reservedFor"] = [user]


def _rule(draw: Draw, names: list[str]) -> Body:
    selector: Body = {"driver": DRIVER}
    if draw.chance(0.6):
        selector["pool"] = draw.pick(names)
    if "pool" in selector and draw.chance(0.5):
        selector["device"] = "dev-0"
    taint = {**TAINT, "effect": draw.pick(("NoSchedule", "NoExecute", "None"))}
    return {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": taint}}
