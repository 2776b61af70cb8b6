"""Deletions: how long a pod is given, what stays for finalizers, and what is refused."""

import pytest

from bayplan.store import MemoryStore
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod
from tests.definitions import DEFINITIONS, definition

NOW = 1_800_000_000.0
LATER = "2027-01-15T08:00:{:02}Z"
OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions"}


@pytest.fixture
async def clocked():
    """A server whose clock stands still; `at` moves it."""
    seconds = [NOW]
    started = await Api.start(clock=lambda: seconds[0])
    started.at = lambda moment: seconds.__setitem__(0, NOW + moment)
    yield started
    await started.close()


async def running(api, grace=30, **metadata):
    body = pod("p", nodeName="n", terminationGracePeriodSeconds=grace)
    body["metadata"] |= metadata
    return await api.ok("POST", PODS, body)


async def delete(api, path=f"{PODS}/p", **options):
    return await api.call("DELETE", path, OPTIONS | options)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [({}, 30), ({"gracePeriodSeconds": 7}, 7), ({"gracePeriodSeconds": -5}, 1)],
    ids=["its own", "shorter", "less than none"],
)
async def test_a_running_pod_is_given_its_time(clocked, given, seconds):
    before = await running(clocked)

    answer = await delete(clocked, **given)

    found = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]
    assert 200 == answer.status
    assert seconds == found["deletionGracePeriodSeconds"]
    assert LATER.format(seconds) == found["deletionTimestamp"]
    assert before["metadata"]["generation"] + 1 == found["generation"]


async def test_a_pod_with_a_negative_grace_has_a_second(clocked):
    await running(clocked, grace=-1)

    await delete(clocked)

    found = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]
    assert 1 == found["deletionGracePeriodSeconds"]


@pytest.mark.parametrize(
    ("grace", "end"),
    [
        (9_223_372_036, "2319-04-27T07:47:16Z"),
        (9_223_372_037, "1734-10-06T08:12:43Z"),
        (253_402_300_800, "1873-04-13T13:56:08Z"),
        (2**63 - 1, "2027-01-15T07:59:59Z"),
    ],
)
async def test_time_longer_than_go_can_count_ends_where_go_says(clocked, grace, end):
    """As in kube-apiserver, whose nanoseconds begin anew; and such a pod can be deleted."""
    await running(clocked, grace=grace)

    await delete(clocked)
    assert end == (await clocked.ok("GET", f"{PODS}/p"))["metadata"]["deletionTimestamp"]
    await delete(clocked, gracePeriodSeconds=30)
    found = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]
    assert LATER.format(30) == found["deletionTimestamp"]
    await delete(clocked, gracePeriodSeconds=0)
    assert 404 == (await clocked.call("GET", f"{PODS}/p")).status


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_a_pod_that_has_ended_goes_at_once(clocked, phase):
    await running(clocked)
    await clocked.ok("PATCH", f"{PODS}/p/status", {"status": {"phase": phase}})

    await delete(clocked)

    assert 404 == (await clocked.call("GET", f"{PODS}/p")).status


async def test_a_pod_that_needs_no_time_goes_at_once(clocked):
    await running(clocked, grace=0)

    await delete(clocked)

    assert 404 == (await clocked.call("GET", f"{PODS}/p")).status


async def test_a_pod_without_a_node_goes_at_once_and_is_shown(clocked):
    await clocked.ok("POST", PODS, pod("p"))

    answer = await delete(clocked)

    assert "Pod" == answer.body["kind"]
    assert 404 == (await clocked.call("GET", f"{PODS}/p")).status


@pytest.mark.parametrize(
    ("after", "again", "seconds", "end"),
    [
        pytest.param(5, {"gracePeriodSeconds": 10}, 10, 10, id="nearer"),
        pytest.param(5, {"gracePeriodSeconds": 50}, 30, 30, id="not farther"),
        pytest.param(5, {"gracePeriodSeconds": 30}, 30, 30, id="not the same"),
        pytest.param(5, {}, 30, 30, id="not without a word"),
        pytest.param(20, {"gracePeriodSeconds": 10}, 1, 20, id="past, so now"),
    ],
)
async def test_a_second_deletion_only_brings_the_end_nearer(clocked, after, again, seconds, end):
    await running(clocked)
    await delete(clocked)
    clocked.at(after)

    assert 200 == (await delete(clocked, **again)).status

    found = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]
    assert (seconds, LATER.format(end)) == (
        found["deletionGracePeriodSeconds"],
        found["deletionTimestamp"],
    )


async def test_a_pod_that_has_no_time_left_stays_as_it_is_for_its_finalizers(clocked):
    await running(clocked, finalizers=["example.com/stay"])
    first = await delete(clocked, gracePeriodSeconds=0)
    clocked.at(9)

    again = await delete(clocked, gracePeriodSeconds=0)

    assert (200, 200) == (first.status, again.status)
    assert first.body["metadata"] == again.body["metadata"]


