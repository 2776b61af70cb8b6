"""Random devices and claims for them: dynamic resource allocation."""

from __future__ import annotations

from copy import deepcopy

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
VERSIONED = (
    f'"firmware" in device.attributes["{DRIVER}"] '
    f'&& device.attributes["{DRIVER}"].firmware.compareTo(semver("1.2.0")) >= 0',
    f'device.attributes["{DRIVER}"].?firmware.orValue(semver("0.1.0")).isLessThan(semver("2.0.0"))',
    f'device.allowMultipleAllocations || device.attributes["{DRIVER}"].cores in [1, 2, 3]',
)
SOUND = (
    f'device.driver == "{DRIVER}"',
    f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].cores >= 4',
    f'"model" in device.attributes["{DRIVER}"] && device.attributes["{DRIVER}"].healthy',
)
"""Selectors that fail on no device."""
OTHER_DRIVER = "nic.example.com"
READY, BROKEN = "example.com/ready", "example.com/broken"
EXTENDED = "example.com/accelerator"
EXTENDED_IMPLICIT = "deviceclass.resource.kubernetes.io/fast"
TAINT = {"key": "example.com/broken", "value": "yes"}


def devices(draw: Draw, names: list[str]) -> Body:
    """Slices, classes and claims by resource; claims are `rc-0` and so on, in `default`."""
    slices = [_slice(draw, name) for name in names if draw.chance(0.75)]
    if draw.chance(0.25):
        slices.append(_shared_slice(draw))
    if draw.wants("own nodes"):
        slices.append(_own_nodes(draw, names))
    if draw.wants("generations") and slices:
        slices += _newer(draw, draw.pick(slices))
    objects: Body = {
        "resourceSlices": slices,
        "deviceClasses": [_class(draw, "gpu"), _class(draw, "fast", draw.pick(_selectors(draw)))],
        "resourceClaims": [_claim(draw, f"rc-{i}") for i in range(3)],
    }
    if draw.wants("allocated claims"):
        _allocate(draw, objects)
    if draw.wants("held devices"):
        objects["resourceClaims"] += [_holder(draw, f"held-{i}", slices) for i in range(4)]
    if draw.wants("taint rules"):
        objects["deviceTaintRules"] = [_rule(draw, names)]
    return objects


def _selectors(draw: Draw) -> tuple[str, ...]:
    return SOUND if draw.wants("sound selectors") else SELECTORS


def use_devices(draw: Draw, pod: Body) -> None:
    """Let a pod of `default` use claims, or an extended resource that devices back."""
    most = 1 if draw.wants("few requests") else 2
    least = 0 if draw.wants("device resource") else 1
    names = draw.some([f"rc-{i}" for i in range(3)], most, least)
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
    if draw.wants("slots"):
        body["capacity"]["slots"] = {"value": draw.pick(("1", "2", "2500m"))}
    if draw.wants("device taints"):
        effect = draw.pick(("NoSchedule", "NoExecute", "None"))
        body["taints"] = [{**TAINT, "effect": effect}]
    if draw.wants("consumable"):
        body["allowMultipleAllocations"] = True
    if draw.wants("request policies") and body.get("allowMultipleAllocations"):
        body["capacity"]["memory"]["requestPolicy"] = _policy(draw)
    if draw.wants("binding conditions"):
        body["bindingConditions"], body["bindingFailureConditions"] = [READY], [BROKEN]
        body["bindsToNode"] = draw.chance(0.5)
    if draw.wants("versions"):
        attributes["firmware"] = {"version": draw.pick(("1.0.0", "1.2.0", "2.0.1-rc.1"))}
    return body


def _policy(draw: Draw) -> Body:
    """What parts of a device's memory can be asked for."""
    if draw.chance(0.5):
        return {"default": "5Gi", "validValues": ["5Gi", "10Gi"]}
    valid: Body = {"min": "2Gi"}
    if draw.chance(0.5):
        valid["max"] = "8Gi"
    if draw.chance(0.5):
        valid["step"] = "3Gi"
        valid.pop("max", None)
    return {"default": "5Gi", "validRange": valid}


