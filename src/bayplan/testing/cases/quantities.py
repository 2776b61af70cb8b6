"""Resource quantities: plain ones, and valid ones that few people write."""

from __future__ import annotations

from bayplan.testing.cases.draw import Body, Draw

CPU = ("100m", "250m", "500m", "1", "1500m", "2")
ODD_CPU = ("0", "0.5", ".25", "1.", "2e0", "3e-1", "500000u", "1n", "0.0011", "+1", "1999m")
MEMORY = ("128Mi", "256Mi", "500M", "1Gi", "1.5Gi", "2Gi")
ODD_MEMORY = ("0", "129e6", "1Ki", "1500m", "1.9G", "0.5Gi", "123456789", "1E9", "100k", "1")
STORAGE = ("1Gi", "2Gi", "12Gi")
GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"


def cpu(draw: Draw) -> str:
    return draw.pick(ODD_CPU if draw.wants("odd") else CPU)


def memory(draw: Draw) -> str:
    return draw.pick(ODD_MEMORY if draw.wants("odd") else MEMORY)


def requests(draw: Draw) -> Body:
    """What a container asks for."""
    found: Body = {}
    if draw.chance(0.7):
        found["cpu"] = cpu(draw)
    if draw.chance(0.7):
        found["memory"] = memory(draw)
    if draw.wants("ephemeral"):
        found["ephemeral-storage"] = draw.pick(STORAGE)
    if draw.wants("extended"):
        found[GPU] = str(draw.number(0, 2))
    if draw.wants("hugepages"):
        found[HUGE] = draw.pick(("2Mi", "32Mi", "64Mi"))
    return found


def resources(draw: Draw) -> Body:
    """Requests, and limits where a resource must have them or chance wants them."""
    asked = requests(draw)
    limits = {name: value for name, value in asked.items() if "/" in name or name == HUGE}
    if draw.wants("limits"):
        # a limit without a request becomes the request when the API server writes defaults
        name = draw.pick(("cpu", "memory"))
        if name not in asked:
            limits[name] = cpu(draw) if name == "cpu" else memory(draw)
    return {"requests": asked, "limits": limits} if limits else {"requests": asked}


def capacity(draw: Draw) -> Body:
    """What a node has."""
    found: Body = {
        "cpu": draw.pick(("1", "2", "3900m", "4", "8")),
        "memory": draw.pick(("2Gi", "4Gi", "7800Mi", "8G", "16Gi")),
        "pods": draw.pick(("3", "5", "10", "110", "110")),
    }
    if draw.chance(0.8):
        found["ephemeral-storage"] = draw.pick(("10Gi", "50Gi"))
    if draw.wants("extended") or draw.wants("extended"):
        found[GPU] = str(draw.number(0, 4))
    if draw.wants("hugepages") or draw.wants("hugepages"):
        found[HUGE] = draw.pick(("64Mi", "256Mi"))
    return found
