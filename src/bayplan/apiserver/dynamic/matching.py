"""Which writes a webhook or policy is about: rules, and selectors of namespaces and objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.api.labels import Selector, compile_selector
from bayplan.api.meta import LabelSelector
from bayplan.apiserver.admission import Attributes, Reader
from bayplan.apiserver.codec import Object
from bayplan.apiserver.kinds import Kind

GROUP = "admissionregistration.k8s.io"
# Nobody can lock himself out: these are never subject to webhooks and policies.
EXEMPT = frozenset(
    (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)


class Constraints:
    """The `rules`, `namespaceSelector`, `objectSelector` and so on of a webhook or policy."""

    def __init__(self, given: Mapping[str, Any], rules: str = "rules") -> None:
        self.rules: Sequence[Object] = given.get(rules) or ()
        self.excluded: Sequence[Object] = given.get("excludeResourceRules") or ()
        self.equivalent = given.get("matchPolicy", "Equivalent") == "Equivalent"
        self.namespaces = _selector(given.get("namespaceSelector"))
        self.objects = _selector(given.get("objectSelector"))

    def form(self, attrs: Attributes, reader: Reader, kinds: Sequence[Kind]) -> Kind | None:
        """Return the kind as which a write is meant, if it is.

        `kinds` are the forms of what is written, its own first; with `matchPolicy: Equivalent` the
        first rule that names one of the others decides.
        """
        if not self.objects.empty and not any(
            _fits(self.objects, each) for each in (attrs.obj, attrs.old) if each
        ):
            return None
        found = self._named(self.rules, attrs, kinds)
        if found is None or self._named(self.excluded, attrs, kinds) is not None:
            return None
        return found if self._namespace_fits(attrs, reader) else None

    def _named(
        self, rules: Sequence[Object], attrs: Attributes, kinds: Sequence[Kind]
    ) -> Kind | None:
        own, *others = kinds
        if any(_about(rule, attrs, own) for rule in rules):
            return own
        if not self.equivalent or not others:
            return None
        about = (kind for rule in rules for kind in others if _about(rule, attrs, kind))
        return next(about, None)

    def _namespace_fits(self, attrs: Attributes, reader: Reader) -> bool:
        if self.namespaces.empty:
            return True
        if attrs.resource == "namespaces" and not attrs.group:
            return _fits(self.namespaces, attrs.obj or attrs.old or {})
        if not attrs.namespace:
            return True  # cluster-scoped objects are never left out by it
        found = reader.get("", "namespaces", "", attrs.namespace)
        return found is not None and _fits(self.namespaces, found)


def _about(rule: Object, attrs: Attributes, kind: Kind) -> bool:
    names, sub = rule.get("resourceNames"), attrs.subresource
    return (
        _in(rule.get("operations"), attrs.operation)
        and _in(rule.get("apiGroups"), kind.group)
        and _in(rule.get("apiVersions"), kind.version)
        and _in_scope(rule.get("scope") or "*", attrs)
        and any(_resource_fits(each, kind.resource, sub) for each in rule.get("resources") or ())
        and (not names or attrs.name in names)
    )


def _selector(given: Any) -> Selector:
    return compile_selector(msgspec.convert(given or {}, LabelSelector))


def _fits(selector: Selector, obj: Object) -> bool:
    return selector.matches((obj.get("metadata") or {}).get("labels") or {})


def _in(allowed: Sequence[str] | None, wanted: str) -> bool:
    return bool(allowed) and ("*" in (allowed or ()) or wanted in (allowed or ()))


def _in_scope(scope: str, attrs: Attributes) -> bool:
    if scope == "*":
        return True
    namespaced = bool(attrs.namespace) and not (attrs.resource == "namespaces" and not attrs.group)
    return namespaced if scope == "Namespaced" else not namespaced


def _resource_fits(pattern: str, resource: str, subresource: str) -> bool:
    wanted, slash, below = pattern.partition("/")
    if wanted not in ("*", resource):
        return False
    return below in ("*", subresource) if slash else not subresource
