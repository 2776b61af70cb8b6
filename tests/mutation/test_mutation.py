"""The tool behind `make mutants`: what it changes, how it is planted, what is recorded."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

from tests.mutation import handmade, plugin
from tests.mutation.__main__ import FOLDERS, SCORES, equivalents
from tests.mutation.handmade import FAULTS, Fault
from tests.mutation.operators import mutants, mutated, sample
from tests.mutation.planting import ROOT, plant

SOURCE = textwrap.dedent(
    '''
    LIMIT = 3  # not inside a function: left alone

    def allowed(count, extra=0):
        """Text stays 1."""
        if count < 3 and not extra:
            return True
        return "no" + "thing"
    '''
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(SOURCE, "utf-8")
    return path


def texts(path):
    found = mutants(path, path.parent)
    return {m.fault: ast.unparse(mutated(SOURCE, m.index)) for m in found}


def test_every_fault_changes_one_thing_inside_a_function(file):
    found = texts(file)

    assert {
        "negated",
        "to Or",
        "Lt to LtE",
        "one more",
        "no Not",
        "None returned",
        "to False",
    } == set(found)
    assert "count <= 3 and (not extra)" in found["Lt to LtE"]
    assert "count < 3 and extra" in found["no Not"]
    assert all("LIMIT = 3" in text and "Text stays 1." in text for text in found.values())


def faults(file, text):
    file.write_text(text, "utf-8")
    return [m.fault for m in mutants(file, file.parent)]


def test_what_zip_is_told_is_left_alone(file):
    text = "def pairs(a, b):\n    return list(zip(a, b[1:], strict=True))\n"

    assert ["None returned", "one more"] == faults(file, text)


@pytest.mark.parametrize("value", ["False", "True", '""', "0", "None"])
def test_none_is_not_returned_for_what_says_as_much(file, value):
    """Who only looks whether the answer is true sees no difference, and True has its own fault."""
    assert "None returned" not in faults(file, f"def answer():\n    return {value}\n")


def test_none_is_not_returned_where_nothing_else_is(file):
    assert [] == faults(file, "async def tell(a) -> None:\n    return await a\n")
    assert ["None returned"] == faults(file, "async def ask(a) -> int:\n    return await a\n")


def test_what_is_only_logged_is_left_alone(file):
    text = "def tell(a):\n    log.info('late', seconds=round(a, 3))\n    go(a + 1)\n"

    assert ["call gone", "to Sub", "one more"] == faults(file, text)


def test_none_is_told_by_any_negative_number(file):
    assert ["no USub"] == faults(file, "def row():\n    return -1\n")[1:]


def test_a_case_runs_where_its_head_stands(file):
    """Tests of a guard are those that come to it, not those of the case before."""
    text = "def f(a):\n    match a:\n        case 1:\n            g()\n        case b if b > 2:\n"
    file.write_text(text + "            h()\n", "utf-8")
    found = {m.fault: (m.first, m.last) for m in mutants(file, file.parent)}

    assert (5, 5) == found["Gt to GtE"]


def test_what_nobody_runs_is_left_alone(file):
    file.write_text(
        "def _proof(a):\n    return a\n\n\nclass B:\n    def __repr__(self):\n        return 1\n"
    )

    assert [] == mutants(file, file.parent)


def test_types_are_left_alone(file):
    file.write_text("def start(a):\n    self.a: int | None = a + 1\n    b: str | int\n", "utf-8")

    assert ["to Sub", "one more"] == [m.fault for m in mutants(file, file.parent)]


def test_a_planted_fault_runs_in_what_is_loaded_already(file, monkeypatch):
    monkeypatch.setenv("BAYPLAN_MUTANT", "")
    monkeypatch.setenv("PYTHONPATH", "")
    spec = importlib.util.spec_from_file_location("subject", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "subject", module)
    kept = module.allowed
    chosen = next(m for m in mutants(file, file.parent) if m.fault == "Lt to LtE")

    before = kept(3)
    changed = plant(file, chosen.index)

    assert ("nothing", 1, True) == (before, changed, kept(3))


def test_a_fault_that_takes_a_variable_away_is_planted_all_the_same(tmp_path, monkeypatch):
    """Without the comprehension `base` is no longer shared with it."""
    monkeypatch.setenv("BAYPLAN_MUTANT", "")
    monkeypatch.setenv("PYTHONPATH", "")
    file = tmp_path / "sharing.py"
    file.write_text("def more(base):\n    return [base + n for n in range(2)]\n", "utf-8")
    spec = importlib.util.spec_from_file_location("sharing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "sharing", module)
    chosen = next(m for m in mutants(file, tmp_path) if m.fault == "None returned")

    assert 1 == plant(file, chosen.index)
    assert module.more(1) is None


def test_a_call_of_super_is_taken_out_of_a_living_method(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYPLAN_MUTANT", "")
    monkeypatch.setenv("PYTHONPATH", "")
    file = tmp_path / "heirs.py"
    file.write_text(
        "class A:\n    def f(self):\n        self.x = 1\n\n\n"
        "class B(A):\n    def f(self):\n        self.x = 0\n        super().f()\n",
        "utf-8",
    )
    spec = importlib.util.spec_from_file_location("heirs", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "heirs", module)
    [chosen] = [m for m in mutants(file, tmp_path) if m.fault == "call gone"]

    heir = module.B()
    heir.f()
    before = heir.x
    plant(file, chosen.index)
    heir.f()

    assert (1, 0) == (before, heir.x)


def test_a_sample_stays_when_other_code_is_added(file):
    few = sample(mutants(file, file.parent), 1, 4)
    file.write_text(SOURCE + "\n\ndef more(a):\n    return a > 1\n", "utf-8")
    many = sample(mutants(file, file.parent), 1, 100)

    order = [m.key for m in many if " more:" not in m.key]
    assert [m.key for m in few] == order[:4]


def test_a_mutant_is_named_by_its_place_and_not_by_its_line(file):
    before = {m.key for m in mutants(file, file.parent)}
    file.write_text("# a line more\n" + SOURCE, "utf-8")

    assert before == {m.key for m in mutants(file, file.parent)}


def test_what_is_recorded_speaks_of_known_folders_and_gives_reasons():
    scores = json.loads(SCORES.read_text("utf-8"))

    assert set(scores) <= set(FOLDERS)
    assert all(
        score["share"] == round(100 * score["killed"] / score["sample"], 1)
        and score.get("first", 0.0) <= score["share"]
        for seeds in scores.values()
        for score in seeds.values()
    )
    assert all(len(reason) > 10 for reason in equivalents().values())


def test_what_is_left_out_as_equivalent_is_still_in_the_source():
    alike = equivalents()
    files = {ROOT / key.split(" ")[0] for key in alike}

    there = {mutant.key for file in files if file.exists() for mutant in mutants(file, ROOT)}

    assert set() == alike.keys() - there, "strike these, or say where they are now"


def test_every_hand_made_fault_can_still_be_planted():
    """Where the source has changed, say in `handmade.py` what the same fault is now."""
    texts = {fault.name: (ROOT / "src" / "bayplan" / fault.file).read_text() for fault in FAULTS}

    assert [] == [fault.name for fault in FAULTS if texts[fault.name].count(fault.right) != 1]
    assert all((ROOT / "tests" / name).exists() for fault in FAULTS for name in fault.tests.split())


@pytest.mark.parametrize(
    ("right", "wrong", "said", "bad"),
    [
        (0, 1, "killed", 0),
        (0, 0, "survived (0)", 1),
        (0, 2, "survived (2)", 1),
        (1, 1, "the tests fail without a fault, too", 1),
    ],
    ids=["noticed", "not noticed", "not run", "fails anyway"],
)
def test_a_hand_made_fault_is_killed_by_tests_that_pass_without_it(
    tmp_path, capsys, monkeypatch, right, wrong, said, bad
):
    file = tmp_path / "src" / "bayplan" / "it.py"
    file.parent.mkdir(parents=True)
    file.write_text("answer = 3\n")
    codes = {"answer = 3\n": right, "answer = 4\n": wrong}
    monkeypatch.setattr(handmade, "passed", lambda names, work: codes[file.read_text()])

    assert bad == handmade.judged([Fault("four", "it.py", "= 3", "= 4", "test_it.py")], tmp_path)
    assert said in capsys.readouterr().out
    assert "answer = 3\n" == file.read_text()


def test_a_mutant_that_only_waits_is_late():
    assert plugin._child(lambda: time.sleep(60) or 0, wall=0.1) is None


def test_time_without_a_processor_is_not_held_against_a_mutant(monkeypatch):
    monkeypatch.setattr(plugin, "_kept_waiting", lambda session: 60.0)

    assert plugin._child(lambda: time.sleep(0.3) or 7, wall=0.2) == 7


@pytest.mark.parametrize(
    ("alone", "outcome"), [(plugin.SURVIVAL, "late"), (None, "unsure"), (0, "unsure")]
)
def test_who_is_late_was_not_noticed_where_its_tests_are_slow_themselves(
    monkeypatch, tmp_path, alone, outcome
):
    codes, limits = iter([None, alone]), []

    def child(work, *, wall, at=None):
        limits.append(wall)
        return next(codes)

    monkeypatch.setattr(plugin, "_child", child)
    run = object.__new__(plugin._Run)
    run.at = tmp_path / "at"
    run.at.write_text("0")

    assert outcome == run._outcome({"path": "x", "index": 0}, ["a test"], {"a test": 10.0})
    assert limits[0] == plugin.FAR * limits[1]


def test_time_is_given_to_every_test_and_not_to_all(tmp_path):
    at = tmp_path / "at"

    def steps():
        for number in range(12):
            at.write_text(str(number))
            time.sleep(0.1)
        return 7

    assert plugin._child(steps, wall=1.0, at=at) == 7


def test_a_run_that_ended_early_goes_on_where_it_was(file, tmp_path):
    """The plan of a second run holds the same; what the first had learnt or found is kept."""
    (tmp_path / "test_subject.py").write_text(
        "from subject import allowed\n\n\n"
        "def test_three_are_too_many():\n    assert allowed(3) == 'nothing'\n\n\n"
        "def test_it_fails():\n    assert not allowed(1)\n",
        "utf-8",
    )
    chosen = [m for m in mutants(file, tmp_path) if m.fault in ("Lt to LtE", "no Not")]
    plan = {
        "keep": False,
        "sources": [str(file)],
        "results": str(tmp_path / "results"),
        "learnt": str(tmp_path / "all"),
        "far": [],
        "mutants": [
            {"key": m.fault, "path": str(file), "index": m.index, "first": m.first, "last": m.last}
            for m in chosen
        ],
    }

    assert [] == outcomes(plan, tmp_path, deadline=0.0)
    assert {} == json.loads((tmp_path / "all.part").read_text("utf-8"))
    found = outcomes(plan, tmp_path, keep=True)
    assert {"Lt to LtE": "killed", "no Not": "survived"} == dict(found)
    learnt = json.loads((tmp_path / "all.part").read_text("utf-8"))
    assert [False, True] == [spent is None for spent in learnt.values()]


def test_a_test_that_is_new_is_asked_though_others_were_learnt(file, tmp_path):
    tests = tmp_path / "test_subject.py"
    tests.write_text("from subject import allowed\n\ndef test_one():\n    assert allowed(1)\n")
    (chosen,) = (m for m in mutants(file, tmp_path) if m.fault == "Lt to LtE")
    plan = {
        "keep": True,
        "sources": [str(file)],
        "results": str(tmp_path / "results"),
        "learnt": str(tmp_path / "all"),
        "far": [],
        "mutants": [vars(chosen) | {"key": "the bound", "path": str(file)}],
    }
    text = tests.read_text() + "def test_three():\n    assert allowed(3) == 'nothing'\n"

    assert [("the bound", "survived")] == outcomes(plan, tmp_path)
    tests.write_text(text)
    assert ("the bound", "killed") == outcomes(plan, tmp_path)[-1]


def outcomes(plan, folder, **more):
    """What is in the file of results after a run."""
    (folder / "plan").write_text(json.dumps(plan | more), "utf-8")
    words = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider", "-c", os.devnull]
    words += ["--rootdir", str(folder), "--mutants-plan", str(folder / "plan"), str(folder)]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take longer to load than this to run
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | alone
    subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=folder, env=environment, check=False
    )
    results = folder / "results"
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return [(row["key"], row["outcome"]) for row in map(json.loads, lines)]
