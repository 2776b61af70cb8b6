"""Collects objects from any source: picks the kinds that matter and drops everything else.

Plain data and JSON bytes become structs, which have no field for a secret, an environment value or
managedFields to be kept in. An object that cannot be decoded is noted, not fatal: one odd pod must
not hide the other 99,999. Objects without a uid (manifests) get one made of their name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from bayplan.api import Object, Pod, convert, decode
from bayplan.api.sharing import PodSharing
from bayplan.errors import DecodeError
from bayplan.inspect.cluster import Objects, Unread
from bayplan.inspect.kinds import BY_KIND, EVENT_REASONS
from bayplan.inspect.objects import Event

SHOWN_PROBLEMS = 3


class _Envelope(msgspec.Struct, frozen=True):
    """What says which kind a document or list is."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _ItemKind(msgspec.Struct, frozen=True):
    kind: str = ""


_envelope = msgspec.json.Decoder(_Envelope)
_item_kind = msgspec.json.Decoder(_ItemKind)


class Gathering:
    """Objects so far; the last of a name wins."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.seen = 0
        """How many objects of kinds that matter were met."""
        self._problems: list[str] = []
        self._share = PodSharing()

    def put(self, item: Object) -> None:
        """Keep a struct."""
        if isinstance(item, Event) and item.reason not in EVENT_REASONS:
            return
        if not item.metadata.uid:
            uid = f"{item.KIND}/{item.key}"
            item = replace(item, metadata=replace(item.metadata, uid=uid))
        if isinstance(item, Pod):
            item = self._share(item)
        self.objects.setdefault(type(item), {})[item.key] = item

    def add(self, document: Mapping[str, Any]) -> None:
        """Keep a document of plain data; lists are taken apart, other kinds left out."""
        kind = str(document.get("kind") or "")
        items = document.get("items")
        if isinstance(items, list) and kind.endswith("List"):
            for item in items:
                if isinstance(item, dict):
                    self.add(item if item.get("kind") else {**item, "kind": kind[:-4]})
            return
        if kind in BY_KIND:
            self._each_struct(kind, lambda struct: convert(struct, document))

    def add_json(self, data: bytes, kind: str = "") -> None:
        """Keep an object or list of JSON bytes; `kind` is for lists that do not say theirs."""
        try:
            found = _envelope.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise DecodeError(f"decoding JSON: {problem}") from problem
        kind = found.kind or kind
        if found.items is None:
            if kind in BY_KIND:
                self._each_struct(kind, lambda struct: decode(struct, data))
            return
        inner = kind.removesuffix("List")
        for item in found.items:
            named = inner or _item_kind.decode(item).kind
            if named in BY_KIND:
                self._each_struct(named, lambda struct, raw=item: decode(struct, raw))

    def _each_struct(self, kind: str, read: Any) -> None:
        self.seen += 1
        for struct in BY_KIND[kind].structs:
            try:
                item = cast("Object", read(struct))
            except DecodeError as problem:
                self._problems.append(str(problem))
                return
            if not item.name:
                self._problems.append(f"a {kind} without a name")
                return
            self.put(item)

    def unread(self) -> list[Unread]:
        """What was met and could not be decoded."""
        if not self._problems:
            return []
        shown = "; ".join(self._problems[:SHOWN_PROBLEMS])
        more = len(self._problems) - SHOWN_PROBLEMS
        text = f"{shown}; and {more} more" if more > 0 else shown
        return [Unread(f"{len(self._problems)} object(s)", text, "they are left out")]
