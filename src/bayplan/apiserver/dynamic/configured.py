"""The stored webhooks and policies, compiled: each once for a version of it, beside the event loop.

A write asks whether anything has changed (`behind`), which costs a look at a watch, and waits for
`catch_up` if so: then what was acknowledged before it counts. Nothing of what evaluates them is
loaded as long as there are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

from bayplan.apiserver.aside import beside
from bayplan.apiserver.codec import Codec
from bayplan.apiserver.dynamic.matching import GROUP
from bayplan.apiserver.following import Changes
from bayplan.store import KeyValue

if TYPE_CHECKING:
    from bayplan.apiserver.backend import Backend
    from bayplan.apiserver.dynamic.policies import Binding, Policy
    from bayplan.apiserver.dynamic.webhooks import Webhook

Pairs = list[tuple["Policy", list["Binding"]]]
Built = dict[str, tuple[int, object]]  # revision and what was made of it, by key
_PLUGINS = {
    "mutatingwebhookconfigurations": "MutatingAdmissionWebhook",
    "validatingwebhookconfigurations": "ValidatingAdmissionWebhook",
    "mutatingadmissionpolicies": "MutatingAdmissionPolicy",
    "mutatingadmissionpolicybindings": "MutatingAdmissionPolicy",
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicy",
}


class Configurations(NamedTuple):
    """What there is at one moment."""

    mutating: list[Webhook]
    validating: list[Webhook]
    policies: Pairs
    mutations: Pairs


class Configured:
    """Follows what is stored."""

    def __init__(self, backend: Backend, disabled: Iterable[str]) -> None:
        self._backend = backend
        left_out = frozenset(disabled)
        self._resources = [name for name, plugin in _PLUGINS.items() if plugin not in left_out]
        self._changes = Changes(backend.store, f"{GROUP}/")
        self._changed = self._compiled = 0
        self._built: Built = {}
        self._catching_up = asyncio.Lock()
        self.now = Configurations([], [], [], [])

    def close(self) -> None:
        self._changes.close()

    def behind(self) -> bool:
        """Whether something has changed that does not count yet."""
        if self._changes.new():
            self._changed += 1
        return self._compiled != self._changed

    async def catch_up(self) -> None:
        """Return when all that had changed counts."""
        async with self._catching_up:
            if not self.behind():
                return
            changed = self._changed
            found = (await self._backend.store.range(f"{GROUP}/")).items
            if any(self._built.get(kv.key, (0,))[0] != kv.mod_revision for kv in found):
                codecs = [c for c in map(self._codec, self._resources) if c is not None]
                self._built = await beside(_build, found, codecs, self._built)
            else:
                self._built = {kv.key: self._built[kv.key] for kv in found}
            self.now = self._arranged()
            self._compiled = changed

    def _codec(self, resource: str) -> Codec | None:
        return self._backend.codec_of(GROUP, resource)

    def _arranged(self) -> Configurations:
        return Configurations(
            self._webhooks("mutatingwebhookconfigurations"),
            self._webhooks("validatingwebhookconfigurations"),
            self._pairs("validatingadmissionpolic"),
            self._pairs("mutatingadmissionpolic"),
        )

    def _of(self, resource: str) -> list[object]:
        prefix = f"{GROUP}/{resource}/"
        return [
            made
            for key, (_, made) in self._built.items()
            if made is not None and key.startswith(prefix)
        ]

    def _webhooks(self, resource: str) -> list[Webhook]:
        made = cast("list[list[Webhook]]", self._of(resource))
        return [hook for hooks in made for hook in hooks]

    def _pairs(self, stem: str) -> Pairs:
        bindings: dict[str, list[Binding]] = {}
        for binding in cast("list[Binding]", self._of(f"{stem}ybindings")):
            bindings.setdefault(binding.policy, []).append(binding)
        policies = cast("list[Policy]", self._of(f"{stem}ies"))
        return [(each, bindings[each.name]) for each in policies if each.name in bindings]


def _build(found: Iterable[KeyValue], codecs: Iterable[Codec], before: Built) -> Built:
    """Compile what is new, in the order of the keys; what is left out counts as nothing."""
    by_prefix = {codec.prefix: codec for codec in codecs}
    built: Built = {}
    for kv in found:
        known = before.get(kv.key)
        if known is None or known[0] != kv.mod_revision:
            codec = by_prefix.get(kv.key[: kv.key.rfind("/") + 1])
            known = (kv.mod_revision, None if codec is None else _compiled(codec, kv))
        built[kv.key] = known
    return built


def _compiled(codec: Codec, kv: KeyValue) -> object:
    from bayplan.apiserver.dynamic import policies, webhooks

    given, resource = codec.decode(kv), codec.kind.resource
    if resource.endswith("webhookconfigurations"):
        name = given["metadata"]["name"]
        return [webhooks.Webhook(name, hook) for hook in given.get("webhooks") or ()]
    if resource.endswith("bindings"):
        return policies.Binding(given)
    return policies.Policy(given, mutating=resource.startswith("mutating"))
