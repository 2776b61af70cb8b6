"""The small shell of simulated containers: what scripts print, how long they take, how they end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.controllers.kubelet.files import MAX_FILES, Files, Volume
from bayplan.controllers.kubelet.processes import (
    LEAST_LINE,
    MAX_LINE,
    MAX_LOG_BYTES,
    Log,
    Process,
)
from bayplan.controllers.kubelet.programs import PAUSE
from bayplan.controllers.kubelet.shell import MAX_STEPS, Shell
from bayplan.controllers.kubelet.syntax import NotUnderstoodError
from tests.effort import at_most

FAIL_ONCE = """
    if [[ -r /data/done-$INDEX ]]
    then
        exit 0
    else
        touch /data/done-$INDEX
        exit 42
    fi
"""


def run(
    words: list[str],
    variables: dict[str, str] | None = None,
    volume: Volume | None = None,
    seconds: float = 1000.0,
) -> tuple[float, int | None, str]:
    """Return for how long a command ran (at most 1,000 s), its code and what it printed."""
    log = Log()
    files = Files([("/data", volume if volume is not None else {}, "", False)], {})
    process = Process.script(0.0, words, variables or {}, files, log)
    moment = 0.0
    while moment < seconds and process.code is None:
        moment = min(process.advance(moment), seconds)
    text = b"".join(line for _, line in log.lines).decode()
    return process.ended, process.code, text


@pytest.mark.parametrize(
    ("script", "seconds", "code", "printed"),
    [
        ("sleep 2m; exit 3", 120.0, 3, ""),
        ("false && sleep 10", 0.0, 1, ""),
        ("false || echo well", 0.0, 0, "well\n"),
        ("echo hello; sleep infinity", 0.0, None, "hello\n"),
        ('x=3; echo "$x ${x} ${y:-none} $((x * 2 + 1))"', 0.0, 0, "3 3 none 7\n"),
        ("echo 'a  $x'  b", 0.0, 0, "a  $x b\n"),
        ("if [ $(expr 5 % 2) -ne 0 ]; then exit 1; else exit 0; fi", 0.0, 1, ""),
        ("for i in 1 2 3; do echo -n $i; sleep 1; done", 3.0, 0, "123"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", 0.0, 0, "3\n"),
        ("echo one > /data/f; echo two >> /data/f; cat /data/f | grep tw", 0.0, 0, "two\n"),
        ("cat /data/nothing 2>/dev/null || echo lost", 0.0, 0, "lost\n"),
        ("set -e; false; echo never", 0.0, 1, ""),
        ("f() { echo in f; return 4; }; f; echo $?", 0.0, 0, "in f\n4\n"),
        ("trap 'echo bye' EXIT; exit 2", 0.0, 2, "bye\n"),
        ("mkdir -p /data/a; touch /data/a/b; ls /data; test -d /data/a", 0.0, 0, "a\n"),
        ("echo $(( 1 / 0 ))", 0.0, 2, 'sh: " 1 / 0 " is not a sum\n'),
    ],
    ids=lambda value: value if isinstance(value, str) and ";" in value else None,
)
def test_what_a_script_does(script: str, seconds: float, code: int | None, printed: str) -> None:
    assert (seconds, code, printed) == run(["sh", "-c", script])


def test_words_without_a_shell_are_a_program_too() -> None:
    assert (30.0, 0, "") == run(["sleep", "30"])
    assert (0.0, 0, "a; b\n") == run(["echo", "a; b"])


def test_files_of_a_volume_outlive_the_container() -> None:
    volume: Volume = {}

    first = run(["/bin/sh", "-c", FAIL_ONCE], {"INDEX": "3"}, volume)
    second = run(["/bin/sh", "-c", FAIL_ONCE], {"INDEX": "3"}, volume)

    assert (42, 0) == (first[1], second[1])
    assert {"done-3": b""} == volume


def test_a_trap_is_run_when_the_script_is_told_to_end() -> None:
    log = Log()
    script = "bye() { echo bye; sleep 5; exit 7; }\ntrap bye TERM\nwhile true; do sleep 1; done"
    process = Process.script(0.0, ["sh", "-c", script], {}, Files([], {}), log)
    process.advance(10.0)

    assert process.terminate(10.0)
    process.advance(20.0)
    assert (15.0, 7) == (process.ended, process.code)
    assert [(10.0, b"bye\n")] == list(log.lines)


@pytest.mark.parametrize(
    "script",
    [
        "python train.py && echo done",
        "case x in x) echo;; esac",
        "(echo sub)",
        "echo 'unfinished",
        "if true; then",
        "done",
        "{" * 5000,
        '"' + "$(a)" * 3000,
        "echo " + "$(" * 3000,
        "x" * 20_000,
    ],
    ids=["program", "case", "subshell", "quote", "if", "done", "deep", "bomb", "open", "long"],
)
def test_nothing_is_guessed_about_other_scripts(script: str) -> None:
    with pytest.raises(NotUnderstoodError):
        Shell(script, {}, Files([], {}), lambda data: None, lambda: 0.0)


def test_a_script_that_never_sleeps_holds_nobody_up() -> None:
    with at_most(1000):
        assert (0.0, None, "") == run(["sh", "-c", "while true; do :; done"])
        assert (0.0, None) == run(["sh", "-c", "f() { f; }; while true; do echo x; done"])[:2]


BIG = {"big": (b"x" * 99 + b"\n") * 2000}
INSIDE = "sh: a command, or what is inside of $(…), does too much at once\n"
BETWEEN = "sh: more than 256 KiB from one command to another\n"
TOGETHER = "sh: variables of more than 1 MiB together\n"
LONG = "sh: words and variables of more than 256 KiB\n"
GREEDY = [
    ("x=$(while true; do sleep 1; done)", INSIDE),
    ("x=$(while true; do :; done)", INSIDE),
    ("x=$(for i in 1 2; do y=$(while true; do :; done); done)", INSIDE),
    ("x=$(cat /data/big /data/big)", BETWEEN),
    ("while true; do cat /data/big; done | cat", BETWEEN),
    ("x=aaaa; while true; do x=$x$x; done", LONG),
    ("x=$(cat /data/big); echo $x $x $x", LONG),
    ('x=$(cat /data/big); for i in "$x" "$x"; do :; done', LONG),
    ("x=$(cat /data/big); a=$x b=$x true", LONG),
    ('x=$(cat /data/big); for i in $(seq 1 9); do export v$i="$x"; done', TOGETHER),
    ("echo " + "$(for i in 1 2 3 4 5 6 7 8 9; do :; done)" * 300, INSIDE),
]


@pytest.mark.parametrize(("script", "told"), GREEDY, ids=[script[:60] for script, _ in GREEDY])
def test_a_script_that_wants_too_much_at_once_ends_and_says_why(script: str, told: str) -> None:
    with at_most(100):
        assert (2, told) == run(["sh", "-c", script], volume=dict(BIG))[1:]


@pytest.mark.parametrize(
    "script",
    [
        "while true; do sleep 0.0000000000000000000000000001; done",
        "while true; do sleep 0.000001; done",
        "while true; do cat /data/big; done",
        "while true; do grep y /data/big; done",
        "while true; do x=$(for i in $(seq 1 400); do :; done); done",
        "while true; do seq 1 10000; done",
        "while true; do echo " + "$((1+1))" * 1800 + "; done",
        "x='" + "echo a; " * 1900 + '\'; while true; do sh -c "$x"; done',
    ],
    ids=lambda script: script[:60],
)
def test_a_script_that_hardly_sleeps_rests(script: str) -> None:
    volume = {"big": b"x\n" * 100_000}
    process = Process.script(
        0.0, ["sh", "-c", script], {}, Files([("/data", volume, "", False)], {}), Log()
    )
    with at_most(100):
        due = process.advance(1.0)

    assert (None, True) == (process.code, due >= PAUSE)


def test_steps_inside_count_outside_too() -> None:
    script = "while true; do x=$(for i in 1 2 3; do :; done); done"
    process = Process.script(0.0, ["sh", "-c", script], {}, Files([], {}), Log())
    process.advance(0.0)

    assert process._shell is not None
    assert MAX_STEPS <= process._shell.steps < MAX_STEPS + 10


def test_so_many_files_fill_a_container() -> None:
    script = f"for i in $(seq 1 {MAX_FILES + 1}); do touch /f$i || echo full at $i; sleep 1; done"

    assert f"full at {MAX_FILES + 1}\n" in run(["sh", "-c", script], seconds=2000.0)[2]


def test_a_line_that_never_ends_is_cut_where_a_kubelet_cuts() -> None:
    log = Log()
    for _ in range(3 * MAX_LINE // 10):
        log.write(0.0, b"x" * 10)

    assert 3 == len(log.lines)
    assert all(MAX_LINE <= len(line) < MAX_LINE + 10 for _, line in list(log.lines)[:2])


def test_empty_lines_fill_a_log_too() -> None:
    log = Log()
    log.write(0.0, b"\n" * 100_000)

    assert (100_000, MAX_LOG_BYTES // LEAST_LINE) == (log.written, len(log.lines))


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b\n", b"c\nd", b"\n", b""]), st.booleans())))
def test_who_follows_a_log_hears_all_of_it_once(writes: list[tuple[bytes, bool]]) -> None:
    log, heard, seen = Log(), b"", (0, 0)
    for data, looks in [*writes, (b"", True)]:
        log.write(0.0, data)
        if looks:
            rest, lines = log.since(*seen)
            heard += rest + b"".join(line for _, line in lines)
            seen = log.written, log.begun

    assert b"".join(data for data, _ in writes) == heard


def test_a_log_keeps_its_last_lines_only() -> None:
    log = Log()
    for number in range(10_000):
        log.write(float(number), f"{number:099}\n".encode())

    assert 10_000 == log.written
    assert 2621 == len(log.lines)
    assert 9_999.0 == log.lines[-1][0]


async def test_who_no_longer_follows_a_silent_log_is_forgotten() -> None:
    log = Log()
    followers = [asyncio.create_task(log.change()) for _ in range(3)]
    await asyncio.sleep(0)
    assert 3 == log.followers

    for follower in followers:
        follower.cancel()
    await asyncio.gather(*followers, return_exceptions=True)

    assert 0 == log.followers
