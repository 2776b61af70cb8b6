"""ServiceAccount: gives pods an account, its pull secrets, and a volume with a token.

Off unless `--enable-admission-plugins=ServiceAccount`: a server without controllers has no default
accounts, and upstream's refuses every pod then.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.apiserver.admission.types import CREATE, Attributes, Object, Reader, forbidden

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
MIRROR = "kubernetes.io/config.mirror"
TOKEN_SECONDS = 3607  # upstream asks for an hour and seven seconds, to know its own


class ServiceAccounts:
    """`suffix` makes the endings of the volumes' names."""

    def __init__(self, suffix: Callable[[], str]) -> None:
        self._suffix = suffix

    def mount(self, attrs: Attributes, reader: Reader) -> None:
        if attrs.operation != CREATE or attrs.resource != "pods" or attrs.group:
            return
        metadata = attrs.obj.get("metadata") or {}
        if attrs.subresource or MIRROR in (metadata.get("annotations") or {}):
            return
        spec: Object = attrs.obj["spec"]
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = reader.get("", "serviceaccounts", attrs.namespace, name)
        if account is None:
            raise forbidden(
                attrs,
                f"error looking up service account {attrs.namespace}/{name}: "
                f'serviceaccount "{name}" not found',
            )
        if _wanted(account, spec):
            self._add_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]

    def _add_token(self, spec: Object) -> None:
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        bare = [each for each in containers if not _has_mount(each)]
        if not bare:
            return
        name = f"kube-api-access-{self._suffix()}"
        for container in bare:
            mounts = list(container.get("volumeMounts") or ())
            mounts.append({"name": name, "readOnly": True, "mountPath": MOUNT_PATH})
            container["volumeMounts"] = mounts
        spec["volumes"] = [*(spec.get("volumes") or ()), _volume(name)]


def _wanted(account: Object, spec: Object) -> bool:
    for holder in (spec, account):
        asked = holder.get("automountServiceAccountToken")
        if asked is not None:
            return bool(asked)
    return True


def _has_mount(container: Object) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(each.get("mountPath") == MOUNT_PATH for each in mounts)


def _volume(name: str) -> Object:
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": authority},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 420,
        },
    }
