# ruff: noqa: E501, T201
"""Records what a session of kubectl commands prints against one API server, and checks another server against it.

    python -m tests.conformance.kubectl.replay record --kubectl PATH --kubeconfig PATH SESSION.json OUT.json.gz
    python -m tests.conformance.kubectl.replay check  --kubectl PATH --kubeconfig PATH RECORDED.json.gz [--verbose]

Commands run in order, in a fresh directory that is also HOME, on one fresh server. A recorded file holds the session
and the normalised output, so `check` needs nothing else. It prints the differences of each step and ends with
`agreement: X/Y steps`; exit 0 = all agree. Record and check with the same kubectl: its own wording is not the point.

A session
    files          {name: text, or {text, executable}} written into the directory before the first step
    steps          id, note; args (after `kubectl`); stdin; env (e.g. KUBE_EDITOR)
                   seconds      end the command after so long; its exit code is then "ended"
                   background   NAME: start, go on when its watch is open; a later step {collect: NAME, lines: N,
                                seconds: S} waits until it has printed what was recorded (when recording: N lines,
                                or S seconds), ends it, and compares what it printed
    compare        keep: only lines that match this expression, with runs of spaces made one
                   explain: only names and types of `kubectl explain` (descriptions are the server's own words)
                   sorted: lines in any order (kubectl prints from parallel workers)
                   stdout, stderr: false leaves that stream out

What is compared: exit code, standard output and standard error, after this normalisation.
  times          near now become `<time>`; others stay (a session may send fixed ones)
  uids           `<uid>`; resource versions `<rv>`
  tables         where a column is an age (AGE, LAST SEEN, FIRST SEEN, Age): cells joined by two spaces, the age `<age>`
  places         the directory `<dir>`, temporary files of edit and diff `<tmp>`, the server's address `<server>`
Everything else is contract: order of rows, column titles, empty cells, field order, messages.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
VERSION = re.compile(r"(\"?resourceVersion\"?: )\"\d+\"")
ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z| \+0000)")
LONG_TIME = re.compile(r"\w{3}, (\d\d \w{3} \d{4} \d\d:\d\d:\d\d) \+0000")
TEMPORARY = re.compile(r"/\S*?/(kubectl-edit-\d+\.yaml|(?:LIVE|MERGED)-\d+)")
ADDRESS = re.compile(r"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?|\b127\.0\.0\.1:\d+\b")
LONG_AGE = re.compile(r"\b\d+y\d+d\b")
AGE_COLUMNS = {"AGE", "Age", "LAST SEEN", "FIRST SEEN"}
PATIENCE = 120.0  # seconds; the machine may be busy with other things
WATCHES = re.compile(
    r"^apiserver_longrunning_requests\{(?=[^}]*scope=\"namespace\")(?=[^}]*verb=\"WATCH\")[^}]*\} (\d+)",
    re.MULTILINE,
)
EXPLAINED = re.compile(r"^(KIND|GROUP|VERSION|FIELD|RESOURCE):|^\s+\S+\t<")


def near_now(text, form):
    moment = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
    return abs(moment - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(days=1)


def normal_text(text, directory, compare):
    """Return the lines of an output with everything taken out that two correct runs do not share."""
    text = text.replace(directory, "<dir>")
    text = TEMPORARY.sub(lambda m: "<tmp>/" + re.sub(r"\d+", "N", m[1]), text)
    text = ADDRESS.sub("<server>", text)
    text = ISO_TIME.sub(
        lambda m: "<time>" if near_now(f"{m[1]} {m[2]}", "%Y-%m-%d %H:%M:%S") else m[0], text
    )
    text = LONG_TIME.sub(lambda m: "<time>" if near_now(m[1], "%d %b %Y %H:%M:%S") else m[0], text)
    text = VERSION.sub(r"\1<rv>", UUID.sub("<uid>", text))
    lines = normal_tables(text.splitlines())
    if compare.get("explain"):
        lines = [re.sub(r"\s+", " ", line).strip() for line in lines if EXPLAINED.match(line)]
    if "keep" in compare:
        lines = [re.sub(r" +", " ", line) for line in lines if re.search(compare["keep"], line)]
    return sorted(lines) if compare.get("sorted") else lines


def normal_tables(lines):
    """Rewrite tables that have an age column, for the width of an age moves the columns behind it."""
    out, columns, indent = [], None, 0
    for line in lines:
        heads = [(m.group(), m.start()) for m in re.finditer(r"\S+(?: \S+)*", line)]
        if any(title in AGE_COLUMNS for title, _ in heads):
            columns, indent = heads, len(line) - len(line.lstrip())
            out.append(" " * indent + "  ".join(title for title, _ in heads))
        elif columns and line.strip() and len(line) - len(line.lstrip()) >= indent:
            out.append(" " * indent + "  ".join(cells(line, columns)))
        else:
            columns = None
            out.append(line)
    return out


def cells(line, columns):
    ends = [start for _, start in columns[1:]] + [len(line)]
    for (title, start), end in zip(columns, ends, strict=True):
        yield "<age>" if title in AGE_COLUMNS else line[start : max(start, end)].strip()


class Session:
    """A directory with the session's files, in which kubectl commands run one after another."""

    def __init__(self, files, kubectl, kubeconfig, directory):
        self.directory = directory
        self.kubectl = str(pathlib.Path(kubectl).resolve())
        self.environment = {
            "HOME": directory,
            "KUBECONFIG": str(pathlib.Path(kubeconfig).resolve()),
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C",
            "TZ": "UTC",
        }
        self.running = {}  # name -> (process, its output file)
        for name, content in files.items():
            path = pathlib.Path(directory, name)
            path.write_text(
                content if isinstance(content, str) else content["text"], encoding="utf-8"
            )
            if not isinstance(content, str) and content.get("executable"):
                path.chmod(0o755)

    def run(self, step):
        if "collect" in step:
            return self._collect(step)
        if "background" in step:
            return self._start(step)
        limit = step.get("seconds")
        process = self._process(step, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(step.get("stdin"), timeout=limit or 120)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            code = "ended" if limit else "hung"
        return self._answer(step, code, out, err)

    def _process(self, step, **streams):
        stdin = subprocess.PIPE if "stdin" in step else subprocess.DEVNULL
        command = [self.kubectl, *step["args"]]
        environment = self.environment | step.get("env", {})
        return subprocess.Popen(
            command, cwd=self.directory, env=environment, stdin=stdin, text=True, **streams
        )

    def _start(self, step):
        path = pathlib.Path(self.directory, f"output-of-{step['background']}")
        before, deadline = self._watches(), time.monotonic() + PATIENCE
        with path.open("w") as file:
            self.running[step["background"]] = (
                self._process(step, stdout=file, stderr=subprocess.STDOUT),
                path,
            )
        while self._watches() <= before:  # it must be open before the next command acts
            assert time.monotonic() < deadline, f"no watch was opened: {path.read_text()}"
            time.sleep(0.1)
        return {}

    def _watches(self):
        """How many watches of single namespaces the server has open."""
        shown = self._process({"args": ["get", "--raw", "/metrics"]}, stdout=subprocess.PIPE)
        return sum(int(count) for count in WATCHES.findall(shown.communicate()[0]))

    def _collect(self, step):
        process, path = self.running.pop(step["collect"])
        want = step.get("want")
        deadline = time.monotonic() + (PATIENCE if want else step.get("seconds", 10))
        while time.monotonic() < deadline and process.poll() is None:
            text = path.read_text()
            if (
                want == self._answer(step, None, text, "")
                if want
                else len(text.splitlines()) >= step["lines"]
            ):
                break
            time.sleep(0.1)
        time.sleep(0.5)  # surplus lines count too
        process.terminate()
        process.wait()
        return self._answer(step, None, path.read_text(), "")

    def _answer(self, step, code, out, err):
        compare = step.get("compare", {})
        answer = {"exit": code}
        if compare.get("stdout", True):
            answer["stdout"] = normal_text(out, self.directory, compare)
        if compare.get("stderr", True):
            answer["stderr"] = normal_text(err, self.directory, compare)
        return answer

    def close(self):
        for process, _ in self.running.values():
            process.terminate()


def replay(files, steps, options):
    """Yield each step with its answer."""
    with tempfile.TemporaryDirectory() as directory:
        session = Session(files, options.kubectl, options.kubeconfig, directory)
        try:
            for step in steps:
                yield step, session.run(step)
        finally:
            session.close()


def timeless(lines):
    """Take out what depends on the day and on the second: ages in years, the order of managers.

    Entries of managedFields are ordered by their time in seconds first, so two writes one after the
    other may or may not share a second.
    """
    out, entries = [], None
    for line in (LONG_AGE.sub("<age>", line) for line in lines):
        if line == "  managedFields:":
            entries = []
        elif entries is not None and line.startswith("  - "):
            entries.append([line])
            continue
        elif entries and line.startswith("    "):
            entries[-1].append(line)
            continue
        elif entries:
            out += [part for entry in sorted(entries) for part in entry]
            entries = None
        out.append(line)
    return out


def differences(want, got):
    if want.get("exit") != got.get("exit"):
        yield f"exit: want {want.get('exit')}, got {got.get('exit')}"
    for stream in ("stdout", "stderr"):
        wanted, given = (timeless(answer.get(stream, [])) for answer in (want, got))
        lines = difflib.unified_diff(wanted, given, "want", "got", lineterm="", n=1)
        yield from (f"{stream} {line}" for line in lines if not line.startswith(("---", "+++")))


def record(options):
    session = json.loads(pathlib.Path(options.source).read_text(encoding="utf-8"))
    steps = [
        step | {"want": answer}
        for step, answer in replay(session["files"], session["steps"], options)
    ]
    text = json.dumps(session | {"from": options.label, "steps": steps}, ensure_ascii=False)
    pathlib.Path(options.out).write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"recorded: {len(steps)} steps")
    return False


