"""Searches: a front, a winner that is a configuration, and clear words for a wrong space."""

import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.config import load_file
from bayplan.errors import BayplanError
from bayplan.sim.study.plan import load_plan
from bayplan.sim.study.space import Objective, Space, check, configured, read_space
from bayplan.sim.study.tune import Search, Trial

PLAN = """
kind: Tune
workloads:
  - {trace: t.csv, nodes: {count: 3, cpu: 4, memory: 8Gi}}
tune:
  objectives: [nodes, pending]
  trials: 6
"""
KNOBS = "  strategies: [LeastAllocated, MostAllocated]\n  weights: {NodeResourcesFit: [1, 5]}\n"
TRACE = "time,duration,cpu,memory\n" + "".join(f"{i},20,1,1Gi\n" for i in range(8))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "t.csv").write_text(TRACE)
    found = tmp_path / "plan.yaml"
    found.write_text(PLAN + KNOBS)
    return found


def test_the_winner_is_a_configuration_that_packs_better(path):
    words = ["tune", str(path), "--jobs", "1", "--report", str(path.with_suffix(".html"))]

    said = CliRunner().invoke(bayplan, words)

    assert said.exit_code == 0, said.output
    assert "7 of 7 trials ended; objectives: nodes, pending" in said.output
    assert "winner: " in said.output
    assert "B: " in said.output
    assert "node-2   node-1   NodeResourcesFit" in said.output
    config = load_file(path.with_suffix(".best.yaml")).config
    assert config.profiles
    assert path.with_suffix(".html").read_text().count("<svg") == 3


def test_equal_seed_equal_search(path):
    first = CliRunner().invoke(bayplan, ["tune", str(path), "--jobs", "1", "--no-diff"])
    (path.parent / "plan.best.yaml.runs.jsonl").unlink()
    again = CliRunner().invoke(bayplan, ["tune", str(path), "--jobs", "1", "--no-diff"])

    assert first.output == again.output


def trial(number, *values, error=""):
    return Trial(number, {}, {}, values, error)


def test_the_front_is_what_no_other_beats():
    space = Space((Objective("pending"), Objective("cpu", "maximize")), ())
    trials = [trial(0, 5.0, 0.5), trial(1, 4.9, 0.4), trial(2, 6.0, 0.4), trial(3, 4.9, 0.4)]
    trials.append(trial(4, 0.0, 9.0, error="failed"))
    search = Search(space, trials)

    assert [1, 0] == [found.number for found in search.front()]
    assert search.winner().number == 0


def read(plan):
    space = read_space(plan.tune, plan.configs)
    check(space, plan.configs["default"], plan.versions[0], plan.tune)


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ("", ":5: tune: nothing to change"),
        ("  weights: {NoSuch: [1, 2]}\n", ':5: tune: weights: "NoSuch" is not enabled'),
        ("  weights: {NodeResourcesFit: [5, 2]}\n", "tune.weights.NodeResourcesFit: 5 is more"),
        ("  weights: {NodeResourcesFit: [5]}\n", "must be [least, most] or a list of words"),
        ("  strategies: [Best]\n", 'tune.strategies[0]: "Best" is not one of'),
        ("  args: {hardPodAffinityWeight: [1, 2]}\n", "write Plugin.argument"),
        ("  args: {InterPodAffinity.hardPodAffinityWait: [1, 2]}\n", "hardPodAffinityWait"),
        ("  args: {InterPodAffinity.hardPodAffinityWeight: [0, 900]}\n", "900"),
        ("  base: x\n", 'tune.base: "x" is not in the axis configs: default'),
    ],
)
def test_a_wrong_space_says_what_is_wrong(path, knobs, said):
    path.write_text(PLAN + knobs)
    plan = load_plan(path)

    with pytest.raises(BayplanError) as problem:
        read(plan)

    assert said in str(problem.value)


@pytest.mark.parametrize(
    ("objectives", "said"),
    [
        ("[]", "tune.objectives: must name what counts"),
        ("[cpu, {cpu: max}]", 'tune.objectives: "cpu" is there twice'),
    ],
)
def test_a_search_needs_objectives_that_differ(path, objectives, said):
    path.write_text(PLAN.replace("[nodes, pending]", objectives) + KNOBS)

    with pytest.raises(BayplanError) as problem:
        read(load_plan(path))

    assert said in str(problem.value)


def test_objectives_are_measures(path):
    path.write_text(PLAN.replace("[nodes, pending]", "[{cpu: max}, beauty]") + KNOBS)
    plan = load_plan(path)

    with pytest.raises(BayplanError, match=r'tune.objectives\[1\]: "beauty" is not one of'):
        read_space(plan.tune, plan.configs)


def test_a_choice_changes_nothing_else(path):
    plan = load_plan(path)
    base = plan.configs["default"]

    made = configured(base, {"weight ImageLocality": 0, "strategy": "MostAllocated"}, "1.37")

    (profile,) = made["profiles"]
    assert profile["plugins"]["score"] == {"enabled": [], "disabled": [{"name": "ImageLocality"}]}
    assert [item["name"] for item in profile["pluginConfig"]] == ["NodeResourcesFit"]
    assert "profiles" not in base
