"""Admission that users configure: webhooks and policies.

`configured` follows the configurations in the store. Without any, a write pays for one look at a
watch, and nothing of what evaluates them is even loaded. Calls to
webhooks are awaited with a deadline; nothing is locked meanwhile, since writes are compare-and-set.
Users' expressions run beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from importlib import import_module
from operator import ne
from typing import TYPE_CHECKING

from bayplan.api.patch import clone
from bayplan.api.schema import type_for
from bayplan.apiserver.admission import Attributes
from bayplan.apiserver.aside import Pauses, aside, beside
from bayplan.apiserver.authorization import Authorizer, OnLoop
from bayplan.apiserver.bodies import changed
from bayplan.apiserver.codec import Object
from bayplan.apiserver.crd import type_of
from bayplan.apiserver.dynamic.configured import Configurations, Configured, Pairs
from bayplan.apiserver.dynamic.matching import EXEMPT, GROUP
from bayplan.apiserver.errors import timed_out
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.request import Request

if TYPE_CHECKING:
    from bayplan.apiserver.backend import Backend
    from bayplan.apiserver.dynamic.policies import Write
    from bayplan.apiserver.dynamic.webhooks import Webhook

Default = Callable[[Object], None]
Again = Callable[[Attributes], None]
SECONDS = 60.0  # that one write waits for all of them; each webhook has its own limit below it
MATCH_COST = 1000  # of the question whether a write is meant; see `Pauses`
COLLECTIONS = tuple((GROUP, resource) for resource in sorted(EXEMPT))


class DynamicAdmission:
    """The webhooks and policies of a server."""

    def __init__(self, backend: Backend, disabled: Iterable[str] = ()) -> None:
        self._backend = backend
        self._configured = Configured(backend, disabled)

    def close(self) -> None:
        self._configured.close()

    async def mutates(self, attrs: Attributes) -> bool:
        """Whether anything may want to change this write."""
        now = await self._now()
        return bool(now.mutating or now.mutations) and not _exempt(attrs)

    async def validates(self, attrs: Attributes) -> bool:
        """Whether anything may want to refuse this write."""
        now = await self._now()
        return bool(now.validating or now.policies) and not _exempt(attrs)

    async def _now(self) -> Configurations:
        if self._configured.behind():
            await self._configured.catch_up()
        return self._configured.now

    def _write(self, attrs: Attributes, request: Request, kind: Kind) -> Write:
        from bayplan.apiserver.dynamic.policies import Write

        backend = self._backend
        kinds = backend.registry.forms(kind)
        return Write(attrs, request, backend.reader, self._authorizer(), backend.registry, kinds)

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
        changed = await self._run_policies(attrs, request, default, first=True)
        hooks, pauses = self._configured.now.mutating, Pauses()
        invoked: list[Webhook] = []
        again_for: list[Webhook] = []
        for hook in hooks:
            await pauses.after(MATCH_COST)
            shown = await self._shown(hook, attrs, request)
            if shown is None:
                continue
            if await self._change(hook, shown, attrs, request, default):
                changed = True
                again_for, invoked = [*again_for, *invoked], []
            if hook.reinvoked:
                invoked.append(hook)
        if changed:
            before = await aside(request, clone, attrs.obj)
            again(attrs)
            await self._run_policies(attrs, request, default, first=False)
            if await aside(request, ne, attrs.obj, before):
                again_for = [*again_for, *invoked]
            for hook in hooks:
                if hook in again_for and (shown := await self._shown(hook, attrs, request)):
                    await self._change(hook, shown, attrs, request, default)

    async def _shown(self, hook: Webhook, attrs: Attributes, request: Request) -> Attributes | None:
        """Return a write as a webhook is shown it; None if it is not asked."""
        from bayplan.apiserver.dynamic import forms

        kind = hook.constraints.form(attrs, self._backend.reader, self._forms(request))
        if kind is None:
            return None
        shown = await forms.shown(self._backend, kind, attrs, request)
        if hook.conditions:
            wanted = await beside(hook.wanted, shown, request, self._authorizer())
            return shown if wanted else None
        return shown

    def _forms(self, request: Request) -> list[Kind]:
        return self._backend.registry.forms(request.kind)

    async def _change(
        self,
        hook: Webhook,
        shown: Attributes,
        attrs: Attributes,
        request: Request,
        default: Default,
    ) -> bool:
        """Let a webhook change the object; return whether it did."""
        from bayplan.apiserver.dynamic import webhooks

        made = await webhooks.mutate(self._backend.caller, hook, shown, request)
        return made is not None and await self._take(made, shown, attrs, request, default)

    async def _take(
        self,
        made: Object,
        shown: Attributes,
        attrs: Attributes,
        request: Request,
        default: Default,
    ) -> bool:
        """Make an object that was made from what was shown the written one, if it differs."""
        from bayplan.apiserver.dynamic import forms

        if request.subresource not in ("binding", "eviction"):
            if shown is not attrs and shown.subresource in forms.SAME_KIND:
                registry = self._backend.registry
                kind = registry.get(shown.group, shown.version, shown.resource)
                assert kind is not None
                made = await aside(request, changed, request, kind, shown.obj, made)
                made = await forms.converted(self._backend, request, kind, request.kind, made)
            made = await aside(request, changed, request, request.kind, attrs.obj, made)
            await aside(request, default, made)
        if await aside(request, ne, made, attrs.obj):
            attrs.obj = made
            return True
        return False

    async def _run_policies(
        self, attrs: Attributes, request: Request, default: Default, *, first: bool
    ) -> bool:
        mutations = self._configured.now.mutations
        if not attrs.obj or not mutations:
            return False
        from bayplan.apiserver.dynamic import policies

        before = attrs.obj
        for policy, bindings in mutations:
            if not first and not policy.reinvoked:
                continue
            for kind, shown, pairs in await self._by_form([(policy, bindings)], attrs, request):
                write = self._write(shown, request, kind)
                questions = write.asked(*pairs[0])
                if not questions:
                    continue
                type_ = type_of(kind) if kind.custom else type_for(kind.api_version, kind.kind)
                made = await beside(policies.mutate, questions, write, type_)
                if made is not shown.obj and await aside(request, ne, made, shown.obj):
                    await self._take(made, shown, attrs, request, default)
        return attrs.obj is not before

    async def _by_form(
        self, pairs: Pairs, attrs: Attributes, request: Request
    ) -> list[tuple[Kind, Attributes, Pairs]]:
        """Return the policies that are about a write, by the kind as which it is shown to them."""
        from bayplan.apiserver.dynamic import forms

        found: dict[str, tuple[Kind, Pairs]] = {}
        kinds, pauses = self._forms(request), Pauses()
        for policy, bindings in pairs:
            await pauses.after(MATCH_COST)
            kind = policy.constraints.form(attrs, self._backend.reader, kinds)
            if kind is not None:
                found.setdefault(kind.key, (kind, []))[1].append((policy, bindings))
        return [
            (kind, await forms.shown(self._backend, kind, attrs, request), own)
            for kind, own in found.values()
        ]

    async def validate(self, attrs: Attributes, request: Request) -> None:
        """Let policies and webhooks refuse; raises the first refusal."""
        from bayplan.apiserver.dynamic import policies, webhooks

        now = self._configured.now
        for kind, shown, pairs in await self._by_form(now.policies, attrs, request):
            write = self._write(shown, request, kind)
            questions = [each for pair in pairs for each in write.asked(*pair)]
            if questions:
                await beside(policies.validate, questions, write)
        wanted, pauses = [], Pauses()
        for hook in now.validating:
            await pauses.after(MATCH_COST)
            if (seen := await self._shown(hook, attrs, request)) is not None:
                wanted.append((hook, seen))
        if wanted:
            await webhooks.validate(self._backend.caller, wanted, request)


def load() -> None:
    """Import what evaluates configurations: a fifth of a second, before the first one counts."""
    import_module("bayplan.apiserver.dynamic.policies")
    import_module("bayplan.apiserver.dynamic.webhooks")


def _exempt(attrs: Attributes) -> bool:
    return attrs.group == GROUP and attrs.resource in EXEMPT
