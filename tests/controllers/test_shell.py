"""The small shell of simulated containers: what scripts print, how long they take, how they end."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.controllers.kubelet.files import Files, Volume
from bayplan.controllers.kubelet.processes import Log, Process
from bayplan.controllers.kubelet.shell import Shell
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
    words: list[str], variables: dict[str, str] | None = None, volume: Volume | None = None
) -> tuple[float, int | None, str]:
    """Return for how long a command ran (at most 1,000 s), its code and what it printed."""
    log = Log()
    files = Files([("/data", volume if volume is not None else {}, "", False)], {})
    process = Process.script(0.0, words, variables or {}, files, log)
    process.advance(1000.0)
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
