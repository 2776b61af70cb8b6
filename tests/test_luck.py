"""Tests wait for conditions, not for time, and draw from seeds that can be drawn from again.

What runs in virtual time may sleep: there it is no luck. What cannot be otherwise stands in
`REASONS`, and an entry that is no longer needed fails.
"""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLEEPS = {"time.sleep", "asyncio.sleep"}
CLOCKS = {"time.monotonic", "time.time", "time.perf_counter"}
PATIENCE = 60  # seconds that a busy machine may take for anything; nobody waits so long for a pass
FREE_DRAW = re.compile(r"random\.[a-z]\w*")  # not of random.Random(seed)
REASONS = {
    "apiserver/fuzz.py": "draws a seed where none is given, and prints it",
    "apiserver/test_service_addresses.py": "a store that lets others go first",
    "conftest.py": "draws a seed where none is given, and prints it",
    "conformance/api/replay.py": "events beyond the recorded ones would come within a moment",
    "conformance/kubectl/replay.py": "lines beyond the recorded ones would come within a moment",
    "global_scheduler/test_placing.py": "stands in for the pause between two tries",
    "global_scheduler/test_several.py": "stands in for the pause between two tries",
    "global_scheduler/test_wide.py": "stands in for the pause between two tries",
    "kube/test_ha.py": "parts die and are paused for a drawn time",
    "kube/world.py": "kube-scheduler does not say that it has seen a node",
    "mutation/test_mutation.py": "what is tested is a limit of time",
}


def _virtual(tree: ast.Module) -> bool:
    """Tell whether a module runs its coroutines on the loop of virtual time."""
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return bool(names & {"run_virtual", "virtual", "VirtualLoop"})


def _short(call: ast.Call) -> bool:
    limit = call.args[0] if call.args else None
    return isinstance(limit, ast.Constant) and limit.value < PATIENCE


def _deadline(node: ast.BinOp, usual: dict[str, ast.expr]) -> bool:
    """Tell whether a clock and too few seconds are added; `usual` is what arguments are if left."""
    clock = isinstance(node.left, ast.Call) and ast.unparse(node.left.func) in CLOCKS
    limit = usual.get(node.right.id) if isinstance(node.right, ast.Name) else node.right
    adds = clock and isinstance(node.op, ast.Add)
    return adds and isinstance(limit, ast.Constant) and limit.value < PATIENCE


def _usual(node: ast.AST) -> dict[str, ast.expr]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    given, defaults = node.args.args, node.args.defaults
    last = given[len(given) - len(defaults) :]
    return {argument.arg: value for argument, value in zip(last, defaults, strict=True)}


def found_in(text: str) -> list[str]:
    """Return what hangs on luck.

    Sleeps outside loops, short limits of time, clocks in asserts, draws without a seed.
    """
    tree = ast.parse(text)
    virtual, found = _virtual(tree), []
    usual: dict[str, ast.expr] = {}
    draws = "import random" in text.splitlines()

    def walk(node: ast.AST, *, loop: bool, checked: bool) -> None:
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            now = bool(node.args) and ast.unparse(node.args[0]) == "0"
            if called in SLEEPS and not (loop or virtual or now):
                found.append(f"{node.lineno}: {ast.unparse(node)} waits without a condition")
            if called == "asyncio.timeout" and not virtual and _short(node):
                found.append(f"{node.lineno}: {ast.unparse(node)} is short for a busy machine")
            if called in CLOCKS and checked and not loop:
                found.append(f"{node.lineno}: what is asserted hangs on the clock")
            if draws and FREE_DRAW.fullmatch(called):
                found.append(f"{node.lineno}: {called} draws without a seed")
        usual.update(_usual(node))
        if isinstance(node, ast.BinOp) and _deadline(node, usual):
            found.append(f"{node.lineno}: {ast.unparse(node)} is short for a busy machine")
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        loop = not function and (loop or isinstance(node, ast.While | ast.For | ast.AsyncFor))
        checked = checked or isinstance(node, ast.Assert)
        for child in ast.iter_child_nodes(node):
            walk(child, loop=loop, checked=checked)

    walk(tree, loop=False, checked=False)
    return found


def test_no_test_hangs_on_luck():
    files = {file.relative_to(TESTS).as_posix(): file for file in TESTS.rglob("*.py")}
    found = {name: found_in(file.read_text("utf-8")) for name, file in files.items()}

    assert {} == {name: told for name, told in found.items() if told and name not in REASONS}
    assert [] == [name for name in REASONS if not found.get(name)], "no longer needed"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("time.sleep(1)", 1),
        ("while not done():\n    time.sleep(1)", 0),
        ("from bayplan.clock import run_virtual\nasyncio.sleep(1)", 0),
        ("asyncio.sleep(0)", 0),
        ("asyncio.timeout(10)", 1),
        ("asyncio.timeout(60)", 0),
        ("assert time.monotonic() - begin < 5", 1),
        ("until = time.monotonic() + 10", 1),
        ("def until(seconds=30):\n    return time.monotonic() + seconds", 1),
        ("def until(seconds=60):\n    return time.monotonic() + seconds", 0),
        ("import random\nrandom.choice([1, 2])", 1),
        ("import random\nrandom.Random(7).choice([1, 2])", 0),
    ],
    ids=[
        "sleep",
        "polled",
        "virtual",
        "turn",
        "short",
        "patient",
        "clock",
        "deadline",
        "usual",
        "usually patient",
        "drawn",
        "seeded",
    ],
)
def test_what_is_luck(text, count):
    assert count == len(found_in(text))
