"""Tests wait for conditions, not for time, and draw from seeds that can be drawn from again.

What something costs is told in counts, or in other work (`effort.py`): seconds and pages of memory
tell about the machine.

What runs in virtual time may sleep: there it is no luck. What cannot be otherwise stands in
`REASONS`, and an entry that is no longer needed fails.
"""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLEEPS = {"time.sleep", "asyncio.sleep", "page.wait_for_timeout"}
LOOP_CLOCK = "loop.time"
LOOP_CLOCKS = {LOOP_CLOCK, "asyncio.get_running_loop().time"}
CLOCKS = {"time.monotonic", "time.time", LOOP_CLOCK}
COSTS = {"resource.getrusage", "os.times"} | {
    f"time.{name}{unit}"
    for name in ("perf_counter", "process_time", "thread_time")
    for unit in ("", "_ns")
}
PATIENCE = 60  # seconds that a busy machine may take for anything; nobody waits so long for a pass
MEMORY = re.compile(r"/proc/\w+/statm")
FREE_DRAW = re.compile(r"random\.[a-z]\w*")  # not of random.Random(seed)
WAITS = {"settimeout", "wait", "join", "communicate", "result"}
LIMITED = {  # what takes a limit, and as which argument
    "asyncio.timeout": 0,
    "asyncio.wait_for": 1,
    "threading.Timer": 0,
    "select.select": 3,
    "socket.create_connection": 1,
    "aiohttp.ClientTimeout": 0,
}
SIMULATED = {"world.wait", "cluster.wait", "client.wait_until_bound"}
SIGNS = re.compile(
    r"sleep|timeout|wait_for|Timer|select|create_connection|"
    r"\.(?:wait|join|communicate|result)\([A-Z\d]|"
    r"time\.|time\(|times\(|rusage|statm|import random"
)
REASONS = {
    "apiserver/steps.py": "tells CPU time in yardsticks",
    "apiserver/fuzz.py": "draws a seed where none is given, and prints it",
    "apiserver/test_service_addresses.py": "a store that lets others go first",
    "apiserver/test_crash.py": "the server dies at a drawn time",
    "apiserver/test_watchdog.py": "what is tested is a clock; it holds the loop for so long",
    "attack.py": "prints how long each part took",
    "conftest.py": "draws a seed where none is given, and prints it",
    "conformance/api/replay.py": "events beyond the recorded ones would come within a moment",
    "conformance/kubectl/replay.py": "lines beyond the recorded ones would come within a moment",
    "conformance/live/replay.py": "events beyond the recorded ones would come within a moment",
    "effort.py": "tells CPU time in yardsticks",
    "global_scheduler/test_placing.py": "stands in for the pause between two tries",
    "global_scheduler/test_several.py": "stands in for the pause between two tries",
    "global_scheduler/test_wide.py": "stands in for the pause between two tries",
    "kube/test_ha.py": "parts die and are paused for a drawn time",
    "kube/test_kueue.py": "looks again twice a second until it is over",
    "kube/test_live.py": "the network breaks at a drawn time",
    "kube/test_same_as_kube_scheduler.py": "what either says beyond that comes within a moment",
    "kube/world.py": "kube-scheduler does not say that it has seen a node",
    "mutation/plugin.py": "a test that takes far longer than without the fault has noticed it",
    "mutation/test_mutation.py": "what is tested is a limit of time",
    "pack/test_hard.py": "prints how long each case took",
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


def _awake(node: ast.AST) -> bool:
    """Tell whether a function is a test that pytest runs on a loop of real time."""
    test = isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_")
    return test and not any("virtual" in ast.unparse(each) for each in node.decorator_list)


def _called(call: ast.Call) -> str:
    """Return `module.function`, or nothing where something else is called."""
    func = call.func
    if ast.unparse(func) in LOOP_CLOCKS:
        return LOOP_CLOCK
    known = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name)
    return f"{func.value.id}.{func.attr}" if known else ""


def _short(call: ast.Call, usual: dict[str, ast.expr]) -> bool:
    """Tell whether a call waits for too few seconds.

    `go.wait(3)` is a thread's; `world.wait(3)` and `cluster.wait(3)` are of simulated time.
    """
    waits = isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
    place = LIMITED.get(_called(call), 0 if waits else None)
    limits = [word.value for word in call.keywords if word.arg == "timeout"]
    if place is not None:
        limits += call.args[place : place + 1]
    few = any(_few(limit, usual) for limit in limits)
    return few and ast.unparse(call.func) not in SIMULATED


