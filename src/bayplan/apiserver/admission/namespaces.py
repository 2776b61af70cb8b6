"""NamespaceLifecycle: nothing is created where no namespace is, or where one is being deleted."""

from __future__ import annotations

from bayplan.apiserver.admission.types import (
    CREATE,
    DELETE,
    AdmissionError,
    Attributes,
    Reader,
    forbidden,
    not_found,
)

PROTECTED = frozenset(("default", "kube-system", "kube-public"))
_REVIEWS = ("authorization.k8s.io", "localsubjectaccessreviews")


def lifecycle(attrs: Attributes, reader: Reader) -> None:
    """Check the namespace that a write goes to, and protect the three that must stay."""
    if attrs.resource == "namespaces" and not attrs.group:
        if attrs.operation == DELETE and attrs.name in PROTECTED:
            raise AdmissionError(
                f'namespaces "{attrs.name}" is forbidden: this namespace may not be deleted',
                details={"name": attrs.name, "kind": "namespaces"},
            )
        return
    if not attrs.namespace or attrs.operation == DELETE:
        return
    if (attrs.group, attrs.resource) == _REVIEWS:
        return
    namespace = reader.get("", "namespaces", "", attrs.namespace)
    if namespace is None:
        raise not_found("", "namespaces", attrs.namespace)
    if attrs.operation != CREATE:
        return
    status = namespace.get("status")
    if isinstance(status, dict) and status.get("phase") == "Terminating":
        name = attrs.namespace
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause: dict[str, object] = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(attrs, why, [cause])
