"""Traces: the format, its mistakes, generators, and the policies of the published table."""

import json
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from bayplan.cli.trace import command
from bayplan.errors import BayplanError
from bayplan.sim.script import parse_script
from bayplan.sim.traces import fgd
from bayplan.sim.traces.format import TracePod, read_trace, write_trace
from bayplan.sim.traces.generate import MODELS, generate
from bayplan.sim.traces.openb import OpenbNode, OpenbPod, read_pods
from bayplan.sim.traces.play import play_trace
from bayplan.sim.traces.table import TraceError
from bayplan.sim.world import Settings

GPU = Path(__file__).parents[2] / "examples" / "policies" / "gpu.py"


def test_a_trace_survives_writing_and_reading(tmp_path):
    pods = [
        TracePod(0.5, 60, "500m", "1Gi", {"app": "web", "tier": "a"}, "high", "g1"),
        TracePod(2.25, None, "2", extra={"example.com/gpu": "1"}),
    ]

    assert 2 == write_trace(tmp_path / "t.csv", reversed(pods))
    assert pods == read_trace(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu\n1\n", 't.csv:1: column "time" is missing'),
        ("time,cpu\n0,1\nsoon,1\n", 't.csv:3: column time: "soon" is not a number'),
        ("time,cpu\n-1,1\n", 't.csv:2: column time: "-1" is not a number of at least 0'),
        ("time,cpu\n0,lots\n", 't.csv:2: column cpu: "lots" is not a quantity'),
        ("time,labels\n0,app\n", 't.csv:2: column labels: "app" is not key=value'),
        ("time,cpu\n0\n", "t.csv:2: column cpu: the line has not 2 columns as the header"),
        ("time\n", "t.csv: the trace holds no pods"),
        ("time,cpus\n0,1\n", "t.csv:1: column cpus: unknown; did you mean cpu?"),
        ("time,\n0,1\n", "t.csv:1: column 2: has no name"),
    ],
)
def test_mistakes_name_file_line_and_column(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(TraceError) as caught:
        read_trace(tmp_path / "t.csv")

    assert message in str(caught.value)


def test_openb_pods_are_checked(tmp_path):
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    (tmp_path / "p.csv").write_text(head + "a,1000,100,1,460,T4|P100\nb,1,1,1,2000,\n")

    with pytest.raises(TraceError, match=r"p\.csv:3: column gpu_milli: 2000 is not between"):
        read_pods(tmp_path / "p.csv")


def test_scenarios_play_traces_from_files(tmp_path):
    write_trace(tmp_path / "t.csv", [TracePod(1, 10, "1"), TracePod(3, 10, "1")])
    text = (
        "apiVersion: bayplan.dev/v1alpha1\nkind: Scenario\nsteps:\n"
        "  - nodes: {name: one}\n    workload: {name: w, trace: t.csv}\n"
    )

    result = parse_script(text, str(tmp_path / "x.yaml")).run()

    assert result.ok, result.problems()
    assert [1.0, 3.0] == [life.bound for life in result.tracker.past]
    assert [11.0, 13.0] == [life.gone for life in result.tracker.past]


def test_pods_that_come_last_and_stay_are_tried_too(tmp_path):
    write_trace(tmp_path / "t.csv", [TracePod(0, None, "1"), TracePod(5, None, "1")])

    lines = play_trace(tmp_path / "t.csv", 2, {}, Settings(faithful=False))

    assert lines[0] == "2 pods, 2 bound"


def test_a_pod_of_a_trace_that_is_refused_is_named(tmp_path):
    write_trace(tmp_path / "t.csv", [TracePod(0, None, "1"), TracePod(5, priority="high")])

    with pytest.raises(BayplanError, match='pods "pod-1" is forbidden: no PriorityClass'):
        play_trace(tmp_path / "t.csv", 2, {}, Settings(faithful=False))


def test_generated_traces_follow_the_seed():
    first, again, other = (list(generate(MODELS["gpu"], 50, 2.0, seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_commands(tmp_path):
    trace = str(tmp_path / "t.csv")
    run = CliRunner().invoke(command, ["generate", trace, "--pods", "20", "--rate", "5"])
    assert f"wrote {trace}: 20 pods" in run.output

    run = CliRunner().invoke(command, ["run", trace, "--nodes", "2"], catch_exceptions=False)

    assert run.output.startswith("20 pods, 20 bound\nwaited ")


def test_a_missing_trace_is_told(tmp_path):
    with pytest.raises(BayplanError, match=r"has no openb_node_list_gpu_node\.csv"):
        CliRunner().invoke(
            command, ["reproduce", "fgd", "--data", str(tmp_path)], catch_exceptions=False
        )


NODES = [
    OpenbNode(f"n{i}", 32000, 65536, 2 + 2 * (i % 2), "T4" if i % 2 else "P100") for i in range(6)
]
PODS = [
    OpenbPod(
        f"p{i}",
        1000 * (1 + i % 4),
        1024,
        int(i % 5 > 0),
        (0, 300, 700, 1000, 500)[i % 5],
        "T4" if i % 7 == 0 and i % 5 else "",
    )
    for i in range(40)
]


@pytest.mark.parametrize("policy", fgd.PAPER)
def test_policies_fill_a_small_cluster_and_repeat_themselves(policy):
    first, again = (fgd.run_one(policy, 1, NODES, PODS, GPU) for _ in range(2))

    assert first == again
    assert 60 < first.percent <= 100


def test_the_order_of_pods_and_of_node_names_is_drawn_because_the_first_name_wins():
    first, again, other = (fgd.draw_order(NODES, PODS, random.Random(seed)) for seed in (1, 1, 2))

    assert first == again
    assert first.pods != other.pods
    assert first.nodes != other.nodes
    assert sorted(first.nodes) == list(range(len(NODES)))
    assert sorted(first.pods[: len(PODS)]) == list(range(len(PODS)))
    assert [f"{place:04d}-n{i}" for i, place in enumerate(first.nodes)] == [
        node.name for node in fgd.renamed(NODES, first.nodes)
    ]


def test_an_order_can_be_given(tmp_path):
    drawn = fgd.draw_order(NODES, PODS, random.Random(5))
    (tmp_path / "o.json").write_bytes(msgspec.json.encode(drawn))
    given = fgd.read_order(tmp_path / "o.json")

    assert given == drawn
    assert fgd.run_one("FGD", 5, NODES, PODS, GPU) == fgd.run_one("FGD", 5, NODES, PODS, GPU, given)
    (tmp_path / "o.json").write_text("{")
    with pytest.raises(BayplanError, match="reading the order"):
        fgd.read_order(tmp_path / "o.json")


def test_each_order_is_that_of_one_seed(tmp_path):
    (tmp_path / fgd.NODE_FILE).write_text("sn,cpu_milli,memory_mib,gpu,model\nn,96000,65536,8,T4\n")
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    lines = [f"p{i},1000,64,1,{400 + 200 * (i % 2)}," for i in range(20)]
    (tmp_path / fgd.POD_FILE).write_text(header + "\n".join(lines) + "\n")
    words = ["reproduce", "fgd", "--data", str(tmp_path), "--policy", "BestFit"]
    for number, pods in enumerate((range(20), range(0, 20, 2))):
        path = tmp_path / f"{number}.json"
        path.write_bytes(msgspec.json.encode(fgd.Order(list(pods), [0])))
        words += ["--order", str(path)]

    said = CliRunner().invoke(command, words, catch_exceptions=False)

    assert 0 == said.exit_code
    assert "BestFit seed 42: 100.00 %" in said.output
    assert "BestFit seed 43: 50.00 %" in said.output


def test_the_share_is_the_mean_over_the_last_half_percent_of_the_load():
    """As the paper's table is made: of records whose load rounds to 130 %."""
    nodes = [OpenbNode("n", 96000, 65536, 8, "T4")]
    pods = [OpenbPod(f"p{i}", 10, 1, 1, 20, ("T4", "P100")[i % 2]) for i in range(520)]
    arrivals = fgd.draw_order(nodes, pods, random.Random(2)).arrivals(pods)
    placed = [sum(pod.gpu_spec == "T4" for pod in arrivals[:end]) * 20 for end in (518, 519, 520)]

    found = fgd.run_one("BestFit", 2, nodes, pods, GPU)

    assert pytest.approx(sum(placed) / 3 / 80) == found.percent != placed[-1] / 80
    assert (520, 260) == (found.pods, found.failed)


def test_runs_are_written_with_the_table(tmp_path):
    runs = [fgd.Allocation("Random", seed, share, 10, 1) for seed, share in ((42, 87), (43, 88.5))]
    (tmp_path / "r.json").write_text(fgd.report(runs))
    read = json.loads((tmp_path / "r.json").read_text())

    assert {
        "Random mean": "87.75", "Random range": "87.00 to 88.50", "Random paper": "87.47",
    } == read["figures"]  # fmt: skip
    assert [42, 43] == [run["seed"] for run in read["runs"]]


def test_devices_are_never_given_twice():
    """However pods came, no device holds more than it has."""
    from bayplan.scheduler.extensions import load_registry

    made = []
    registry = dict(load_registry([str(GPU)]))
    original = registry["FGD"]
    registry["FGD"] = lambda args, handle: made.append(original(args, handle)) or made[-1]
    before, fgd.load_registry = fgd.load_registry, lambda files: registry
    try:
        fgd.run_one("FGD", 3, NODES, PODS, GPU)
    finally:
        fgd.load_registry = before

    devices = made[-1].devices
    assert len(devices.given) > 10
    assert (devices.left >= 0).all()
    assert np.all(devices.left <= 1000)