def _few(limit: ast.expr, usual: dict[str, ast.expr]) -> bool:
    """Tell whether a limit is, or may be, below what a busy machine takes."""
    limit = usual.get(limit.id, limit) if isinstance(limit, ast.Name) else limit
    if isinstance(limit, ast.IfExp):
        return _few(limit.body, usual) or _few(limit.orelse, usual)
    if isinstance(limit, ast.Call) and ast.unparse(limit.func).endswith(".get"):
        return len(limit.args) > 1 and _few(limit.args[1], usual)
    seconds = isinstance(limit, ast.Constant) and isinstance(limit.value, int | float)
    return seconds and limit.value < PATIENCE


def _polls(node: ast.AST) -> bool:
    """Tell whether a loop can end by something else than time, or its last turn."""
    leaves = any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in ast.walk(node))
    if isinstance(node, ast.While):
        return leaves or not _clocked(node.test)
    return isinstance(node, ast.AsyncFor) or (isinstance(node, ast.For) and leaves)


def _clocked(test: ast.expr) -> bool:
    """Tell whether a condition asks nothing but a clock."""
    if isinstance(test, ast.BoolOp):
        return all(map(_clocked, test.values))
    return any(isinstance(each, ast.Call) and _called(each) in CLOCKS for each in ast.walk(test))


def _deadline(node: ast.BinOp, usual: dict[str, ast.expr]) -> bool:
    """Tell whether a clock and too few seconds are added.

    `usual` is what constants of the module are, and arguments that are left out.
    """
    clock = isinstance(node.left, ast.Call) and _called(node.left) in CLOCKS
    return clock and isinstance(node.op, ast.Add) and _few(node.right, usual)


def _duration(node: ast.BinOp) -> bool:
    """Tell whether two moments are subtracted; so many seconds ago is a moment."""
    sides = (node.left, node.right)
    clock = any(isinstance(side, ast.Call) and _called(side) in CLOCKS for side in sides)
    return clock and isinstance(node.op, ast.Sub) and not isinstance(node.right, ast.Constant)


def _usual(node: ast.AST) -> dict[str, ast.expr]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    given, defaults = node.args.args, node.args.defaults
    last = [*given[len(given) - len(defaults) :], *node.args.kwonlyargs]
    values = zip(last, [*defaults, *node.args.kw_defaults], strict=True)
    return {argument.arg: value for argument, value in values if value is not None}


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        ast.unparse(target): node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }


