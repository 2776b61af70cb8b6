"""Devices as a resource to score: how many a node has of a class, and how many are given away.

A resource that a device class serves and a node does not offer itself counts the devices there that
the class selects, in every slice that concerns the node, whatever the state of its pool. A selector
that fails leaves the resource out for that node.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api import DeviceClass
from bayplan.cluster.resources import resource_name
from bayplan.framework import Handle, NodeInfo
from bayplan.plugins.dynamic_resources.claims import shared_books
from bayplan.plugins.dynamic_resources.extended import class_for, may_be_served
from bayplan.plugins.dynamic_resources.pools import Offer, shared_pools


class DeviceResources:
    """What devices add to the resources of nodes."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.objects.device_classes
        self._on = handle.gates["DRAExtendedResource"]
        self._books, self._pools = shared_books(handle), shared_pools(handle)

    @property
    def revision(self) -> int:
        """Changes when other resources may be served."""
        return self._classes.revision

    def served(self, resources: Iterable[int]) -> tuple[int, ...]:
        """Those of the resources, by id, that a device class serves."""
        if not self._on or not len(self._classes):
            return ()
        return tuple(number for number in resources if self._class(number) is not None)

    def on(self, node: NodeInfo, served: Iterable[int]) -> NodeInfo:
        """The node with its devices as resources."""
        self._pools.refresh()
        self._books.refresh()
        seen = node.clone()
        seen.allocatable = [*node.allocatable]
        for number in served:
            seen.allocatable += [0] * (number + 1 - len(seen.allocatable))
            seen.requested += [0] * (number + 1 - len(seen.requested))
            if not seen.allocatable[number]:
                seen.allocatable[number], seen.requested[number] = self._count(number, node)
        return seen

    def _class(self, number: int) -> DeviceClass | None:
        name = resource_name(number)
        return class_for(name, self._classes) if may_be_served(name) else None

    def _count(self, number: int, node: NodeInfo) -> tuple[int, int]:
        found = self._class(number)
        if found is None:
            return 0, 0
        texts = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
        chosen = [(self._selected(texts, o), o.id) for o in self._pools.offers(node)]
        if any(answer is None for answer, _ in chosen):
            return 0, 0
        devices = [device for answer, device in chosen if answer]
        used = sum(self._books.in_use(item) or self._books.shared(item) for item in devices)
        return len(devices), used

    def _selected(self, texts: tuple[str, ...], offer: Offer) -> bool | None:
        """Whether the selectors take a device; None if one fails."""
        from bayplan.cel.devices import CelError, matches  # costs start-up time; few select

        answers = self._pools.answers(("scored", *texts))
        if id(offer) not in answers:
            # as upstream, which does not tell expressions here that a device can be shared
            view = {**offer.view, "allowMultipleAllocations": False}
            try:
                answers[id(offer)] = all(matches(text, view) for text in texts)
            except CelError:
                answers[id(offer)] = None
        return answers[id(offer)]
