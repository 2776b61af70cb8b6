"""Prefers nodes that already have the pod's images, large and widespread ones most."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from bayplan.api import Pod
from bayplan.framework import (
    MAX_SCORE,
    CycleState,
    Depends,
    Handle,
    IntArray,
    NodeInfo,
    Nodes,
)

NAME = "ImageLocality"
MEGABYTE = 1024 * 1024
LEAST = 23 * MEGABYTE
MOST_PER_CONTAINER = 1000 * MEGABYTE


class ImageLocality:
    """Score: size of the images present, scaled by how many nodes have them."""

    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def depends_on(self, pod: Pod) -> Depends:
        # How many nodes have an image counts; without any such image every node scores 0.
        return Depends.CLUSTER if self._present(pod) else Depends.NODE

    def facet(self, state: CycleState, pod: Pod) -> Hashable:
        """The images that some node has, and how many containers there are."""
        found = self._present(pod)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        return (found, containers) if found else None

    def facet_revision(self) -> Hashable:
        return self._handle.table.image_names_revision

    def revision(self, state: CycleState, pod: Pod) -> Hashable | None:
        return self._handle.table.images_revision

    def _present(self, pod: Pod) -> tuple[str, ...]:
        images = self._handle.table.images
        return tuple([name for name in image_names(pod) if name in images])

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntArray:
        table = nodes.table
        sums = np.zeros(table.count, dtype=np.int64)  # (full table,)
        for name in image_names(pod):
            image = table.images.get(name)
            if image is not None:
                sizes = np.fromiter(image.rows.values(), dtype=np.float64, count=len(image.rows))
                share = len(image.rows) / table.count
                sums[list(image.rows)] += (sizes * share).astype(np.int64)
        return _scaled(nodes.pick(sums).astype(np.int64, copy=False), pod)

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        table = node.table
        total = 0
        for name in image_names(pod):
            image = table.images.get(name)
            if image is not None and node.row in image.rows:
                share = len(image.rows) / table.count
                total += int(float(image.rows[node.row]) * share)
        most = _most(pod)
        if most <= LEAST:
            return 0
        return MAX_SCORE * (min(max(total, LEAST), most) - LEAST) // (most - LEAST)


def _most(pod: Pod) -> int:
    """What counts as having all images."""
    return MOST_PER_CONTAINER * (len(pod.spec.init_containers) + len(pod.spec.containers))


def _scaled(sums: IntArray, pod: Pod) -> IntArray:
    most = _most(pod)
    if most <= LEAST:
        return np.zeros(len(sums), dtype=np.int64)
    kept = np.minimum(np.maximum(sums, LEAST), most)
    return MAX_SCORE * (kept - LEAST) // (most - LEAST)


def image_names(pod: Pod) -> Iterator[str]:
    """The pod's images with a tag each, repeated as often as they are used."""
    spec = pod.spec
    for container in spec.init_containers + spec.containers:
        yield normalized(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized(volume.image.reference)


def normalized(name: str) -> str:
    """Add `:latest` to a name without tag or digest."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"


def new(args: None, handle: Handle) -> ImageLocality:
    return ImageLocality(handle)