def _own_nodes(draw: Draw, names: list[str]) -> Body:
    """A slice whose devices say themselves where they are."""
    found = [_device(draw, f"own-{i}") for i in range(draw.number(1, 4))]
    for body in found:
        body |= draw.pick(({"nodeName": draw.pick(names)}, {"allNodes": True}))
    pool = {"name": "own", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": found, "perDeviceNodeSelection": True}
    return {"metadata": {"name": "slice-own"}, "spec": spec}


def _newer(draw: Draw, old: Body) -> list[Body]:
    """The next generation of a pool, of which a slice may still be missing."""
    body = deepcopy(old)
    body["metadata"]["name"] += "-newer"
    pool = body["spec"]["pool"]
    pool["generation"] += 1
    pool["resourceSliceCount"] = draw.pick((1, 1, 2))
    for key in ("_counters", "sharedCounters"):
        body["spec"].pop(key, None)
    for device in body["spec"]["devices"]:
        device.pop("consumesCounters", None)
    return [body]


def _slice(draw: Draw, node: str) -> Body:
    spec: Body = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(draw, f"dev-{i}") for i in range(draw.number(1, 4))],
    }
    if draw.wants("second driver"):
        spec["driver"] = OTHER_DRIVER
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
    spec: Body = {"driver": DRIVER, "pool": pool, "devices": found, **where}
    if draw.wants("shared partitions"):
        _partition(draw, spec)
    return {"metadata": {"name": "slice-shared"}, "spec": spec}


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
    if draw.wants("parameters"):
        spec["config"] = [_parameters(f"{name}-{i}") for i in range(draw.number(1, 2))]
    return {"metadata": {"name": name}, "spec": spec}


def _claim(draw: Draw, name: str) -> Body:
    count = 1 if draw.wants("few requests") else draw.number(1, 2)
    requests = [_request(draw, f"r{i}") for i in range(count)]
    found: Body = {"requests": requests}
    if draw.chance(draw.traits.get("constraints", 0.3)):
        field = draw.pick(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Body = {field: f"{DRIVER}/{draw.pick(('model', 'numa'))}"}
        if draw.wants("some requests"):
            constraint["requests"] = [draw.pick(requests)["name"]]
        found["constraints"] = [constraint]
    if draw.wants("parameters"):
        found["config"] = [
            {**_parameters(f"{name}-{i}"), "requests": draw.some(_labels(requests))}
            for i in range(draw.number(1, 2))
        ]
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"devices": found}, "status": {}}


def _parameters(text: str) -> Body:
    """What a driver is told about devices that it gets ready."""
    return {"opaque": {"driver": DRIVER, "parameters": {"for": text}}}


def _labels(requests: list[Body]) -> list[str]:
    """How constraints and parameters may name requests: whole, or one choice of them."""
    choices = [
        (item["name"], choice) for item in requests for choice in item.get("firstAvailable", ())
    ]
    return [item["name"] for item in requests] + [f"{n}/{c['name']}" for n, c in choices]


def _request(draw: Draw, name: str) -> Body:
    if draw.wants("prioritized"):
        choices = [{"name": f"s{i}", **_exactly(draw)} for i in range(draw.number(1, 3))]
        return {"name": name, "firstAvailable": choices}
    return {"name": name, "exactly": _exactly(draw, admin=True)}


