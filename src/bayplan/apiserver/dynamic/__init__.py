"""Admission that users configure: webhooks and policies.

`DynamicAdmission` follows the configurations in the store and compiles them once. Without any, a
write pays for one look at a watch, and nothing of what evaluates them is even loaded. Calls to
webhooks are awaited with a deadline; nothing is locked meanwhile, since writes are compare-and-set.
Users' expressions run beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bayplan.api.patch import clone
from bayplan.api.schema import type_for
from bayplan.apiserver.admission import Attributes
from bayplan.apiserver.aside import beside
from bayplan.apiserver.authorization import Authorizer, OnLoop
from bayplan.apiserver.bodies import canonical
from bayplan.apiserver.changes import Changes
from bayplan.apiserver.codec import Object
from bayplan.apiserver.crd import type_of
from bayplan.apiserver.dynamic.matching import EXEMPT, GROUP
from bayplan.apiserver.errors import timed_out
from bayplan.apiserver.request import Request

if TYPE_CHECKING:
    from bayplan.apiserver.backend import Backend
    from bayplan.apiserver.dynamic.policies import Binding, Policy, Write
    from bayplan.apiserver.dynamic.webhooks import Accept, Webhook

Pairs = list[tuple["Policy", list["Binding"]]]
Default = Callable[[Object], None]
Again = Callable[[Attributes], None]
SECONDS = 60.0  # that one write waits for all of them; each webhook has its own limit below it
COLLECTIONS = tuple((GROUP, resource) for resource in sorted(EXEMPT))


class DynamicAdmission:
    """The webhooks and policies of a server."""

    def __init__(self, backend: Backend, disabled: Iterable[str] = ()) -> None:
        self._backend = backend
        self._disabled = frozenset(disabled)
        self._changes = Changes(backend.store, f"{GROUP}/")
        self._mutating: list[Webhook] = []
        self._validating: list[Webhook] = []
        self._policies: Pairs = []
        self._mutations: Pairs = []

    def close(self) -> None:
        self._changes.close()

    def _refresh(self) -> None:
        """Read the configurations again if they have changed."""
        if self._changes.new():
            self._compile()

    def _compile(self) -> None:
        self._mutating = self._webhooks("mutatingwebhookconfigurations", "MutatingAdmissionWebhook")
        self._validating = self._webhooks(
            "validatingwebhookconfigurations", "ValidatingAdmissionWebhook"
        )
        self._policies = self._pairs("validatingadmissionpolic", "ValidatingAdmissionPolicy")
        self._mutations = self._pairs("mutatingadmissionpolic", "MutatingAdmissionPolicy")

    def _stored(self, resource: str) -> Iterable[Object]:
        return self._backend.reader.list(GROUP, resource)

    def _webhooks(self, resource: str, plugin: str) -> list[Webhook]:
        stored = () if plugin in self._disabled else list(self._stored(resource))
        if not stored:
            return []
        from bayplan.apiserver.dynamic.webhooks import Webhook

        return [
            Webhook(given["metadata"]["name"], hook)
            for given in sorted(stored, key=lambda each: each["metadata"]["name"])
            for hook in given.get("webhooks") or ()
        ]

    def _pairs(self, stem: str, plugin: str) -> Pairs:
        stored = () if plugin in self._disabled else list(self._stored(f"{stem}ybindings"))
        if not stored:
            return []
        from bayplan.apiserver.dynamic.policies import Binding, Policy

        bindings = [Binding(each) for each in stored]
        mutating = stem.startswith("mutating")
        found: Pairs = []
        for given in self._stored(f"{stem}ies"):
            name = given["metadata"]["name"]
            own = [each for each in bindings if each.policy == name]
            if own:
                found.append((Policy(given, mutating=mutating), own))
        return found

    def mutates(self, attrs: Attributes) -> bool:
        """Whether anything may want to change this write."""
        self._refresh()
        return bool(self._mutating or self._mutations) and not _exempt(attrs)

    def validates(self, attrs: Attributes) -> bool:
        """Whether anything may want to refuse this write."""
        self._refresh()
        return bool(self._validating or self._policies) and not _exempt(attrs)

    def _write(self, attrs: Attributes, request: Request) -> Write:
        from bayplan.apiserver.dynamic.policies import Write

        backend = self._backend
        return Write(attrs, request, backend.reader, self._authorizer(), backend.registry)

    def _authorizer(self) -> Authorizer:
        return OnLoop(self._backend.authorizer)

    async def mutate(
        self, attrs: Attributes, request: Request, default: Default, again: Again
    ) -> None:
        """Let policies and webhooks change the object, in place.

        `default` fills in defaults, `again` runs the built-in plugins once more; both are called
        when something changed, and then those who asked for it are asked a second time.
        """
        whole = attrs.obj
        try:
            async with asyncio.timeout(SECONDS):
                await self._mutate(attrs, request, default, again)
        except TimeoutError as error:
            raise timed_out() from error
        if attrs.obj is not whole:
            made = attrs.obj
            whole.clear()
            whole.update(made)
            attrs.obj = whole

    async def _mutate(
        self, attrs: Attributes, request: Request, default: Default, again: Again
    ) -> None:
        from bayplan.apiserver.dynamic import webhooks

        changed = await self._run_policies(attrs, request, default, first=True)
        invoked: list[Webhook] = []
        again_for: list[Webhook] = []
        for hook in self._mutating:
            if not await self._wanted(hook, attrs, request):
                continue
            accept = self._accepting(request, default)
            if await webhooks.mutate(self._backend.caller, [hook], attrs, request, accept):
                changed = True
                again_for, invoked = [*again_for, *invoked], []
            if hook.reinvoked:
                invoked.append(hook)
        if changed:
            before = clone(attrs.obj)
            again(attrs)
            await self._run_policies(attrs, request, default, first=False)
            if attrs.obj != before:
                again_for = [*again_for, *invoked]
            wanted = [
                each
                for each in self._mutating
                if each in again_for and await self._wanted(each, attrs, request)
            ]
            accept = self._accepting(request, default)
            await webhooks.mutate(self._backend.caller, wanted, attrs, request, accept)

    async def _wanted(self, hook: Webhook, attrs: Attributes, request: Request) -> bool:
        if not hook.constraints.matches(attrs, self._backend.reader):
            return False
        if not hook.conditions:
            return True
        return await beside(hook.wanted, attrs, request, self._authorizer())

    def _accepting(self, request: Request, default: Default) -> Accept:
        def accept(given: Object) -> Object:
            if request.subresource in ("binding", "eviction"):
                return given
            made = canonical(request, request.kind, given, None, None)
            default(made)
            return made

        return accept

    async def _run_policies(
        self, attrs: Attributes, request: Request, default: Default, *, first: bool
    ) -> bool:
        if not attrs.obj or not self._mutations:
            return False
        from bayplan.apiserver.dynamic import policies

        kind = request.kind
        type_ = type_of(kind) if kind.custom else type_for(kind.api_version, kind.kind)
        before = attrs.obj
        for policy, bindings in self._mutations:
            if not first and not policy.reinvoked:
                continue
            write = self._write(attrs, request)
            questions = write.asked(policy, bindings)
            if not questions:
                continue
            made = await beside(policies.mutate, questions, write, type_)
            if made is not attrs.obj and made != attrs.obj:
                attrs.obj = self._accepting(request, default)(made)
        return attrs.obj is not before

    async def validate(self, attrs: Attributes, request: Request) -> None:
        """Let policies and webhooks refuse; raises the first refusal."""
        from bayplan.apiserver.dynamic import policies, webhooks

        if self._policies:
            write = self._write(attrs, request)
            questions = [each for pair in self._policies for each in write.asked(*pair)]
            if questions:
                await beside(policies.validate, questions, write)
        wanted = [each for each in self._validating if await self._wanted(each, attrs, request)]
        if wanted:
            await webhooks.validate(self._backend.caller, wanted, attrs, request)


def _exempt(attrs: Attributes) -> bool:
    return attrs.group == GROUP and attrs.resource in EXEMPT
