"""Makes the claims that pods ask for by template: volumes and devices that live with the pod.

A generic ephemeral volume becomes a PersistentVolumeClaim `<pod>-<volume>`. A `resourceClaims`
entry with a template becomes a ResourceClaim whose name is noted in the pod's status. The pod
owns both, so the garbage collector deletes them after it. A finished pod's device reservation is
given back at once.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from bayplan.client import AlreadyExists, Change, NotFound, Resource
from bayplan.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS
from bayplan.controllers.objects import Json, Object, is_finished, owner_reference
from bayplan.controllers.runtime import Kit, OneWorker, Worker

TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


class EphemeralClaimController(OneWorker):
    """Looks at pods that ask for claims of their own."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._pods = kit.cache(PODS)
        self._claims = kit.cache(RESOURCE_CLAIMS)
        caches = (self._pods, self._claims)
        self._worker = Worker(kit, "ephemeral-claims", self._sync, caches)
        self._pods.listen(self._changed)

    def _changed(self, change: Change[Object]) -> None:
        spec = change.new.spec
        volumes = any("ephemeral" in volume for volume in spec.get("volumes") or [])
        if change.type != "DELETED" and (volumes or spec.get("resourceClaims")):
            self._worker.queue.add(change.new.key)

    async def _sync(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        if is_finished(pod):
            await self._give_back(pod)
        elif not pod.deleted:
            for volume in pod.spec.get("volumes") or []:
                if "ephemeral" in volume:
                    await self._make_volume_claim(pod, volume)
            await self._make_device_claims(pod)
        return None

    async def _make_volume_claim(self, pod: Object, volume: Json) -> None:
        template: Json = volume["ephemeral"].get("volumeClaimTemplate") or {}
        given: Json = template.get("metadata") or {}
        metadata: Json = {
            "name": f"{pod.metadata.name}-{volume['name']}",
            "ownerReferences": [owner_reference(PODS, pod.metadata)],
        }
        metadata |= {name: given[name] for name in ("labels", "annotations") if given.get(name)}
        body = {"metadata": metadata, "spec": template.get("spec") or {}}
        # One that exists is ours from before, or another's: then the scheduler tells the user.
        with suppress(AlreadyExists):
            await self._kit.create(PERSISTENT_VOLUME_CLAIMS, body, pod.metadata.namespace)

    async def _make_device_claims(self, pod: Object) -> None:
        statuses: list[Json] = list(pod.status.get("resourceClaimStatuses") or [])
        known = {item["name"] for item in statuses}
        for wanted in pod.spec.get("resourceClaims") or []:
            template = wanted.get("resourceClaimTemplateName")
            if template and wanted["name"] not in known:
                name = self._find(pod, wanted["name"])
                name = name or await self._make_device_claim(pod, wanted["name"], template)
                statuses.append({"name": wanted["name"], "resourceClaimName": name})
        if len(statuses) > len(known):
            body = {"status": {"resourceClaimStatuses": statuses}}
            await self._kit.patch(PODS, pod.key, body, kind="strategic", subresource="status")

    def _find(self, pod: Object, name: str) -> str:
        """Return the claim made before for this pod and name, if its name was not noted then."""
        for claim in self._claims.all():
            owner = claim.metadata.controller
            mine = owner is not None and owner.uid == pod.metadata.uid
            if mine and claim.metadata.annotations.get(POD_CLAIM) == name:
                return claim.metadata.name
        return ""

    async def _make_device_claim(self, pod: Object, name: str, template_name: str) -> str:
        namespace = pod.metadata.namespace
        raw = await self._kit.client.get(TEMPLATES, template_name, namespace)
        template: Json = msgspec.json.decode(raw)["spec"]
        given: Json = template.get("metadata") or {}
        metadata: Json = {
            "generateName": f"{pod.metadata.name}-{name}-",
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM: name},
            "ownerReferences": [owner_reference(PODS, pod.metadata)],
        }
        if given.get("labels"):
            metadata["labels"] = given["labels"]
        body = {"metadata": metadata, "spec": template.get("spec") or {}}
        made = await self._kit.create(RESOURCE_CLAIMS, body, namespace)
        return str(made["metadata"]["name"])

    async def _give_back(self, pod: Object) -> None:
        """Take a finished pod off the claims it had reserved."""
        names = [c.get("resourceClaimName") for c in pod.spec.get("resourceClaims") or []]
        statuses = pod.status.get("resourceClaimStatuses") or []
        names += [item.get("resourceClaimName") for item in statuses]
        for name in filter(None, names):
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            holders: list[Json] = (claim.status.get("reservedFor") or []) if claim else []
            left = [item for item in holders if item.get("uid") != pod.metadata.uid]
            if claim is not None and len(left) < len(holders):
                body: Json = {"status": {"reservedFor": left or None}}
                body["metadata"] = {"resourceVersion": claim.metadata.resource_version}
                if not left:
                    body["status"]["allocation"] = None
                with suppress(NotFound):
                    await self._kit.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")
