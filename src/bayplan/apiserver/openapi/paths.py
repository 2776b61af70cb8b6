"""The operations part of the OpenAPI documents: which paths exist and what they take and give.

kubectl reads it to learn whether the server knows `fieldValidation` and `dryRun`; API fuzzers read
it to find something to call.
"""

from __future__ import annotations

from typing import Any

from bayplan.apiserver.kinds import Kind, Subresource
from bayplan.apiserver.openapi.words import PARAMETERS

Document = dict[str, Any]
_TYPES = ("application/json", "application/yaml")
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_WRITE = (("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"))
_LIST = (
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
)
_DELETE = (
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
)


class Operations:
    """Builds the paths of kinds, in the v3 or the v2 form."""

    def __init__(self, v2: bool = False) -> None:
        self.v2 = v2
        self.paths: Document = {}

    def add(self, kind: Kind, item: Document, items: Document, delete_options: Document) -> None:
        """Add all paths of one kind; the schemas are references to kind, list and options."""
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        verbs = set(kind.verbs)
        home = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
        if kind.namespaced and "list" in verbs:
            listing = {"get": self._operation(kind, "list", _LIST, items)}
            self._put(f"{base}/{kind.resource}", kind, listing, ())
        collection: Document = {}
        if "list" in verbs:
            collection["get"] = self._operation(kind, "list", _LIST, items)
        if "create" in verbs:
            collection["post"] = self._operation(kind, "post", _WRITE, item, body=item)
        if "deletecollection" in verbs:
            parameters = (*_DELETE, *_LIST[:-1])
            collection["delete"] = self._operation(
                kind, "deletecollection", parameters, items, body=delete_options
            )
        place = ("namespace",) if kind.namespaced else ()
        self._put(f"{home}/{kind.resource}", kind, collection, place)
        single = self._single(kind, verbs, item, delete_options)
        path = f"{home}/{kind.resource}/{{name}}"
        self._put(path, kind, single, ("name", *place))
        for sub in kind.subresources.values():
            self._subresource(kind, sub, f"{path}/{sub.name}", item, ("name", *place))

    def _single(self, kind: Kind, verbs: set[str], item: Document, options: Document) -> Document:
        found: Document = {}
        if "get" in verbs:
            found["get"] = self._operation(kind, "get", (), item)
        if "update" in verbs:
            found["put"] = self._operation(kind, "put", _WRITE, item, body=item)
        if "delete" in verbs:
            found["delete"] = self._operation(kind, "delete", _DELETE, item, body=options)
        if "patch" in verbs:
            found["patch"] = self._patch(kind, item)
        return found

    def _subresource(
        self, kind: Kind, sub: Subresource, path: str, item: Document, place: tuple[str, ...]
    ) -> None:
        shown = item if sub.kind == kind.kind else {"type": "object"}
        methods = {"get": "get", "update": "put", "create": "post"}
        found = {
            methods[verb]: self._operation(
                kind, methods[verb], () if verb == "get" else _WRITE, shown,
                body=None if verb == "get" else shown,
            )
            for verb in sub.verbs
            if verb in methods
        }  # fmt: skip
        if "patch" in sub.verbs:
            found["patch"] = self._patch(kind, shown)
        for operation in found.values():
            group, version = sub.group or kind.group, sub.version or kind.version
            gvk = {"group": group, "version": version, "kind": sub.kind}
            operation["x-kubernetes-group-version-kind"] = gvk
        self._put(path, kind, found, place)

    def _put(self, path: str, kind: Kind, methods: Document, place: tuple[str, ...]) -> None:
        if not methods:
            return
        parameters = [self._parameter(name, "string", "path") for name in place]
        parameters.append(self._parameter("pretty", "string", "query"))
        for method, operation in methods.items():
            operation["operationId"] = _operation_id(method, path)
        self.paths[path] = {**methods, "parameters": parameters}

    def _patch(self, kind: Kind, item: Document) -> Document:
        parameters = (*_WRITE, ("force", "boolean"))
        types = [t for t in _PATCHES if not (kind.custom and "strategic" in t)]
        return self._operation(
            kind, "patch", parameters, item, body={"type": "object"}, types=tuple(types)
        )

    def _operation(
        self,
        kind: Kind,
        action: str,
        parameters: tuple[tuple[str, str], ...],
        answer: Document,
        *,
        body: Document | None = None,
        types: tuple[str, ...] = _TYPES,
    ) -> Document:
        query = [self._parameter(name, type_, "query") for name, type_ in parameters]
        operation: Document = {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": kind.group,
                "version": kind.version,
                "kind": kind.kind,
            },
        }
        created = {"201"} if action in ("post", "put", "patch") else set()
        codes = sorted({"200"} | created | ({"202"} if action in ("post", "delete") else set()))
        if self.v2:
            if body is not None:
                query.insert(
                    0, {"name": "body", "in": "body", "schema": body, "required": action == "post"}
                )
                operation["consumes"] = list(types)
            operation["produces"] = list(_TYPES)
            operation["responses"] = {c: {"description": "OK", "schema": answer} for c in codes}
        else:
            if body is not None:
                content = {media: {"schema": body} for media in types}
                operation["requestBody"] = {
                    "content": content,
                    "required": action in ("post", "put", "patch"),
                }
            shown = {media: {"schema": answer} for media in _TYPES}
            operation["responses"] = {c: {"description": "OK", "content": shown} for c in codes}
        operation["parameters"] = query
        return operation

    def _parameter(self, name: str, type_: str, place: str) -> Document:
        parameter: Document = {"name": name, "in": place, "description": PARAMETERS[name]}
        if place == "path":
            parameter["required"] = True
        if self.v2:
            return {**parameter, "type": type_, "uniqueItems": True}
        return {**parameter, "schema": {"type": type_}}


def _operation_id(method: str, path: str) -> str:
    words = [part.strip("{}") for part in path.split("/") if part]
    return method + "".join(word[:1].upper() + word[1:] for word in words)
