"""Scenarios and recordings become stories whose every moment can be had again."""

import asyncio
import base64
import json
import re
import zlib

from bayplan.page import runs
from bayplan.page.board import POD_FLAGS, PODS
from bayplan.page.rows import BOUND, DISRUPTED, PLACE
from bayplan.page.sources import Event, Story
from bayplan.sim.load import load_scenario
from bayplan.testing import make_node, make_pod


def test_a_scenario_is_run_for_each_seed_and_every_moment_can_be_asked():
    path = runs.find("01-first-pod")
    found = runs.played(path, [
        runs.Variant(""), runs.Variant("seed 7", "seed 7", 7),
    ])  # fmt: skip

    assert [run["name"] for run in found.about()["runs"]] == ["", "seed 7"]
    board = found.run("seed 7")
    assert board.frames
    bound = [row for row in board.pods.rows if row is not None and row[PLACE] == BOUND]
    assert bound
    before = asyncio.run(found.cluster("", board.frames[0].time - 1))
    after = asyncio.run(found.cluster("", None))
    assert not before.nodes
    assert after.nodes
    assert found.run("nobody") is None


def test_a_scenario_is_compared_with_another_version():
    path = runs.find("01-first-pod")
    found = runs.played(path, [runs.Variant(""), runs.Variant("as 1.36", version="1.36")])
    now = asyncio.run(found.cluster("", None))
    older = asyncio.run(found.cluster("as 1.36", None))

    assert now.settings.gates.version == "1.37"
    assert older.settings.gates.version == "1.36"


def test_the_evictions_of_a_drain_are_told():
    board = runs.played(runs.find("09-drain"), [runs.Variant("")]).board
    told = {
        row[0]
        for frame in board.frames
        for table, _, row in frame.changes
        if table == PODS and row is not None and int(row[POD_FLAGS]) & DISRUPTED
    }

    assert len(told) == 2


def test_a_report_holds_the_runs_and_how_they_ended():
    script = load_scenario(runs.find("01-first-pod"))
    body = runs.report_of([script.run(), script.run(seed=7)])
    parts = dict(re.findall(r'data-part="([^"]*)"[^>]*>([^<]*)<', body))
    head = json.loads(zlib.decompress(base64.b64decode(parts["cluster"]), 31).partition(b"\n")[0])

    assert [run["outcome"]["seed"] for run in head["runs"]] == [0, 7]
    assert all(run["outcome"]["ok"] for run in head["runs"])
    assert head["runs"][0]["outcome"]["checks"]
    assert {"history ", f"history {head['runs'][1]['name']}"} <= set(parts)


def test_both_lanes_tell_the_same_story():
    script = load_scenario(runs.find("06-priorities"))
    fast, faithful = (runs.story(script.run(faithful=lane)).board for lane in (False, True))

    def told(board):
        return [
            (frame.time, table, row and (row[0], row[PLACE], row[-1]))
            for frame in board.frames for table, _, row in frame.changes
        ]  # fmt: skip

    assert told(fast) == told(faithful)


def test_a_scenario_that_needs_the_api_server_gets_it(tmp_path):
    whole = runs.find("19-api-trouble").read_text()
    for name, text in {
        "within": whole.replace("faithful: true\n", ""),
        "before": whole.replace("faithful: true\n", "elect: true\n"),
    }.items():
        file = tmp_path / f"{name}.scenario.yaml"
        file.write_text(text)
        [run] = runs.played(file, [runs.Variant("")]).about()["runs"]

        assert run["outcome"]["ok"], run["outcome"]["failures"]


def test_a_story_forgets_nothing_however_long():
    events = [Event(float(i), "ADDED", make_node(f"n{i}").build()) for i in range(50)]
    story = Story("", "test", events, 60.0)

    assert story.board.start == ([], [])
    assert len(story.board.frames) == 50
    assert len(list(story.objects(9.0))) == 10


def test_a_recording_is_shown_as_it_happened(tmp_path):
    import msgspec

    from bayplan.api import to_builtins

    def line(second, event, item):
        body = {**to_builtins(item), "kind": item.KIND, "apiVersion": "v1"}
        time = f"2026-01-01T00:00:{second:02d}Z"
        return msgspec.json.encode({"time": time, "event": event, "resource": body})

    pod = make_pod("a")
    file = tmp_path / "day.jsonl"
    file.write_bytes(b"\n".join([
        line(0, "Add", make_node("n1").build()), line(1, "Add", pod.build()),
        line(5, "Update", pod.node("n1").build()), line(9, "Delete", pod.build()),
    ]))  # fmt: skip
    found = runs.recorded(runs.find(str(file)))

    assert found.about()["kind"] == "recording"
    times = [frame.time - found.board.frames[0].time for frame in found.board.frames]
    assert times[-1] == 9.0
    assert not found.board.pods.slots
