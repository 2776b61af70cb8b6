from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from bayplan.cli.learn import LANGUAGES, command
from bayplan.errors import BayplanError
from bayplan.lessons.runner import LESSONS, module_at

PACKAGE = Path(str(files("bayplan.lessons")))

SOLUTIONS = {
    1: [("self.rng.choice(nodes)", "min(nodes, key=lambda node: len(node.name))")],
    2: [
        (
            "class Scheduler:",
            "class NoGpu:\n    name = 'NoGpu'\n\n    def filter_node(self, state, pod, node):\n"
            "        from bayplan.framework import unschedulable\n"
            "        return unschedulable('gpu') if node.name.startswith('gpu') else None\n\n\n"
            "class Scheduler:",
        ),
        ("= [NodeUnschedulable()]", "= [NodeUnschedulable(), NoGpu()]"),
    ],
    3: [
        (
            "return 10 if wanted.isdigit() and wanted == digit else 0",
            "return 10 - abs(int(wanted) - int(digit))",
        )
    ],
    4: [
        ("last = pod.metadata.name[-1:]", "last = pod.metadata.name.lstrip('pod')"),
        ("node.name.endswith(wanted)", "node.name.lstrip('node') == wanted"),
    ],
    5: [("int(digit), self._allow", "int(digit) / 2, self._allow")],
    6: [
        (
            "self.queue.add_unschedulable(queued, rejected_by, now)",
            "self.queue.add_unschedulable(queued, rejected_by, now)\n"
            "            asyncio.get_running_loop().call_later(\n"
            "                30, lambda q=queued: self.queue.move(q, now + 30)\n            )",
        )
    ],
    7: [
        (
            "        event = ClusterEvent(",
            "        if node.spec.unschedulable:\n            return\n"
            "        event = ClusterEvent(",
        )
    ],
    8: [
        (
            "        weight: 100\n",
            "        weight: 100\n"
            "  pluginConfig:\n  - name: NodeNumber\n    args: {reverse: true}\n",
        ),
        (
            "    return NodeNumber()\n",
            "    class Reversed(NodeNumber):\n"
            "        def score_node(self, state, pod, node):\n"
            "            return 10 - super().score_node(state, pod, node)\n\n"
            "    return Reversed() if args and args.get('reverse') else NodeNumber()\n",
        ),
    ],
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_lesson_has_a_text_in_every_language(language):
    listed = CliRunner().invoke(command, ["--lang", language])

    assert 0 == listed.exit_code, listed.output
    for number in LESSONS:
        shown = CliRunner().invoke(command, [str(number), "--lang", language, "--text"])
        assert shown.output.splitlines()[0][2:] in listed.output
        assert 1 == (PACKAGE / "text" / language / f"{number}.md").read_text().count("\n# ") + 1


def test_a_lesson_runs_and_its_broken_variant_says_what_went_wrong():
    good = CliRunner().invoke(command, ["7"])
    bad = CliRunner().invoke(command, ["7", "--broken"])

    assert (0, 1) == (good.exit_code, bad.exit_code)
    assert "pod1 is bound to node10" in good.output
    assert "expected pod1 on node10, it is not bound" in bad.output


def test_an_unknown_lesson_is_refused():
    result = CliRunner().invoke(command, ["9"])

    assert 2 == result.exit_code
    assert "9 is not in the range 1<=x<=8" in result.output


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("mine.yaml", lambda text: text, "is no Python file"),
        ("mine.py", lambda text: "x = 1", "is no lesson; make a copy with --copy"),
        ("mine.py", lambda text: text + "def (", "SyntaxError: invalid syntax"),
        ("mine.py", lambda text: text.replace("self.rng", "slef.rng"), "NameError: name 'slef'"),
    ],
)
def test_a_copy_that_does_not_work_is_told_in_a_line(name, change, told, tmp_path):
    lesson = (PACKAGE / "lesson3.py").read_text()
    (tmp_path / name).write_text(change(lesson))

    result = CliRunner().invoke(command, ["3", "--run", str(tmp_path / name)])

    assert isinstance(result.exception, BayplanError)
    assert told in str(result.exception)


def exercise(folder, number):
    """Run the exercise's test as pytest would."""
    module = module_at(folder / f"test_lesson{number}.py")
    [test] = [getattr(module, name) for name in vars(module) if name.startswith("test_")]
    test()


@pytest.mark.parametrize("number", LESSONS)
def test_the_exercise_fails_as_copied_and_passes_once_it_is_done(number, tmp_path):
    copied = CliRunner().invoke(command, [str(number), "--copy", str(tmp_path)])
    assert 0 == copied.exit_code, copied.output
    with pytest.raises((BayplanError, AssertionError)):
        exercise(tmp_path, number)

    path = tmp_path / f"lesson{number}.py"
    text = path.read_text()
    for before, after in SOLUTIONS[number]:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)

    exercise(tmp_path, number)
    if number not in (3, 4, 5, 8):  # these exercises change what the lesson's own scenario shows
        ran = CliRunner().invoke(command, [str(number), "--run", str(path)])
        assert 0 == ran.exit_code, ran.output
