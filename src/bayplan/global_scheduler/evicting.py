"""Has VM pods leave a site: a bound pod's node cannot change, so its owner must make another.

A pod with a controller is evicted, as a drained node's pods are: disruption budgets hold, and the
pod that its controller makes next is placed like any other, not on a closed site. A pod without one
would be lost; it stays and is told.
"""

from bayplan.client import Client, Informer, NotFound
from bayplan.global_scheduler.kinds import Placeable
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.service import ConflictError


class Evictions:
    """Evicts the pods of records, as far as the informer knows them."""

    def __init__(self, client: Client, pods: Informer[Placeable]) -> None:
        self._client = client
        self._pods = pods

    async def evict(self, record: Record) -> None:
        """Evict a record's pod; raises ConflictError or ClientError when it stays."""
        found = [p for p in self._pods.store.values() if p.metadata.uid == record.id]
        for meta in (pod.metadata for pod in found if pod.metadata.deletion_timestamp is None):
            if not any(owner.controller for owner in meta.owner_references):
                raise ConflictError(
                    f'the pod "{meta.namespace}/{meta.name}" has no controller, so nothing would '
                    "make it again; delete it yourself"
                )
            try:
                await self._client.evict(meta.namespace, meta.name, uid=meta.uid)
            except NotFound:
                continue