def found_in(text: str) -> list[str]:
    """Return what hangs on luck.

    Sleeps outside loops, short limits of time, clocks in asserts, costs in seconds or memory,
    draws without a seed.
    """
    if not SIGNS.search(text):
        return []
    tree, found = ast.parse(text), []
    usual = _constants(tree)
    draws = "import random" in text.splitlines()

    def walk(
        node: ast.AST,
        *,
        virtual: bool,
        loop: bool = False,
        polled: bool = False,
        checked: bool = False,
    ) -> None:
        if isinstance(node, ast.Call):
            called = _called(node)
            simulated = virtual and called != "time.sleep"
            if called in SLEEPS and not (polled or simulated or ast.unparse(node.args[0]) == "0"):
                found.append(f"{node.lineno}: {ast.unparse(node)} waits without a condition")
            if not virtual and _short(node, usual):
                found.append(f"{node.lineno}: {ast.unparse(node)} is short for a busy machine")
            real = called in CLOCKS and not (virtual and called == LOOP_CLOCK)
            if real and checked and not loop:
                found.append(f"{node.lineno}: what is asserted hangs on the clock")
            if called in COSTS:
                found.append(f"{node.lineno}: {called} tells about the machine")
            if draws and FREE_DRAW.fullmatch(called):
                found.append(f"{node.lineno}: {called} draws without a seed")
        usual.update(_usual(node))
        if isinstance(node, ast.BinOp) and _deadline(node, usual):
            found.append(f"{node.lineno}: {ast.unparse(node)} is short for a busy machine")
        if isinstance(node, ast.BinOp) and _duration(node) and not (loop or virtual or checked):
            found.append(f"{node.lineno}: {ast.unparse(node)} tells about the machine")
        if isinstance(node, ast.Constant) and MEMORY.fullmatch(str(node.value)):
            found.append(f"{node.lineno}: pages of memory tell about the machine")
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        loop = not function and (loop or isinstance(node, ast.While | ast.For | ast.AsyncFor))
        polled = not function and (polled or _polls(node))
        checked = checked or isinstance(node, ast.Assert)
        virtual = virtual and not _awake(node)
        for child in ast.iter_child_nodes(node):
            walk(child, virtual=virtual, loop=loop, polled=polled, checked=checked)

    walk(tree, virtual=_virtual(tree))
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
        ("from bayplan.clock import run_virtual\ntime.sleep(1)", 1),
        ("from x import run_virtual\nasync def test_it():\n    asyncio.sleep(1)", 1),
        ("from x import virtual\n@virtual\nasync def test_it():\n    asyncio.sleep(1)", 0),
        ("for turn in range(9):\n    time.sleep(1)", 1),
        ("for turn in range(9):\n    if done():\n        break\n    time.sleep(1)", 0),
        ("while time.monotonic() < later:\n    time.sleep(1)", 1),
        ("while time.monotonic() < later and not done():\n    time.sleep(1)", 0),
        ("until = time.monotonic() + (60 if step else 10)", 1),
        ("until = time.monotonic() + step.get('seconds', 10)", 1),
        ("LIMIT: float = 5\nasyncio.timeout(LIMIT)", 1),
        ("def until(*, limit=5):\n    asyncio.timeout(limit)", 1),
        ("threading.Timer(5, go_on.set)", 1),
        ("select.select([pipe], [], [], 0.5)", 1),
        ("future.result(5)", 1),
        ("asyncio.timeout(10)", 1),
        ("asyncio.timeout(60)", 0),
        ("SECONDS = 5\nasyncio.timeout(SECONDS)", 1),
        ("asyncio.wait_for(answer, 5)", 1),
        ("asyncio.wait_for(answer, timeout=60)", 0),
        ("done.wait(5)", 1),
        ("thread.join(60)", 0),
        ("world.wait(3)", 0),
        ("', '.join(words)", 0),
        ("connection.settimeout(0.5)", 1),
        ("subprocess.run(command, timeout=10)", 1),
        ("SECONDS = 5\nuntil = time.monotonic() + SECONDS", 1),
        ("assert time.monotonic() - begin < 5", 1),
        ("until = time.monotonic() + 10", 1),
        ("def until(seconds=30):\n    return time.monotonic() + seconds", 1),
        ("def until(seconds=60):\n    return time.monotonic() + seconds", 0),
        ("took = time.monotonic() - begun", 1),
        ("created = time.time() - 5", 0),
        ("while time.monotonic() - begun < 20:\n    look()", 0),
        ("took = asyncio.get_running_loop().time() - begun", 1),
        ("took = loop.time() - begun", 1),
        ("from bayplan.clock import run_virtual\nassert 2 == loop.time() - begun", 0),
        ("time.thread_time()", 1),
        ("resource.getrusage(resource.RUSAGE_SELF)", 1),
        ("open('/proc/self/statm')", 1),
        ("import random\nrandom.choice([1, 2])", 1),
        ("import random\nrandom.Random(7).choice([1, 2])", 0),
    ],
    ids=[
        "sleep",
        "polled",
        "virtual",
        "turn",
        "thread of virtual time",
        "real test beside virtual time",
        "virtual test",
        "turns",
        "turns with an end",
        "time passes",
        "time passes or a condition",
        "short in a case",
        "short by default",
        "named with a type",
        "by keyword",
        "timer",
        "select",
        "future",
        "short",
        "patient",
        "named",
        "waited for",
        "waited for long",
        "short for a thread",
        "patient with a thread",
        "simulated",
        "text",
        "short for a socket",
        "short for a process",
        "named deadline",
        "clock",
        "deadline",
        "usual",
        "usually patient",
        "duration",
        "moment",
        "duration in a loop",
        "duration of a loop's clock",
        "duration of the loop",
        "virtual duration",
        "CPU time",
        "usage",
        "memory",
        "drawn",
        "seeded",
    ],
)
def test_what_is_luck(text, count):
    assert count == len(found_in(text))
