"""Policies of Jobs, on the controller in virtual time and as functions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.client.resources import CORE_EVENTS, JOBS, PODS
from bayplan.controllers import job
from bayplan.controllers.job_rules import parse_ranges, ranges, success_rule
from bayplan.controllers.objects import Meta, Object
from tests.controllers.cluster import Cluster, cluster, template, virtual


def _job(name: str, code: str = "0", **spec: Any) -> dict[str, Any]:
    made = template({"app": name}, annotations={"bayplan.dev/exit-code": code})
    made["spec"]["restartPolicy"] = "Never"
    return {"metadata": {"name": name}, "spec": {"template": made, **spec}}


async def _conditions(made: Cluster, name: str) -> dict[str, str]:
    status = (await made.get(JOBS, name)).get("status", {})
    return {c["type"]: c["reason"] for c in status.get("conditions") or [] if c["status"] == "True"}


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "0-2,5", "1,3,5-7"])
def test_indexes_are_written_and_read_the_same(text: str) -> None:
    assert text == ranges({number for each in parse_ranges(text) for number in each})


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.none() | st.integers(0, 5))
def test_a_success_rule_counts_the_indexes_that_it_names(
    done: set[int], named: set[int], count: int | None
) -> None:
    rule = {"succeededIndexes": ranges(named), "succeededCount": count}
    owner = Object(Meta(name="j"), {"completions": 30, "successPolicy": {"rules": [rule]}})
    counted = done & named if named else done
    needed = (len(named) or 30) if count is None else count

    assert (0 if len(counted) >= needed else None) == success_rule(owner, done)


@virtual
async def test_a_job_of_billions_begins_with_a_few() -> None:
    many = 2**31 - 1
    rule = {"succeededIndexes": f"1-{many - 1}", "succeededCount": 2}
    async with cluster() as made:
        indexed = {"completionMode": "Indexed", "completions": many, "parallelism": 2}
        await made.create(JOBS, _job("indexed", successPolicy={"rules": [rule]}, **indexed))
        await made.settle(30)

        assert {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"} == (
            await _conditions(made, "indexed")
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "BURST", 5)
            await made.create(JOBS, _job("wide", parallelism=many))
            while not await made.list(PODS, "app=wide"):
                await asyncio.sleep(0)
            await made.delete(JOBS, "wide", propagation="Foreground")
            await made.settle(60)
        assert [] == await made.list(PODS, "app=wide")


@virtual
async def test_an_exit_code_in_the_failure_policy_ends_the_job() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    async with cluster() as made:
        await made.create(
            JOBS, _job("stop", "42", backoffLimit=6, podFailurePolicy={"rules": [rule]})
        )
        await made.settle(30)

        found = await _conditions(made, "stop")
        assert {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"} == found
        assert 1 == len(await made.list(PODS, "app=stop"))


@virtual
async def test_indexes_fail_by_themselves() -> None:
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    async with cluster() as made:
        await made.create(JOBS, _job("each", "1", backoffLimitPerIndex=0, **indexed))
        await made.settle(60)

        assert "FailedIndexes" == (await _conditions(made, "each"))["Failed"]
        assert "0,1" == (await made.get(JOBS, "each"))["status"]["failedIndexes"]


@virtual
async def test_a_success_policy_ends_the_job_early() -> None:
    spec: dict[str, Any] = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}
    spec["successPolicy"] = {"rules": [{"succeededCount": 2}]}
    async with cluster() as made:
        await made.create(JOBS, _job("enough", **spec))
        await made.settle(60)

        found = await _conditions(made, "enough")
        assert {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"} == found
        assert 2 == (await made.get(JOBS, "enough"))["status"]["succeeded"]


@virtual
async def test_a_job_that_somebody_else_manages_is_left_alone() -> None:
    async with cluster() as made:
        await made.create(JOBS, _job("theirs", managedBy="example.com/theirs"))
        await made.settle(30)

        assert [] == await made.list(PODS, "app=theirs")


@virtual
async def test_controllers_tell_what_they_do_in_events() -> None:
    async with cluster(options={"events": True}) as made:
        await made.create(JOBS, _job("told"))
        await made.settle(30)

        found = {e["reason"]: e for e in await made.list(CORE_EVENTS)}
        assert {"SuccessfulCreate", "Completed"} <= set(found)
        assert "job-controller" == found["Completed"]["source"]["component"]
        assert found["Completed"]["lastTimestamp"]
        assert 1 == found["Completed"]["count"]