async def test_none_left_takes_a_waiting_pod_away(clocked):
    await running(clocked)
    await delete(clocked)

    await delete(clocked, gracePeriodSeconds=0)

    assert 404 == (await clocked.call("GET", f"{PODS}/p")).status


async def test_an_object_waits_for_its_finalizers_and_is_marked_once(clocked):
    await clocked.ok("POST", CONFIGMAPS, configmap("c", finalizers=["example.com/stay"]))
    first = await delete(clocked, f"{CONFIGMAPS}/c")
    clocked.at(9)
    second = await delete(clocked, f"{CONFIGMAPS}/c")

    marked = first.body["metadata"]
    assert (LATER.format(0), 0) == (
        marked["deletionTimestamp"],
        marked["deletionGracePeriodSeconds"],
    )
    assert marked == second.body["metadata"], "nothing was written the second time"


@pytest.mark.parametrize(
    ("given", "finalizers"),
    [
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Background"}, None),
        ({"orphanDependents": True}, ["orphan"]),
        ({"orphanDependents": False}, None),
        ({}, None),
    ],
    ids=["orphan", "foreground", "background", "orphans", "no orphans", "nothing said"],
)
async def test_how_dependents_go_is_kept_as_a_finalizer(api, given, finalizers):
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    await delete(api, f"{CONFIGMAPS}/c", **given)

    left = await api.call("GET", f"{CONFIGMAPS}/c")
    assert (200 if finalizers else 404) == left.status
    assert finalizers is None or finalizers == left.body["metadata"]["finalizers"]


@pytest.mark.parametrize("present", ["orphan", "foregroundDeletion"])
async def test_what_was_wanted_before_stays_where_nothing_is_said(api, present):
    await api.ok("POST", CONFIGMAPS, configmap("c", finalizers=[present]))

    await delete(api, f"{CONFIGMAPS}/c")
    kept = (await api.ok("GET", f"{CONFIGMAPS}/c"))["metadata"]["finalizers"]
    await delete(api, f"{CONFIGMAPS}/c", propagationPolicy="Background")

    assert [present] == kept
    assert 404 == (await api.call("GET", f"{CONFIGMAPS}/c")).status


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"uid": "another"}, "the UID in the precondition (another) does not match"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ],
    ids=["uid", "version"],
)
async def test_another_object_than_the_one_meant_stays(api, given, text):
    made = (await api.ok("POST", CONFIGMAPS, configmap("c")))["metadata"]

    answer = await delete(api, f"{CONFIGMAPS}/c", preconditions=given)
    meant = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    right = await delete(api, f"{CONFIGMAPS}/c", preconditions=meant)

    assert (409, 200) == (answer.status, right.status)
    assert text in answer.body["message"]


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({"propagationPolicy": "Perhaps"}, 422, "propagationPolicy"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "propagationPolicy"),
        ({"dryRun": ["Some"]}, 422, "dryRun"),
        ({"gracePeriodSeconds": "soon"}, 400, ""),
    ],
    ids=["unknown", "both", "dry run", "no number"],
)
async def test_wrong_options_are_refused(api, given, status, field):
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    answer = await delete(api, f"{CONFIGMAPS}/c", **given)

    assert status == answer.status
    assert not field or field == answer.body["details"]["causes"][0]["field"]
    await api.ok("GET", f"{CONFIGMAPS}/c")


async def test_a_body_that_is_no_object_is_refused(api):
    await api.ok("POST", CONFIGMAPS, configmap("c"))

    assert 400 == (await api.call("DELETE", f"{CONFIGMAPS}/c", [1])).status


@pytest.mark.parametrize("options", [{"dryRun": ["All"]}, {}], ids=["body", "query"])
async def test_a_dry_run_takes_nothing_away(api, options):
    await api.ok("POST", CONFIGMAPS, configmap("c"))
    query = "" if options else "?dryRun=All"

    assert 200 == (await delete(api, f"{CONFIGMAPS}/c{query}", **options)).status
    await api.ok("GET", f"{CONFIGMAPS}/c")


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
async def test_the_classes_of_the_system_cannot_be_deleted(api, name):
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"

    answer = await delete(api, path)

    assert 403 == answer.status
    assert "this is a system priority class and cannot be deleted" in answer.body["message"]
    await api.ok("GET", path)


async def test_a_pod_that_was_stored_with_a_negative_grace_has_a_second(clocked):
    await running(clocked, grace=1)
    store, wanted = clocked.server.store, b'"terminationGracePeriodSeconds":%d'
    [kv] = [kv for kv in (await store.range("")).items if wanted % 1 in kv.value]
    await store.put(kv.key, kv.value.replace(wanted % 1, wanted % -1))

    await delete(clocked)

    found = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]
    assert 1 == found["deletionGracePeriodSeconds"]


