"""Public traces become Bayplan's format; what is wrong is told with file, line and column."""

import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.sim.traces.alibaba2025 import read_instances
from bayplan.sim.traces.format import read_trace
from bayplan.sim.traces.gavel import read_jobs, read_speeds
from bayplan.sim.traces.generate import MODELS, generate
from bayplan.sim.traces.table import TraceError

HEAD = (
    "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,deletion_time\n"
)
OLD = "LM\trun\t--steps\t1\t{steps}\t{arrival}\t{workers}\n"
NEW = "LM\trun\tdir\t--steps\t1\t{steps}\t{workers}\t1\t-1\t{arrival}\n"
SPEEDS = {"('LM', 1)": 2.0, "('LM', 4)": 5.0}


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_instances_of_2025_come_and_go(tmp_path):
    text = HEAD + "a,CN,x,64,0,320.0,10,25.5\nb,HN,y,8,1,40.5,,\n"

    late, early = reversed(read_instances(written(tmp_path, "t.csv", text)))

    assert (early.time, early.duration, early.cpu, early.memory) == (0.0, None, "8", "41472Mi")
    assert early.extra == {"nvidia.com/gpu": "1"}
    assert (late.time, late.duration, late.extra) == (10.0, 15.5, {})
    assert late.labels == {"app": "x", "role": "CN"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,CN,x,many,0,1,0,1", ':2: column cpu_request: "many" is not a whole number'),
        ("a,CN,x,1,0,-1,0,1", ':2: column memory_request: "-1" is not a number of at least 0'),
        ("a,CN,x,1,0,1,9,3", ":2: column deletion_time: 3 is before 9"),
        ("a,CN,x", ":2: column deletion_time: the line has not 8 columns"),
    ],
)
def test_a_wrong_instance_is_named(tmp_path, line, said):
    path = written(tmp_path, "t.csv", HEAD + line + "\n")

    with pytest.raises(TraceError) as problem:
        read_instances(path)

    assert f"{path}{said}" in str(problem.value)


@pytest.mark.parametrize("form", [OLD, NEW], ids=["seven", "ten"])
def test_jobs_of_gavel_are_gangs_of_workers(tmp_path, form):
    lines = [form.format(steps=100, arrival="7.5", workers=4)]
    lines += [form.format(steps=100, arrival="0.0", workers=1)]
    lines += [form.format(steps=100, arrival="9.0", workers=2)]

    pods = read_jobs(written(tmp_path, "j.trace", "".join(lines)), SPEEDS)

    assert [(pod.time, pod.duration, pod.gang) for pod in pods] == [
        (0.0, 50.0, ""),
        *[(7.5, 20.0, "job-1")] * 4,
        *[(9.0, 25.0, "job-3")] * 2,
    ]
    assert {tuple(pod.extra.items()) for pod in pods} == {(("nvidia.com/gpu", "1"),)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("LM\trun\t1\n", ":1: column job_type: the line has 3 fields"),
        (OLD.format(steps="x", arrival=0, workers=1), ":1: column total_steps: "),
        (OLD.format(steps=1, arrival=0, workers=0), ":1: column scale_factor: 0 is less than 1"),
        (OLD.format(steps=1, arrival="-", workers=1), ":1: column arrival_time: "),
        ("X" + OLD.format(steps=1, arrival=0, workers=1), ":1: column job_type: the throughputs"),
    ],
)
def test_a_wrong_job_is_named(tmp_path, line, said):
    path = written(tmp_path, "j.trace", line)

    with pytest.raises(TraceError) as problem:
        read_jobs(path, SPEEDS)

    assert f"{path}{said}" in str(problem.value)


def test_throughputs_are_those_of_a_job_alone(tmp_path):
    text = '{"v100": {"(\'LM\', 1)": {"null": 2.5, "(\'CycleGAN\', 1)": [1.0, 2.0]}}}'
    path = written(tmp_path, "t.json", text)

    assert read_speeds(path, "v100") == {"('LM', 1)": 2.5}
    with pytest.raises(TraceError, match="no accelerator k80; it has v100"):
        read_speeds(path, "k80")


def test_import_and_play(tmp_path):
    text = '{"v100": {"(\'LM\', 1)": {"null": 2.0}}}'
    speeds, out = str(written(tmp_path, "t.json", text)), str(tmp_path / "out.csv")
    jobs = str(written(tmp_path, "j.trace", OLD.format(steps=2468, arrival=3, workers=2)))

    without = CliRunner().invoke(bayplan, ["trace", "import", "gavel", jobs, out])
    words = ["trace", "import", "gavel", jobs, out, "--throughputs", speeds]
    said = CliRunner().invoke(bayplan, words)
    played = CliRunner().invoke(bayplan, ["trace", "run", out, "--nodes", "1", "--gpus", "2"])

    assert "give --throughputs" in without.output
    assert said.output == f"wrote {out}: 2 pods\n"
    assert [pod.duration for pod in read_trace(tmp_path / "out.csv")] == [617.0, 617.0]
    assert "2 pods, 2 bound" in played.output


@pytest.mark.parametrize("name", ["dlrm", "gpu", "msr", "web"])
def test_generators_follow_their_shares(name):
    model = MODELS[name]

    pods = list(generate(model, 2000, 1.0, seed=3))

    assert abs(sum(shape[0] for shape in model.shapes) - 1.0) < 0.01
    wanted = sum(shape[0] for shape in model.shapes if shape[3])
    with_gpu = sum(bool(pod.extra or pod.labels) for pod in pods) / len(pods)
    assert abs(with_gpu - wanted) < 0.05
    assert pods == list(generate(model, 2000, 1.0, seed=3))
