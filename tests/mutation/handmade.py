"""Faults that once survived all tests, with the tests that must notice each of them now.

    python -m tests.mutation.handmade [PART]    (all, or those whose name has PART)

Each is put into a copy of the source, and the named tests are run on it; one that survives, or
that can no longer be planted because the source has changed, fails the command. All named tests
must pass on the copy first: those that fail there would kill anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    name: str
    file: str
    right: str
    wrong: str
    tests: str


FAULTS = (
    Fault(
        "a ServiceAccount is matched by the end of its name",
        "apiserver/authorization.py",
        'if user.name == f"system:serviceaccount:{where}:{name}":',
        'if user.name.endswith(f":{name}"):',
        "apiserver/test_authorization.py",
    ),
    Fault(
        "a bookmark is one version ahead",
        "apiserver/verbs/watch.py",
        "yield self._bookmark(self.known, None)",
        "yield self._bookmark(self.known + 1, None)",
        "apiserver/test_watch.py",
    ),
    Fault(
        "what others took is not looked at",
        "global_scheduler/ledger.py",
        'mark = [Put(TAKING, b"{}", self.mark)] if taking else []',
        'mark = [Put(TAKING, b"{}")] if taking else []',
        "global_scheduler/test_sources.py",
    ),
    Fault(
        "an eviction without compare-and-set",
        "apiserver/subresources/eviction.py",
        "codec.encode(budget), expect=kv.mod_revision)",
        "codec.encode(budget))",
        "apiserver/test_eviction.py",
    ),
    Fault(
        "an eviction by an old observedGeneration",
        "apiserver/subresources/eviction.py",
        'if status.get("observedGeneration", 0) < metadata.get("generation", 0):',
        "if False:",
        "apiserver/test_eviction.py",
    ),
    Fault(
        "what builds on a write that failed is done",
        "store/sqlite_writer.py",
        "any(before.lost for before in write.after)",
        "False",
        "store/test_durability.py",
    ),
    Fault(
        "what is acknowledged is not synced",
        "store/sqlite_file.py",
        'execute(f"PRAGMA synchronous = {synchronous}")',
        'execute("PRAGMA synchronous = OFF")',
        "store/test_durability.py",
    ),
    Fault(
        "the history is not bounded in bytes",
        "store/history.py",
        " or self._bytes > self._max_bytes * 5 // 4:",
        ":",
        "store/test_contract.py",
    ),
    Fault(
        "nominated pods of equal priority are ignored",
        "engine/cycle/promised.py",
        "n.priority >= pod.priority and",
        "n.priority > pod.priority and",
        "engine/test_engine.py",
    ),
    Fault(
        "the wrong counter drives the backoff",
        "engine/queue/backoff.py",
        "item.consecutive_errors or item.unschedulable_count",
        "item.unschedulable_count",
        "engine/queue/test_backoff.py",
    ),
    Fault(
        "an extender is sent an old node",
        "extender/client.py",
        "if known is not None and known[0] == meta.resource_version:",
        "if known is not None:",
        "extender/test_client.py",
    ),
    Fault(
        "unresolvable is overwritten by failed",
        "engine/cycle/extending.py",
        "if name in by_name and name not in result.failed_unresolvable:",
        "if name in by_name:",
        "engine/test_engine.py extender/test_client.py",
    ),
    Fault(
        "after 410 the list comes from the cache",
        "client/informer.py",
        'resource_version=None if self._fresh_list or token else "0",',
        'resource_version=None if token else "0",',
        "client/test_informer.py",
    ),
    Fault(
        "a burst without bound",
        "client/limiter.py",
        "min(self.burst, self._tokens + (now - self._at) * self.qps)",
        "self._tokens + (now - self._at) * self.qps",
        "client/test_rest.py",
    ),
    Fault(
        "a lost answer whose request is never carried out",
        "sim/faults.py",
        "            await self._inner.request(method, target, headers, body, timeout)\n"
        '            raise TransportError("simulated: the answer was lost")',
        '            raise TransportError("simulated: the answer was lost")',
        "sim/test_faults.py",
    ),
    Fault(
        "an ordered patch compares with the list before its deletes",
        "api/patch/strategic.py",
        "_arrange(merged, order, _server_order(ours, theirs, field), field.merge_key)",
        "_arrange(merged, order, ours, field.merge_key)",
        "api/patch/test_patches.py",
    ),
    Fault(
        "a watch swallows its cancellation",
        "store/history.py",
        "                self._rise()\n                raise\n",
        "                self._rise()\n",
        "store/test_history.py",
    ),
)


def passed(tests: set[str], work: Path) -> int:
    """Return pytest's exit code for the tests of a copy: 0 where they passed, 1 where not."""
    environment = os.environ | {"PYTHONPATH": str(work / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-x", "-p", "no:cacheprovider", "--timeout", "120"]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{name}" for name in tests)]
    return subprocess.run(
        command, cwd=work, env=environment, capture_output=True, check=False
    ).returncode


def noticed(fault: Fault, work: Path) -> str:
    """Plant one fault in the copy; say how it went."""
    file = work / "src" / "bayplan" / fault.file
    text = file.read_text("utf-8")
    if text.count(fault.right) != 1:
        return "cannot be planted: the source has changed"
    file.write_text(text.replace(fault.right, fault.wrong), "utf-8")
    try:
        code = passed({*fault.tests.split()}, work)
    finally:
        file.write_text(text, "utf-8")
    return "killed" if code == 1 else f"survived ({code})"


def judged(faults: Sequence[Fault], work: Path) -> int:
    """Plant the faults one by one; return how many nobody can say to be noticed."""
    names = {name for fault in faults for name in fault.tests.split()}
    if passed(names, work) != 0:
        print("the tests fail without a fault, too", flush=True)
        return len(faults)
    failed = 0
    for fault in faults:
        outcome = noticed(fault, work)
        failed += outcome != "killed"
        print(f"{outcome:10} {fault.name}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation.handmade",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", help="words that stand in the name of a fault")
    wanted = " ".join(parser.parse_args().part)
    faults = [fault for fault in FAULTS if wanted in fault.name]
    if not faults:
        parser.error(f"no fault has {wanted!r} in its name")
    with tempfile.TemporaryDirectory(prefix="bayplan-faults-") as folder:
        work = Path(folder)
        ignore = shutil.ignore_patterns("__pycache__")
        for name in ("src", "tests", "pyproject.toml"):
            place = ROOT / name
            copy = shutil.copytree if place.is_dir() else shutil.copy
            copy(place, work / name, **({"ignore": ignore} if place.is_dir() else {}))
        return int(judged(faults, work) > 0)


if __name__ == "__main__":
    sys.exit(main())
