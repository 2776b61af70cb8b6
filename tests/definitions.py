"""Bodies of CustomResourceDefinitions."""

from typing import Any

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(
    plural: str,
    group: str = "example.com",
    *,
    properties: dict[str, Any] | None = None,
    scope: str = "Namespaced",
    names: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **version: Any,
) -> dict[str, Any]:
    """One version `v1`, of objects with these properties; `names` and `version` hold the rest."""
    schema = {"type": "object"} | ({} if properties is None else {"properties": properties})
    only = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    kind = plural.title().removesuffix("s")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", **(metadata or {})},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": [{**only, **version}],
        },
    }
