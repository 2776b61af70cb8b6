"""Server-side apply: merges a configuration into an object and keeps track of who owns what.

The steps are those of Kubernetes: lay the configuration over the live object; remove what this
manager applied before but does not any more, unless someone else owns it; refuse to change what
others own, unless forced; then rewrite the ownership. Defaulting, validation and storing come
after, elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

from bayplan.api.patch import clone
from bayplan.api.patch.values import without_nulls
from bayplan.api.schema import Type
from bayplan.apiserver.apply import managed
from bayplan.apiserver.apply.fieldset import (
    Node,
    difference,
    ensure_named,
    intersection,
    paths,
    union,
)
from bayplan.apiserver.apply.managed import APPLY, UPDATE, Identity, Owner, Owners
from bayplan.apiserver.apply.refusals import ApplyConflict, ApplyRejected, Conflict
from bayplan.apiserver.apply.track import (
    Object,
    empty_object,
    own,
    reset_fields,
    with_entries,
)
from bayplan.apiserver.apply.walk import (
    MISSING,
    TypedError,
    check,
    compare,
    field_set,
    merge,
    remove,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"


def server_side_apply(
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool,
    kind: Type,
    now: str,
    subresource: str = "",
    has_status: bool = True,
) -> tuple[Object, bool]:
    """Return the object to store and whether it differs from `live` (None on create).

    Raises ApplyConflict (409) or ApplyRejected (400). Neither argument is changed. A change of
    times in managedFields alone is no difference.
    """
    _check(applied, kind)
    base = _bare(live) if live is not None else _new_object(applied, kind)
    who = managed.identity(manager, APPLY, "", subresource)
    try:
        owners = _owners(live, base, kind, now, has_status)
        step = _Step(base, applied, owners, who, kind, has_status)
        try:
            result, owners = step.run(force)
        except ApplyConflict as conflict:
            result, owners = _upgrade_from_client_side(step, conflict)
    except TypedError as error:
        raise ApplyRejected(_typed_message(applied, [str(error)])) from error
    changed = result != base
    if changed and who in owners:
        owners[who] = owners[who]._replace(time=now)
    result = _sync_last_applied(result, applied, manager)
    if live is not None and not changed and _same_owners(live, owners):
        return live, False
    return with_entries(without_nulls(result), owners), True


def _check(applied: Object, kind: Type) -> None:
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise ApplyRejected("metadata.managedFields must be nil")
    problems = check(applied, kind)
    if problems:
        raise ApplyRejected(_typed_message(applied, problems))


def _typed_message(applied: Object, problems: list[str]) -> str:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    who = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    version = str(applied.get("apiVersion"))
    version = version if "/" in version else f"/{version}"
    what = f"{version}, Kind={applied.get('kind')}"
    text = problems[0]
    if len(problems) > 1:
        text = "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
    return f"failed to create typed patch object ({who}; {what}): {text}"


def _bare(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _new_object(applied: Object, kind: Type) -> Object:
    base = dict(clone(empty_object(kind))) if kind.kind == "struct" else {}
    base["apiVersion"], base["kind"] = applied.get("apiVersion"), applied.get("kind")
    return base


def _owners(live: Object | None, base: Object, kind: Type, now: str, has_status: bool) -> Owners:
    if live is None:
        return {}
    owners = managed.read(live["metadata"].get("managedFields"))
    if owners:
        return owners
    who = Identity(BEFORE_FIRST_APPLY, UPDATE, str(live.get("apiVersion")), "")
    return own(None, base, {}, who, now, kind, has_status)


class _Step:
    """One apply with its inputs, so that it can be tried a second time with force."""

    def __init__(
        self,
        base: Object,
        applied: Object,
        owners: Owners,
        who: Identity,
        kind: Type,
        has_status: bool,
    ) -> None:
        self.base = base
        self.applied = applied
        self.owners = owners
        self.who = who
        self.kind = kind
        self.has_status = has_status

    def run(self, force: bool) -> tuple[Object, Owners]:
        owners = dict(self.owners)
        merged = merge(self.base, self.applied, self.kind)
        last = owners.get(self.who)
        mine = reset_fields(
            field_set(self.applied, self.kind), self.who.subresource, self.has_status
        )
        version = str(self.applied.get("apiVersion"))
        owners[self.who] = Owner(mine, version, last.time if last is not None else None)
        result = self._prune(merged, owners, last)
        return result, self._take_over(result, owners, force)

    def _prune(self, merged: Object, owners: Owners, last: Owner | None) -> Object:
        """Remove what this manager applied last time and nobody claims now."""
        if last is None or not last.fields:
            return merged
        kind = self.kind
        dropped = ensure_named(last.fields, kind)
        pruned = _rest(remove(merged, dropped, kind))
        claimed: Node = {}
        for owner in owners.values():
            claimed = union(claimed, owner.fields)
        all_set = ensure_named(field_set(merged, kind), kind)
        kept = union(ensure_named(field_set(pruned, kind), kind), ensure_named(claimed, kind))
        pruned = _rest(remove(merged, difference(all_set, kept), kind))
        gone = difference(all_set, ensure_named(field_set(pruned, kind), kind))
        return _rest(remove(merged, intersection(gone, dropped), kind))

    def _take_over(self, result: Object, owners: Owners, force: bool) -> Owners:
        comparison = compare(self.base, result, self.kind)
        changed = union(comparison.modified, comparison.added)
        changed = reset_fields(changed, self.who.subresource, self.has_status)
        removed = reset_fields(comparison.removed, self.who.subresource, self.has_status)
        conflicts: list[Conflict] = []
        after: Owners = {}
        for key, owner in owners.items():
            fields = owner.fields
            if key == self.who:
                fields = managed.strip_meta(fields)
            else:
                clash = intersection(fields, changed)
                conflicts += [(key, owner, path) for path in paths(clash)]
                fields = difference(difference(fields, clash), removed)
            if fields:
                after[key] = owner._replace(fields=fields)
        if conflicts and not force:
            raise ApplyConflict(conflicts)
        return after


def _rest(value: Any) -> Object:
    return {} if value is MISSING else value


def _upgrade_from_client_side(step: _Step, conflict: ApplyConflict) -> tuple[Object, Owners]:
    """Let kubectl take over from its own client-side apply, whose annotation tells what it set."""
    if step.who.manager != KUBECTL:
        raise conflict
    allowed = _last_applied_set(step.base, step.kind)
    if allowed is None:
        raise conflict
    own_paths = set(paths(allowed))
    left = [item for item in conflict.conflicts if item[2] not in own_paths]
    if left:
        raise ApplyConflict(left)
    return step.run(True)


def _last_applied_set(base: Object, kind: Type) -> Node | None:
    text = (base["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        last = json.loads(text)
        if last.get("apiVersion") != base.get("apiVersion"):
            return None
        comparison = compare(last, base, kind)
        fields = field_set(last, kind)
    except (ValueError, AttributeError, TypedError):
        return None
    for part in comparison:
        fields = difference(fields, part)
    return fields


def _sync_last_applied(result: Object, applied: Object, manager: str) -> Object:
    annotations = (result.get("metadata") or {}).get("annotations") or {}
    if manager != KUBECTL or not annotations.get(LAST_APPLIED):
        return result
    config = clone(applied)
    own_annotations = (config.get("metadata") or {}).get("annotations")
    if isinstance(own_annotations, dict):
        own_annotations.pop(LAST_APPLIED, None)
    text = json.dumps(config, separators=(",", ":"), ensure_ascii=False, sort_keys=True) + "\n"
    metadata = {**result["metadata"], "annotations": {**annotations, LAST_APPLIED: text}}
    return {**result, "metadata": metadata}


def _same_owners(live: Object, owners: Owners) -> bool:
    before = managed.read(live["metadata"].get("managedFields"))
    if before is None or before.keys() != owners.keys():
        return False
    return all(
        before[key].fields == owner.fields and before[key].version == owner.version
        for key, owner in owners.items()
    )
