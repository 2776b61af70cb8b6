"""`bayplan conformance fuzz`: asks an oracle, shows differences small, says what came out."""

import json
import sys

import pytest
from click.testing import CliRunner

from bayplan.cli.conformance import command
from bayplan.config import DEFAULT_GATES, FeatureGates
from bayplan.conformance.fuzz import ours, with_known_gates
from bayplan.conformance.oracle import Oracle, OracleFailed
from bayplan.conformance.sequence import Sequence
from bayplan.conformance.shrink import shrink
from bayplan.testing.cases import FAMILIES, case
from bayplan.testing.cases.lives import life

ORACLE = """#!{python}
import json, sys
from bayplan.config import FeatureGates
from bayplan.engine.replay import decide
for line in sys.stdin:
    asked = json.loads(line)
    if "pod" not in asked:
        answer = {{"version": "v1.37.99", "gates": {{}}}}
    else:
        gates = FeatureGates(asked.get("gates"))
        expect = decide(asked["objects"], asked["pod"], asked.get("config"), gates=gates)
        {change}
        answer = {{"id": asked["id"], "expect": expect}}
    print(json.dumps(answer), flush=True)
"""
LIE = 'expect.get("nodes", {}).update({n: {"code": "Error"} for n in expect.get("nodes", {})})'


@pytest.fixture
def program(tmp_path):
    """A program that speaks as the oracle does: with the engine's own answers, changed."""

    def write(change="pass"):
        path = tmp_path / "oracle"
        path.write_text(ORACLE.format(python=sys.executable, change=change))
        path.chmod(0o755)
        return str(path)

    return write


def run(*args):
    return CliRunner().invoke(command, ["fuzz", *map(str, args)])


def test_agreement_is_a_line_with_version_and_seed(program, tmp_path):
    result = run("--oracle", program(), "--cases", 24, "--seed", 3, "--out", tmp_path / "out")

    assert "v1.37.99 seed 3: 24/24 agree" in result.output.splitlines()[-1]
    assert result.exit_code == 0
    assert not (tmp_path / "out").exists()


def test_a_difference_is_shrunk_and_written_as_a_recording(program, tmp_path):
    out = tmp_path / "out"
    result = run(
        "--oracle", program(LIE), "--cases", 1, "--family", "taints", "--seed", 8, "--out", out
    )
    (path,) = out.iterdir()
    small = json.loads(path.read_text())

    assert result.exit_code == 1
    assert "differs, written to" in result.output
    assert 1 == len(small["objects"]["nodes"])
    assert [] == small["objects"].get("pods", [])

    again = CliRunner().invoke(command, ["decisions", str(path)])

    assert "agreement: 0/1" == again.output.splitlines()[-1]
    assert "1.37" == small["version"]  # otherwise it would be decided again as 1.36


def test_sequences_keep_one_engine_through_changes(program, tmp_path):
    options = ["--sequences", 2, "--steps", 8, "--seed", 4, "--out", tmp_path / "out"]
    result = run("--oracle", program(), *options)

    assert "seed 4: 2/2 sequences agree, 16 decisions" in result.output.splitlines()[-1]

    result = run("--oracle", program(LIE), *options)

    assert "seed 4: 0/2 sequences agree, 2 decisions" in result.output.splitlines()[-1]
    assert 2 == len(list((tmp_path / "out").iterdir()))


def test_one_sequence_can_be_run_again(program, tmp_path):
    options = ["--sequences", 1, "--first", 1, "--steps", 8, "--seed", 4, "--out", tmp_path]
    result = run("--oracle", program(), *options)

    assert "seed 4 from 1: 1/1 sequences agree, 8 decisions" in result.output.splitlines()[-1]


def test_no_more_sequences_are_begun_when_the_time_is_over(program):
    result = run("--oracle", program(), "--sequences", 1000, "--steps", 2, "--seconds", 1e-9)

    assert "seed 1: 1/1 sequences agree, 2 decisions" in result.output.splitlines()[-1]
    assert result.exit_code == 0


class Silent:
    """An oracle that takes every answer for right, and keeps what it was asked."""

    def begin(self, case):
        self.case = case

    def end(self, case):
        return {}


