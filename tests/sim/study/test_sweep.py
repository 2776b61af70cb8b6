"""Sweeps: the same wherever they run, resumed after a kill, and told where a plan is wrong."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import distributed
import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.errors import BayplanError
from bayplan.sim.study import results
from bayplan.sim.study.journal import Journal
from bayplan.sim.study.plan import Plan, load_plan
from bayplan.sim.study.run import Outcome, run_task
from bayplan.sim.study.sweep import sweep
from bayplan.sim.study.workers import DEATHS, Dask, Local

SCENARIO = """
apiVersion: bayplan.dev/v1alpha1
kind: Scenario
metadata: {name: small}
steps:
  - nodes: {count: 2, name: "n-{i}", cpu: 2}
  - workload: {name: w, rate: 30/m, count: 4, lifetime: {exponential: 20s}, cpu: 1500m}
"""
TRACE = "time,duration,cpu\n0,5,1\n1,5,1\n2,,3\n"
STRATEGY = "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}"
ARGS = f"[{{name: NodeResourcesFit, args: {{scoringStrategy: {STRATEGY}}}}}]"
PACK = f"{{profiles: [{{pluginConfig: {ARGS}}}]}}"
HOME = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "t.csv").write_text(TRACE)
    return tmp_path


def write_plan(folder, text) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def plan_of(folder, seeds=4) -> Plan:
    text = f"configs: {{default: , pack: {PACK}}}\n"
    text += "workloads: [{scenario: small.yaml}, {trace: t.csv, nodes: {count: 2, cpu: 2}}]\n"
    return load_plan(write_plan(folder, text + f"seeds: {{count: {seeds}}}\n"))


class Here:
    """Workers of this very process, which tell what they were asked to run."""

    def __init__(self):
        self.ran = []

    def run(self, tasks, sources):
        for task in tasks:
            self.ran.append(task.key)
            yield run_task(task, sources[task.source])


def quiet(*told):
    pass


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as found:
        yield found


@pytest.mark.xdist_group("dask")
@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.long)])
def test_runs_on_dask_joblib_and_in_this_process_agree_to_the_byte(folder, cluster, count):
    dask = Dask(cluster.scheduler_address)
    texts = {}
    plans = (("here", Here(), 2), ("joblib", Local(2), count), ("dask", dask, count))
    for name, workers, seeds in plans:
        plan = plan_of(folder, seeds)
        sweep(plan, lambda workers=workers: workers, folder / f"{name}.csv", quiet)
        texts[name] = (folder / f"{name}.csv").read_bytes()
    dask.close()

    assert 4 * count + 1 == len(texts["joblib"].splitlines())
    assert texts["joblib"] == texts["dask"]
    assert set(texts["here"].splitlines()) < set(texts["joblib"].splitlines())


def once_deadly(folder):
    """Work that ends its worker the first time that it is run with seed 1."""

    def work(task, source):
        mark = folder / task.key
        if task.seed == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return Outcome(task.key, hash="fine")

    return work


def always_deadly(task, source):
    """Ends its worker whenever it is run with seed 1."""
    if task.seed == 1:
        os._exit(1)
    return Outcome(task.key, hash="fine")


@pytest.fixture
def short(folder):
    return load_plan(write_plan(folder, "workloads: [{scenario: small.yaml}]\nseeds: {count: 2}\n"))


def test_a_process_that_dies_is_survived(short, folder):
    found = list(Local(2).run(short.tasks(), short.sources, once_deadly(folder)))

    assert sorted(task.key for task in short.tasks()) == sorted(o.key for o in found)
    assert {outcome.hash for outcome in found} == {"fine"}


def hearing(task, source):
    return Outcome(task.key, hash=signal.getsignal(signal.SIGINT).name)


def test_ctrl_c_is_for_the_sweep_and_not_for_its_processes(short):
    before = signal.getsignal(signal.SIGINT)

    found = list(Local(2).run(short.tasks(), short.sources, hearing))

    assert {"SIG_IGN"} == {outcome.hash for outcome in found}
    assert before is signal.getsignal(signal.SIGINT)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_run_that_kills_every_process_fails_by_itself(short):
    found = {o.key: o for o in Local(2).run(short.tasks(), short.sources, always_deadly)}

    said = {task.seed: found[task.key].error for task in short.tasks()}
    assert said == {0: "", 1: f"its worker died {DEATHS} times; out of memory?"}


@pytest.mark.xdist_group("dask")
def test_a_dask_worker_that_dies_is_survived(short, folder, cluster):
    dask = Dask(cluster.scheduler_address)

    found = list(dask.run(short.tasks(), short.sources, once_deadly(folder)))
    dask.close()

    assert sorted(task.key for task in short.tasks()) == sorted(o.key for o in found)
    assert {outcome.hash for outcome in found} == {"fine"}


def test_a_killed_sweep_goes_on_where_it_was(folder):
    plan = plan_of(folder)
    out = folder / "out.csv"
    command = [sys.executable, "-m", "bayplan", "sweep", str(folder / "plan.yaml")]
    child = subprocess.Popen(
        [*command, "--out", str(out), "--jobs", "1"], cwd=HOME, start_new_session=True
    )
    journal = folder / "out.csv.runs.jsonl"
    while child.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 3):
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    kept = Journal(out)
    kept.close()
    done = set(kept.known)

    workers = Here()
    found, _ = sweep(plan, lambda: workers, out, quiet)

    assert 3 <= len(done) <= 16
    assert not done & set(workers.ran)
    assert len(done) + len(workers.ran) == 16 == len(found)
    fresh = Here()
    sweep(plan, lambda: fresh, folder / "fresh.csv", quiet)
    assert out.read_bytes() == (folder / "fresh.csv").read_bytes()


def test_a_sweep_that_cannot_begin_leaves_nothing(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    path = write_plan(folder, "workloads: [{scenario: small.yaml}]")
    before = sorted(folder.iterdir())

    run = CliRunner().invoke(bayplan, ["sweep", str(path)])

    assert "this needs joblib, which is not installed" in str(run.exception)
    assert before == sorted(folder.iterdir())


def test_a_line_that_was_cut_is_run_again(folder):
    plan, out = plan_of(folder, 1), folder / "out.csv"
    sweep(plan, Here, out, quiet)
    journal = folder / "out.csv.runs.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])

    workers = Here()
    sweep(plan, lambda: workers, out, quiet)

    assert len(workers.ran) == 1
    assert len(journal.read_bytes().splitlines()) == 4


def test_parquet_holds_the_same_rows(folder):
    import pyarrow.parquet as parquet

    found, _ = sweep(plan_of(folder, 1), Here, folder / "out.parquet", quiet)

    table = parquet.read_table(folder / "out.parquet")
    assert table.column_names == list(results.COLUMNS)
    assert table.to_pylist() == found


def test_a_plan_of_a_search_is_told_where_it_belongs(folder):
    path = write_plan(folder, "workloads: [{trace: t.csv}]\ntune: {objectives: [pending]}\n")

    said = CliRunner().invoke(bayplan, ["sweep", str(path), "--dry-run"])

    assert (0, True) == (said.exit_code, "its section `tune` is for bayplan tune" in said.stderr)


def test_a_failing_run_is_named_and_the_others_are_kept(folder):
    (folder / "small.yaml").write_text(SCENARIO + "    expect: [{pod: nobody, bound: true}]\n")
    path = write_plan(folder, "workloads: [{scenario: small.yaml}, {trace: t.csv}]\n")

    said = CliRunner().invoke(bayplan, ["sweep", str(path), "--jobs", "1"])

    assert said.exit_code == 1
    title = "default on small, seed 0, load 1, version 1.37"
    assert f"failed: {title}: expected pod default/nobody" in said.output
    with path.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["error"]) for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("configs: {a: nowhere.yaml}", ":2: configs.a: No such file"),
        ("configs: {a: {profiles: 3}}", ":2: configs.a: "),
        (
            "configs: {a: {profiles: [{plugins: {multiPoint: {enabled: [{name: Nope}]}}}]}}",
            ':2: configs.a: loading profile "default-scheduler": plugin "Nope" is not registered',
        ),
        ("configs: []", ":2: configs: must be a map"),
        ("configs: {}", ":2: configs: the axis is empty"),
        ("seeds: []", ":2: seeds: the axis is empty"),
        ("seeds: [1, 1]", ':2: seeds: "1" is there twice'),
        ("seeds: [-1]", ":2: seeds[0]: must be a whole number of at least 0"),
        ("loads: [0]", ":2: loads[0]: a load must be above 0, not 0"),
        ("loads: [1, 2]", ":2: loads: scenarios have no load"),
        ('versions: ["1.20"]', ':2: versions[0]: emulated-version "1.20"'),
        ("seeds: {count: 2000000}", ":2: seeds: 2000000 runs are more than 1000000"),
        ("sedes: [1]", ':2: sedes: unknown field; did you mean "seeds"?'),
        ("plugins: [none.py]", ":2: plugins[0]: "),
    ],
)
def test_an_impossible_plan_names_the_axis(folder, text, said):
    path = write_plan(folder, f"workloads: [{{scenario: small.yaml}}]\n{text}\n")

    with pytest.raises(BayplanError) as problem:
        load_plan(path)

    assert f"{path}{said}" in str(problem.value)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("{trace: none.csv}", "workloads[0].trace: reading trace"),
        ("{trace: bad.csv}", "bad.csv:3: column cpu: "),
        ("{like: moon, pods: 3}", 'workloads[0].like: "moon" is not one of'),
        ("{like: gpu}", 'workloads[0]: field "pods" is missing'),
        ("{scenario: none.yaml}", "workloads[0].scenario: "),
        ("{trace: t.csv}, {trace: t.csv}", 'workloads: "t" is there twice'),
    ],
)
def test_a_wrong_workload_says_what_is_wrong(folder, item, said):
    (folder / "bad.csv").write_text("time,cpu\n0,1\n1,much\n")

    with pytest.raises(BayplanError) as problem:
        load_plan(write_plan(folder, f"workloads: [{item}]\n"))

    assert said in str(problem.value)


def test_ablation_and_report_tell_what_a_plugin_is_good_for(folder):
    text = "workloads: [{trace: t.csv, nodes: {count: 2, cpu: 2}}]\n"
    path, page = write_plan(folder, text), folder / "r.html"

    words = ["sweep", str(path), "--ablate", "default", "--report", str(page), "--jobs", "1"]
    said = CliRunner().invoke(bayplan, words)

    assert said.exit_code == 0, said.output
    assert "NodeResourcesFit on t: " in said.output
    assert "no difference: " in said.output
    html = page.read_text()
    assert html.count("<svg") >= 3
    assert "What each plugin contributes" in html
    assert "http" not in html
    assert "<script" not in html


def test_an_unknown_configuration_cannot_be_ablated(folder):
    path = write_plan(folder, "workloads: [{trace: t.csv}]\n")

    said = CliRunner().invoke(bayplan, ["sweep", str(path), "--ablate", "x"])

    assert str(said.exception) == '--ablate "x" is not in the axis configs: default'


def test_intervals_are_students():
    found = results.estimate([1.0, 2.0, 3.0])

    assert found.mean == 2.0
    assert round(found.half, 3) == round(4.30 / 3**0.5, 3)
    assert str(results.estimate([5.0])) == "5"
