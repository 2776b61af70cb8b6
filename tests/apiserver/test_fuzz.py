"""A short run of the fuzzers; `python -m tests.apiserver.fuzz` is the long one."""

import pytest

from tests.apiserver.fuzz import fuzz
from tests.apiserver.fuzz_schema import SchemaFuzzer

LEFT_BEHIND = 40 * 500  # blocks of memory, by the requests of the second half: history, caches


@pytest.mark.parametrize("seed", [1, 2])
async def test_nonsense_is_refused_in_order(seed):
    failures, grown = await fuzz(1000, seed)

    assert [] == failures
    assert grown < LEFT_BEHIND


def test_requests_by_the_schema_are_answered_in_order():
    fuzzer = SchemaFuzzer(examples=3)
    fuzzer.run(["apis/coordination.k8s.io/v1", "apis/scheduling.k8s.io/v1"])
    fuzzer.close()

    assert [] == fuzzer.failures
    assert fuzzer.requests > 30