@pytest.mark.parametrize("seed", range(3))
def test_sequences_tell_the_oracle_how_pods_lie_on_their_nodes(seed):
    """Not by asking the engine, which may be wrong about it."""
    oracle = Silent()
    kept = Sequence(oracle, DEFAULT_GATES, f"order-{seed}")
    for _ in range(30):
        kept.step()
        told = {}
        for body in oracle.case["objects"]["pods"]:
            told.setdefault(body["spec"]["nodeName"], []).append(body["metadata"]["name"])
        table = kept._engine.cache.table

        assert told == {name: [info.pod.name for info in table.pods_of(name)] for name in told}
        assert sum(map(len, told.values())) == kept._engine.cache.pod_count


class Fresh(Silent):
    """Answers as an engine does that starts from scratch."""

    def end(self, case):
        return ours(case, DEFAULT_GATES)

    def decide(self, case, tries=1):
        return ours(case, DEFAULT_GATES)


def test_an_object_of_a_sequence_replaces_the_one_of_its_name():
    """Slices of two drivers may share a name; there is one of them in a cluster."""
    oracle = Fresh()
    kept = Sequence(oracle, DEFAULT_GATES, "9830-789")
    for _ in range(12):
        assert kept.step() is None
        for held in oracle.case["objects"].values():
            names = [(body["metadata"].get("namespace"), body["metadata"]["name"]) for body in held]
            assert len(set(names)) == len(names)


def test_an_unknown_family_names_those_there_are(program):
    result = run("--oracle", program(), "--family", "nonsense")

    assert 2 == result.exit_code
    assert '"nonsense" is not known; use one of config, declared' in result.output


def test_an_oracle_that_ends_is_an_error_with_its_last_words(program):
    with (
        Oracle(program('sys.exit("out of words")')) as oracle,
        pytest.raises(OracleFailed, match="ended, saying: out of words"),
    ):
        oracle.decide(case("fit", 1))


def test_an_oracle_may_complain_as_much_as_it_likes(program):
    with Oracle(program('sys.stderr.write("x" * 300_000)')) as oracle:
        assert "nodes" in oracle.decide(case("fit", 1))


def test_a_missing_oracle_says_how_to_build_it(tmp_path):
    with pytest.raises(OracleFailed, match='"make oracle" builds it'):
        Oracle(str(tmp_path / "absent"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_seed_gives_the_same_case(family):
    assert case(family, 7) == case(family, 7)
    assert case(family, 7) != case(family, 8)


def test_shrinking_keeps_what_the_difference_needs():
    big = case("mixed", 1)
    assert len(big["objects"]["nodes"]) > 1

    small = shrink(big, lambda body: bool(body["objects"].get("nodes")))

    assert 1 == len(small["objects"]["nodes"])
    assert "pods" not in small["objects"]
    assert "affinity" not in small["pod"]["spec"]


def test_a_life_is_the_same_for_a_seed_and_has_all_kinds_of_steps():
    assert life(1) == life(1) != life(2)

    steps = [step for seed in range(20) for step in life(seed)]
    assert {"nodes", "pod", "delete", "close"} == {key for step in steps for key in step}
    assert {"high", "low"} == {
        step["pod"]["spec"]["priorityClassName"] for step in steps if "pod" in step
    }


def test_live_needs_the_real_programs(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    assert "run `make kube-assets`" in str(run("--live", 1).exception)


def test_without_an_oracle_there_is_nobody_to_ask():
    assert "--oracle is missing" in run("--cases", 1).output


def test_gates_that_a_version_lacks_or_locks_are_left_out():
    gates = {"PodLevelResourcesFixDefaulting": False, "DRAPrioritizedList": False}
    drawn = {"id": "x", "gates": {**gates, "DRADeviceTaints": False}}
    old, new = FeatureGates({}, "1.36"), FeatureGates({}, "1.37")

    assert sorted(with_known_gates(drawn, old)["gates"]) == [
        "DRADeviceTaints",
        "DRAPrioritizedList",
    ]
    assert "DRAPrioritizedList" not in with_known_gates(drawn, new)["gates"]
    assert with_known_gates({"id": "y"}, new) == {"id": "y"}