@pytest.mark.parametrize("insists", [False, True])
async def test_a_deletion_that_another_was_faster_than_is_tried_again(insists):
    """Unless it means one version: then it is told that there is another."""

    class Raced(MemoryStore):
        async def delete(self, key, *, expect=None):
            if not races:
                races.append(await self.put(key, (await self.get(key)).value))
            return await super().delete(key, expect=expect)

    races = []
    api = await Api.start(Raced())
    made = await api.ok("POST", CONFIGMAPS, configmap("c"))
    wanted = {"resourceVersion": made["metadata"]["resourceVersion"]} if insists else {}

    answer = await delete(api, f"{CONFIGMAPS}/c", preconditions=wanted)

    assert 1 == len(races)
    assert (409 if insists else 200) == answer.status
    assert (200 if insists else 404) == (await api.call("GET", f"{CONFIGMAPS}/c")).status
    await api.close()


async def test_how_dependents_of_a_waiting_pod_go_may_still_be_chosen(clocked):
    await running(clocked, finalizers=["example.com/stay"])
    await delete(clocked, gracePeriodSeconds=0)

    again = await delete(clocked, gracePeriodSeconds=0, propagationPolicy="Foreground")

    kept = (await clocked.ok("GET", f"{PODS}/p"))["metadata"]["finalizers"]
    assert (
        ["example.com/stay", "foregroundDeletion"] == kept == again.body["metadata"]["finalizers"]
    )


async def test_dependents_of_old_kinds_are_orphaned_where_nothing_is_said(api):
    controllers = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]}
    spec = {"selector": {"a": "b"}, "replicas": 0, "template": template}
    await api.ok("POST", controllers, {"metadata": {"name": "c"}, "spec": spec})

    await api.ok("DELETE", f"{controllers}/c")

    assert ["orphan"] == (await api.ok("GET", f"{controllers}/c"))["metadata"]["finalizers"]


async def test_an_event_goes_at_once_whatever_is_said_of_its_dependents(api):
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    body = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "r", "type": "Normal"}
    await api.ok("POST", events, body)
    before = api.server.store.revision

    await delete(api, f"{events}/e", propagationPolicy="Orphan")

    assert before + 1 == api.server.store.revision
    assert 404 == (await api.call("GET", f"{events}/e")).status


BOATS = "/apis/example.com/v1/namespaces/default/boats"
BOAT_DEFINITION = f"{DEFINITIONS}/boats.example.com"


async def fleet(api, finalizers=(), **boats):
    """A definition, and boats with the finalizers given."""
    body = definition("boats")
    body["metadata"]["finalizers"] = list(finalizers)
    await api.ok("POST", DEFINITIONS, body)
    for name, held in boats.items():
        metadata = {"name": name, "finalizers": list(held)}
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": metadata}
        await api.ok("POST", BOATS, boat)


async def free(api, path):
    await api.ok("PATCH", path, {"metadata": {"finalizers": None}})


async def test_a_definition_waits_for_the_one_object_that_is_held_and_for_no_other(api):
    await fleet(api, a=["example.com/stay"], b=[], c=["example.com/stay"], d=[])
    await api.ok("DELETE", f"{BOATS}/a")

    first = await api.ok("DELETE", BOAT_DEFINITION)
    again = await api.ok("DELETE", BOAT_DEFINITION)

    left = (await api.ok("GET", BOATS))["items"]
    terminating = [c["status"] for c in first["status"]["conditions"] if c["type"] == "Terminating"]
    assert ["a", "c"] == [boat["metadata"]["name"] for boat in left]
    assert all(boat["metadata"]["deletionTimestamp"] for boat in left)
    assert ["True"] == terminating
    assert first["metadata"]["deletionTimestamp"] == again["metadata"]["deletionTimestamp"]
    await free(api, f"{BOATS}/a")
    assert 200 == (await api.call("GET", BOAT_DEFINITION)).status
    await free(api, f"{BOATS}/c")
    assert 404 == (await api.call("GET", BOAT_DEFINITION)).status


async def test_a_definition_that_is_held_stays_behind_its_objects(api):
    await fleet(api, ["example.com/stay"], a=[])

    await api.ok("DELETE", BOAT_DEFINITION)

    found = await api.ok("GET", BOAT_DEFINITION)
    again = await api.ok("DELETE", BOAT_DEFINITION)
    assert ["example.com/stay"] == found["metadata"]["finalizers"]
    assert found == again
    await free(api, BOAT_DEFINITION)
    assert 404 == (await api.call("GET", BOAT_DEFINITION)).status


async def test_a_deletion_of_a_definition_that_is_only_tried_changes_nothing(api):
    await fleet(api, a=[])
    before = api.server.store.revision

    shown = await api.ok("DELETE", f"{BOAT_DEFINITION}?dryRun=All")

    assert shown["metadata"]["deletionTimestamp"]
    assert before == api.server.store.revision
