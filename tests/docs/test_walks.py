"""Pages are walked through word for word: their programs run, and print what the page shows.

Every line of a block without a language and every `$ ` line of a `console` block is typed into a
shell in an empty directory. What keeps running (`bayplan up`, an extender) stays in the
background; a second `bayplan up` or `global serve` ends the first, as the pages say. Ports become
free ones.
"""

import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from bayplan.testing.ports import free_port
from bayplan.testing.servers import Process, bayplan_command
from tests.docs.pages import ROOT, WALKED, Block, blocks

KEEPS_RUNNING = re.compile(
    r"^(?:\w+=\S+ )*(bayplan (up|apiserver|scheduler|global serve|extender [\w.]+:\w+)\b|etcd )"
)
READY = {
    "up": "Ctrl-C",
    "apiserver": "kubectl get",
    "etcd": "ready to serve client requests",
    "extender": "http://",
    "global": "allocations API on",
    "scheduler": "attempting to acquire leader lease",
}
ALONE = ("up", "global")
"""Of these a page has one at a time."""
NOT_HERE = re.compile(r"^(make |mkdir |export PATH=|kube-scheduler )")
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=--secure-port )\d+")
ETCD_PORT = "2379"
PATIENCE = 60.0
# What differs from run to run: ages, the ends of pods' names, addresses of pods.
VARIES = [
    (re.compile(r"\b\d+s\b"), r"\\w+"),
    (re.compile(r"(?<=web\\-)[a-z0-9]+\\-[a-z0-9]{5}\b"), r"[a-z0-9]+-[a-z0-9]{5}"),
    (re.compile(r"10\\.64\\.\d+\\.\d+"), r"[0-9.]+"),
]
pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here"),
]


class Walk:
    """A reader of one page, with a terminal in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = str(Path(bayplan_command()[0]).parent)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": "100"}
        self.running: list[Process] = []
        self.started = 0
        self.ports: dict[str, str] = {}

    def read(self, block: Block) -> None:
        lines = [PORT.sub(self._port, line) for line in block.lines]
        if block.file:
            (self.folder / block.file).write_text("\n".join(lines) + "\n")
        elif block.language == "console":
            self._type_and_compare(lines)
        elif block.language == "":
            for line in lines:
                self.type(line)

    def type(self, line: str, may_fail: bool = False) -> list[str]:
        """Do what a line says; return what it prints."""
        command = line.partition("  #")[0].strip()
        if NOT_HERE.match(command):
            return []
        if KEEPS_RUNNING.match(command):
            self._start(command)
            return []
        script = f"{command}\nstatus=$?\npwd >&3\nenv -0 >&4\nexit $status"
        return self._shell(script, may_fail)

    def stop(self) -> None:
        for process in reversed(self.running):
            process.stop()

    def _type_and_compare(self, lines: list[str]) -> None:
        command, shown = "", []
        for line in [*lines, "$ "]:
            if not line.startswith("$ "):
                shown.append(line)
                continue
            if command:
                self._until_shown(command, shown)
            command, shown = line.removeprefix("$ "), []

    def _until_shown(self, command: str, shown: list[str]) -> None:
        """What changes a cluster is typed once; what looks at it, until it shows what it should."""
        deadline = time.monotonic() + PATIENCE
        while missing := _missing(shown, got := self.type(command, bool(shown))):
            looks = re.match(r"^(kubectl (get|describe)|bayplan why)\b", command)
            assert looks, f"{command}: {missing!r} is not in {got}"
            assert time.monotonic() < deadline, f"{command}: {missing!r} is not in {got}"
            time.sleep(0.2)

    def _start(self, command: str) -> None:
        words = shlex.split(command)
        given = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        program, kind = words[0], words[1] if words[0] == "bayplan" else words[0]
        if kind in ALONE:
            for process in [one for one in self.running if kind in one.command]:
                process.stop()
                self.running.remove(process)
        if kind == "up":
            words += ["--bind", "127.0.0.1:0"]
        if kind == "etcd" and "--listen-client-urls" not in words:
            url = f"http://127.0.0.1:{self._free(ETCD_PORT)}"
            words += [f"--{what}-client-urls={url}" for what in ("listen", "advertise")]
            words += ["--listen-peer-urls=http://127.0.0.1:0"]
        if program == "bayplan":
            words = [*bayplan_command(), *words[1:]]
        self.started += 1
        log = self.folder / f".{self.started}-{kind}.log"
        process = Process(words, log, env={**self.env, **given}, cwd=self.folder)
        self.running.append(process)
        process.wait_until(lambda: READY[kind] in process.last_words())

    def _shell(self, script: str, may_fail: bool) -> list[str]:
        where, variables = self.folder / ".where", self.folder / ".env"
        done = subprocess.run(
            ["bash", "-c", f"{{ {script}\n}} 3>{where} 4>{variables}"],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0 or may_fail, f"{script.splitlines()[0]}: {done.stdout}"
        pairs = (item.partition("=") for item in variables.read_text().split("\0") if item)
        self.env = {name: value for name, _, value in pairs}
        self.folder = Path(where.read_text().strip())
        return done.stdout.splitlines()

    def _port(self, found: re.Match[str]) -> str:
        return self._free(found.group())

    def _free(self, port: str) -> str:
        if port not in self.ports:
            self.ports[port] = str(free_port())
        return self.ports[port]


def _missing(shown: list[str], got: list[str]) -> str:
    """The first shown line that is not printed, in order; columns may be of other widths."""
    rest = iter(" ".join(line.split()) for line in got)
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        pattern = re.escape(" ".join(line.split())).replace("…", ".*")
        for varies, like in VARIES:
            pattern = varies.sub(like, pattern)
        if not any(re.fullmatch(pattern, printed) for printed in rest):
            return line
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("page", WALKED)
def test_a_page_can_be_followed_word_for_word(page, tmp_path):
    walk = Walk(tmp_path)
    try:
        for block in blocks(ROOT / page):
            walk.read(block)
    finally:
        walk.stop()
