"""Binds a pod by creating a Binding at the API server."""

from __future__ import annotations

from bayplan.api import Pod
from bayplan.framework import ApiCall, CycleState, Effects, Handle, Status

NAME = "DefaultBinder"


class DefaultBinder:
    """Bind: one create of the pod's `binding` subresource."""

    name = NAME

    def bind_target(self, pod: Pod, node_name: str) -> str:
        return node_name

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Effects | None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        call = ApiCall("create", "pods", meta.namespace, meta.name, body, subresource="binding")
        return Effects((call,))


def new(args: None, handle: Handle) -> DefaultBinder:
    return DefaultBinder()