def _exactly(draw: Draw, *, admin: bool = False) -> Body:
    body: Body = {
        "deviceClassName": draw.pick(("gpu", "gpu", "fast", *(["absent"] * draw.chance(0.03)))),
        "allocationMode": "ExactCount",
        "count": 1 if draw.wants("few requests") else draw.pick((1, 1, 1, 2, 3)),
    }
    if draw.chance(draw.traits.get("all devices", 0.15)):
        del body["count"]
        body["allocationMode"] = "All"
    if draw.chance(0.5):
        texts = VERSIONED if draw.wants("versions") else _selectors(draw)
        body["selectors"] = [{"cel": {"expression": draw.pick(texts)}}]
    if draw.wants("device taints"):
        body["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    if draw.wants("valued tolerations"):
        value = {"operator": "Equal", "value": draw.pick(("yes", "no"))}
        body["tolerations"] = [{"key": TAINT["key"], "effect": "NoSchedule", **value}]
    if admin and draw.wants("admin access"):
        body["adminAccess"] = True
    if draw.wants("consumable"):
        body["capacity"] = {"requests": {"memory": draw.pick(("5Gi", "15Gi"))}}
    if draw.wants("slots"):
        asked = body.setdefault("capacity", {"requests": {}})["requests"]
        asked["slots"] = draw.pick(("1", "1500m", "2"))
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
    result: Body = {
        "request": name,
        "driver": spec["driver"],
        "pool": spec["pool"]["name"],
        "device": draw.pick(spec["devices"])["name"],
    }
    chosen = next(d for d in spec["devices"] if d["name"] == result["device"])
    if chosen.get("allowMultipleAllocations") and draw.wants("shared allocations"):
        result["shareID"] = "6b7b9d1e-0000-4000-8000-000000000001"
        result["consumedCapacity"] = {"memory": draw.pick(("5Gi", "10Gi"))}
    if "bindingConditions" in chosen:
        for name in ("bindingConditions", "bindingFailureConditions"):
            result[name] = chosen[name]
    field = {"key": "metadata.name", "operator": "In", "values": [spec["nodeName"]]}
    where = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status: Body = {"allocation": {"devices": {"results": [result]}, "nodeSelector": where}}
    claim["status"] = status
    if "bindingConditions" in result and draw.chance(0.7):
        state = {"type": draw.pick((READY, BROKEN)), "status": draw.pick(("True", "False"))}
        told: Body = {"conditions": [state]}
        for key in ("driver", "pool", "device", "shareID"):
            if key in result:
                told[key] = result[key]
        status["devices"] = [told]
    if draw.chance(0.6):
        user = {"resource": "pods", "name": "p0", "uid": "uid-p0"}
        status["reservedFor"] = [user]


def _holder(draw: Draw, name: str, slices: list[Body]) -> Body:
    """A claim that holds devices as they may once have been: shared or whole, here or gone."""
    body = _claim(draw, name)
    results = [_held(draw, body, slices) for _ in range(draw.number(1, 2))] if slices else []
    if results:
        body["status"] = {"allocation": {"devices": {"results": results}}}
    return body


def _held(draw: Draw, claim: Body, slices: list[Body]) -> Body:
    spec = draw.pick(slices)["spec"]
    names = [device["name"] for device in spec["devices"]]
    found: Body = {
        "request": claim["spec"]["devices"]["requests"][0]["name"],
        "driver": spec["driver"],
        "pool": spec["pool"]["name"],
        "device": draw.pick((*names, "gone")),
    }
    way = draw.pick(("whole", "admin", "share", "part", "part", "part"))
    if way == "admin":
        found["adminAccess"] = True
    if way in ("share", "part"):
        found["shareID"] = f"6b7b9d1e-0000-4000-8000-{draw.number(0, 10**12 - 1):012}"
    if way == "part":
        parts = {"memory": draw.pick(("1Gi", "5Gi", "10Gi", "20Gi")), "slots": "500m", "other": "1"}
        found["consumedCapacity"] = {key: parts[key] for key in draw.some(sorted(parts), 2, 1)}
    return found


def _rule(draw: Draw, names: list[str]) -> Body:
    selector: Body = {"driver": DRIVER}
    if draw.chance(0.6):
        selector["pool"] = draw.pick(names)
    if "pool" in selector and draw.chance(0.5):
        selector["device"] = "dev-0"
    taint = {**TAINT, "effect": draw.pick(("NoSchedule", "NoExecute", "None"))}
    return {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": taint}}
