"""What is kept of a namespace's use is what a sum from scratch says, and is bounded."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.apiserver.admission import CREATE, AdmissionError, Attributes
from bayplan.apiserver.admission.quota import Quotas
from bayplan.apiserver.codec import Codec, encode_value
from bayplan.apiserver.kinds import built_in
from bayplan.apiserver.reader import CachedReader
from bayplan.store import MemoryStore, NotFound

CODECS = {kind.storage: Codec(kind) for kind in built_in()}
SCOPES = {"every": [], "ending": ["Terminating"], "other": []}


class Counting(CachedReader):
    """Tells how often a collection was walked through."""

    walks = 0

    def tally(self, *given):
        self.walks += 1
        super().tally(*given)

    async def tallied(self, *given):
        self.walks += 1
        await super().tallied(*given)


class Cluster:
    """A server's store, and the quotas on it."""

    def __init__(self, most=1000):
        self.store = MemoryStore()
        self.reader = Counting(self.store, lambda *named: CODECS.get(named))
        self.quotas = Quotas(most)

    async def put(self, resource, namespace, name, **fields):
        obj = {"metadata": {"name": name, "namespace": namespace}, **fields}
        await self.store.put(CODECS["", resource].key(namespace, name), encode_value(obj))

    async def remove(self, resource, namespace, name):
        with suppress(NotFound):
            await self.store.delete(CODECS["", resource].key(namespace, name))

    async def begin(self, namespace, hard="0"):
        """Make a namespace with two quotas of one scope."""
        await self.put("namespaces", "", namespace)
        for name in "qr":
            spec, status = {"scopes": SCOPES[namespace]}, {"hard": {"requests.cpu": hard}}
            await self.put("resourcequotas", namespace, name, spec=spec, status=status)

    async def ask(self, namespace):
        """Return what is said to a pod, in two halves as the server asks."""
        new = {"metadata": {"name": "new"}, "spec": pod_spec(1, True)}
        attrs = Attributes(CREATE, "", "v1", "pods", "", namespace, "new", new)
        for tally in self.quotas.counted(attrs, self.reader):
            await self.reader.tallied("", "pods", namespace, tally)
        try:
            self.quotas.check(attrs, self.reader)
        except AdmissionError as error:
            return str(error)
        return ""


def pod_spec(cpu, ending):
    resources = {"requests": {"cpu": str(cpu)}}
    deadline = {"activeDeadlineSeconds": 5} if ending else {}
    return {"containers": [{"name": "c", "resources": resources}], **deadline}


NAMESPACES = st.sampled_from(sorted(SCOPES))
NAMES = st.sampled_from("xyz")
STEPS = st.one_of(
    st.tuples(NAMESPACES, NAMES, st.integers(1, 3), st.booleans(), st.booleans()),
    st.tuples(NAMESPACES, NAMES),
    st.tuples(NAMESPACES),
)


@given(st.lists(STEPS), st.sampled_from([1, 2, 5, 1000]))
def test_use_is_the_sum_of_what_there_is_however_little_is_kept(steps, most):
    asyncio.run(_follow(steps, most))


async def _follow(steps, most):
    cluster, uses = Cluster(most), {name: {} for name in SCOPES}
    for namespace in SCOPES:
        await cluster.begin(namespace)
    for namespace, *step in steps:
        match step:
            case [name, cpu, ending, done]:
                phase = "Succeeded" if done else "Running"
                spec, status = pod_spec(cpu, ending), {"phase": phase}
                await cluster.put("pods", namespace, name, spec=spec, status=status)
                counts = not done and (ending or namespace != "ending")
                uses[namespace][name] = cpu if counts else 0
            case [name]:
                await cluster.remove("pods", namespace, name)
                uses[namespace].pop(name, None)
            case []:
                for name in uses[namespace]:
                    await cluster.remove("pods", namespace, name)
                await cluster.remove("namespaces", "", namespace)
                uses[namespace] = {}
                for other in SCOPES.keys() - {namespace}:
                    await cluster.ask(other)
                await cluster.put("namespaces", "", namespace)
        said = await cluster.ask(namespace)

        assert f"used: requests.cpu={sum(uses[namespace].values())}," in said
        sizes = kept(cluster).values()
        assert sum(sizes) <= max(most, *sizes)


def kept(cluster):
    found = dict.fromkeys(SCOPES, 0)
    for (namespace, *_), tally in cluster.quotas._tallies.items():
        found[namespace] += 1 + tally.size
    return found


async def test_what_is_kept_of_the_namespace_heard_longest_ago_goes_first():
    cluster = Cluster(most=5)
    for namespace in SCOPES:
        await cluster.begin(namespace)
    for namespace, count in (("every", 1), ("ending", 1), ("every", 2), ("other", 2)):
        await cluster.put("pods", namespace, str(count), spec=pod_spec(1, False))
        await cluster.ask(namespace)

    assert {"every": 3, "ending": 0, "other": 2} == kept(cluster)


async def test_what_was_kept_for_scopes_that_a_quota_had_is_bounded_too():
    cluster = Cluster(most=5)
    await cluster.put("namespaces", "", "every")
    await cluster.put("pods", "every", "x", spec=pod_spec(1, True))
    for scopes in ([], ["Terminating"], ["Terminating", "NotBestEffort"]):
        status = {"hard": {"requests.cpu": "100"}}
        await cluster.put("resourcequotas", "every", "q", spec={"scopes": scopes}, status=status)
        await cluster.ask("every")

    assert 4 == kept(cluster)["every"]


async def test_of_namespaces_that_are_gone_nothing_is_kept():
    cluster = Cluster()
    for namespace in SCOPES:
        await cluster.begin(namespace, hard="100")
        await cluster.put("pods", namespace, "x", spec=pod_spec(1, True))
        await cluster.ask(namespace)
    await cluster.remove("namespaces", "", "ending")
    for _ in range(2 * len(SCOPES)):
        await cluster.ask("other")

    assert {"every": 2, "ending": 0, "other": 2} == kept(cluster)


@pytest.mark.parametrize("hard", ["0", "100"])
async def test_quotas_of_equal_scopes_share_a_walk(hard):
    cluster = Cluster()
    await cluster.begin("every", hard)
    await cluster.ask("every")

    assert 2 == cluster.reader.walks