def check(options):
    with gzip.open(options.source, "rt", encoding="utf-8") as file:
        session = json.load(file)
    agreeing = 0
    for step, answer in replay(session["files"], session["steps"], options):
        found = list(differences(step["want"], answer))
        agreeing += not found
        if found or options.verbose:
            command = " ".join(step.get("args", ["(collect)"]))
            print(f"{'DIFF' if found else 'ok  '} {step['id']}: kubectl {command}")
        for line in found:
            print(f"     {line}")
    print(f"agreement: {agreeing}/{len(session['steps'])} steps")
    return agreeing != len(session["steps"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for command in (record, check):
        sub = commands.add_parser(command.__name__)
        sub.add_argument("--kubectl", default="kubectl", help="which kubectl to run")
        sub.add_argument("--kubeconfig", required=True, help="how to reach the server")
        sub.set_defaults(command=command)
        sub.add_argument(
            "source", metavar="SESSION.json" if command is record else "RECORDED.json.gz"
        )
        if command is record:
            sub.add_argument("out", metavar="OUT.json.gz")
            sub.add_argument("--label", default="", help="which server this is, kept in the file")
        else:
            sub.add_argument("--verbose", action="store_true", help="name the agreeing steps too")
    options = parser.parse_args()
    return int(options.command(options))


if __name__ == "__main__":
    sys.exit(main())
