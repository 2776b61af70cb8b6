"""`bayplan conformance fuzz`: asks an oracle, shows differences small, says what came out."""

import json
import sys

import pytest
from click.testing import CliRunner

from bayplan.cli.conformance import command
from bayplan.conformance.oracle import Oracle, OracleFailed
from bayplan.conformance.shrink import shrink
from bayplan.testing.cases import FAMILIES, case
from bayplan.testing.cases.lives import life

ORACLE = """#!{python}
import json, sys
from bayplan.engine.replay import decide
for line in sys.stdin:
    asked = json.loads(line)
    if "pod" not in asked:
        answer = {{"version": "v1.37.99", "gates": {{}}}}
    else:
        expect = decide(asked["objects"], asked["pod"], asked.get("config"))
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


def test_an_unknown_family_names_those_there_are(program):
    result = run("--oracle", program(), "--family", "nonsense")

    assert "--family nonsense: unknown; there are config, declared" in str(result.exception)


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
    assert "--oracle is missing" in str(run("--cases", 1).exception)
