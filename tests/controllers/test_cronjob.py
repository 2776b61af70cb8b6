"""CronJobs by the virtual clock, and the schedules they are written in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.client.resources import JOBS
from bayplan.controllers.cronjob import CRON_JOBS
from bayplan.controllers.schedule import Schedule, ScheduleError
from tests.controllers.cluster import cluster, template, virtual
from tests.effort import at_most


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("*/15 * * * *", "", "2026-01-01T00:07:31", "2026-01-01T00:15:00"),
        ("0 3 * * mon-fri", "", "2026-01-03T12:00:00", "2026-01-05T03:00:00"),
        ("30 6 1 */2 *", "", "2026-02-01T00:00:00", "2026-03-01T06:30:00"),
        ("0 0 13 * 5", "", "2026-02-07T00:00:00", "2026-02-13T00:00:00"),
        ("0 0 29 2 *", "", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("@daily", "America/New_York", "2026-01-01T00:00:00", "2026-01-01T05:00:00"),
        ("0 9 * * 7", "", "2026-01-01T00:00:00", "2026-01-04T09:00:00"),
    ],
)
def test_the_next_moment(schedule: str, zone: str, after: str, expected: str) -> None:
    assert _moment(expected) == Schedule(schedule, zone).next(_moment(after))


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *"])
def test_a_wrong_schedule_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        Schedule(text)


def test_the_latest_missed_moment_is_found_without_counting_all() -> None:
    schedule = Schedule("* * * * *")
    start = _moment("2020-01-01T00:00:00")
    assert _moment("2026-01-01T00:00:00") == schedule.latest(start, _moment("2026-01-01T00:00:30"))
    assert schedule.latest(start, start + 1) is None


@pytest.mark.parametrize(
    ("schedule", "latest"),
    [
        ("* * * 1 *", "2026-01-31T23:59:00"),
        ("* * 29 2 *", "2024-02-29T23:59:00"),
        ("* * 31 2 *", None),
    ],
)
def test_a_schedule_that_is_dense_in_one_month_costs_little(
    schedule: str, latest: str | None
) -> None:
    with at_most(60):
        found = Schedule(schedule).latest(0.0, _moment("2026-12-01T00:00:00"))

    assert (latest and _moment(latest)) == found


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "30", "*/20"]),
    st.sampled_from(["*", "2", "23", "*/7"]),
    st.sampled_from(["*", "1", "29", "31"]),
    st.sampled_from(["*", "3,11", "2"]),
    st.sampled_from(["*", "0", "1-5"]),
)


@given(
    FIELDS,
    st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "America/Havana"]),
    st.sampled_from(["2026-03-08", "2026-10-31", "2026-11-02", "2026-04-05", "2028-02-28"]),
    st.integers(0, 4 * 86_400),
    st.integers(0, 3 * 86_400),
)
def test_the_latest_moment_is_the_last_of_all(
    fields: tuple[str, ...], zone: str, day: str, offset: int, span: int
) -> None:
    schedule = Schedule(" ".join(fields), zone)
    after = _moment(f"{day}T00:00:00") + offset - 86_400
    last, moment = None, schedule.next(after)
    while moment is not None and moment <= after + span:
        last, moment = moment, schedule.next(moment)

    assert last == schedule.latest(after, after + span)


def _cron(name: str, **spec: Any) -> dict[str, Any]:
    made = template({"app": name}, annotations={"bayplan.dev/run-seconds": spec.pop("runs", "1")})
    made["spec"]["restartPolicy"] = "Never"
    job = {"spec": {"template": made}}
    return {
        "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec},
    }


@virtual
async def test_jobs_are_made_every_minute_and_old_ones_go() -> None:
    async with cluster() as made:
        await made.create(CRON_JOBS, _cron("tick"))
        await made.settle(600)

        jobs = await made.list(JOBS)
        assert 3 <= len(jobs) <= 4
        status = (await made.get(CRON_JOBS, "tick"))["status"]
        assert status["lastScheduleTime"]
        assert status["lastSuccessfulTime"]


@virtual
async def test_concurrency_policies() -> None:
    async with cluster() as made:
        for policy in ("Allow", "Forbid", "Replace"):
            await made.create(
                CRON_JOBS, _cron(policy.lower(), runs="10000", concurrencyPolicy=policy)
            )
        await made.create(CRON_JOBS, _cron("off", suspend=True))
        await made.settle(200)

        names = [job["metadata"]["name"].split("-")[0] for job in await made.list(JOBS)]
        assert names.count("allow") >= 3
        assert 1 == names.count("forbid") == names.count("replace")
        assert 0 == names.count("off")
