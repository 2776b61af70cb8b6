"""A definition with two versions between which a webhook converts.

A port is `spec.hostPort`, "host:port", in v1, and `spec.host` with `spec.port` in v2.
"""

from typing import Any

from tests.apiserver.dynamic.hooks import Hooks

GROUP = "conv.example.com"
TEXT = {"type": "string"}
SCHEMAS = {
    "v1": {"hostPort": TEXT, "size": {"type": "integer", "default": 1}},
    "v2": {"host": TEXT, "port": TEXT, "size": {"type": "integer", "default": 2}},
}


def path(version: str, name: str = "") -> str:
    base = f"/apis/{GROUP}/{version}/namespaces/default/gates"
    return f"{base}/{name}" if name else base


def definition(hooks: Hooks, storage: str = "v1", **client: Any) -> dict[str, Any]:
    config = client or {"url": hooks.url + "/convert", "caBundle": hooks.authority}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gates.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gates", "kind": "Gate"},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == storage,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "properties": fields},
                                "status": {"type": "object", "properties": {"ok": TEXT}},
                            },
                        }
                    },
                }
                for version, fields in SCHEMAS.items()
            ],
        },
    }


def gate(version: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gate",
        "metadata": {"name": name},
        "spec": spec,
    }


def convert(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a ConversionReview as it should be."""
    made = [_converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": made}


def _converted(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    spec = dict(obj.get("spec") or {})
    if wanted.endswith("v2"):
        host, _, port = spec.pop("hostPort", "").partition(":")
        spec |= {"host": host, "port": port}
    else:
        spec["hostPort"] = f"{spec.pop('host', '')}:{spec.pop('port', '')}"
    return {**obj, "apiVersion": wanted, "spec": spec}
