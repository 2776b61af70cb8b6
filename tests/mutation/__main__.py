"""`make mutants`: plant faults in a sample of the source and count those that tests notice.

    python -m tests.mutation [FOLDER ...] [--sample 30] [--seed 1] [--record]
    python -m tests.mutation engine --minutes 20 --work DIR --keep     (again, until it is done)
    python -m tests.mutation engine --near       (quicker; the share can only be lower)

Fails when a folder's share is below that of the same seed in `scores.json`; `--record` writes what
was reached, which is refused where it is lower. Tests are written for what survived, so the share
of a seed that was looked at flatters: `first` is what it was before, and a new seed tells more.
Mutants of `equivalent.json` are left out before sampling.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.operators import Mutant, mutants, sample
from tests.mutation.planting import ROOT

HERE = Path(__file__).parent
SCORES = HERE / "scores.json"
EQUIVALENT = HERE / "equivalent.json"
SOURCE = Path("src/bayplan")
ENGINE_TESTS = ["tests/engine", "tests/plugins", "tests/framework", "tests/reference"]
DECISIONS = [f"tests/conformance/test_{name}.py" for name in ("runs", "decisions", "recorded_1_37")]
RECORDED = ["tests/conformance/test_api.py", "tests/conformance/test_validation.py"]


def _api(*names: str) -> list[str]:
    """Tests that ask the server in this process: what others run is not seen line by line."""
    return [f"tests/apiserver/{name}" for name in names]


# Each folder with the tests that are near it, and those of whole programs, which are asked last.
FOLDERS: dict[str, tuple[list[str], list[str]]] = {
    "engine": (ENGINE_TESTS, DECISIONS),
    "plugins": (ENGINE_TESTS, DECISIONS),
    "store": (["tests/store"], []),
    "client": (["tests/client"], []),
    "apiserver/authorization.py": (
        _api("test_authorization.py", "test_identity.py", "test_reviews.py"),
        RECORDED,
    ),
    "apiserver/verbs": (
        _api(
            "apply",
            "crd",
            "protobuf",
            "tables",
            "test_autoscaler_form.py",
            "test_delete.py",
            "test_deletion_model.py",
            "test_edge.py",
            "test_field_selectors.py",
            "test_indexed.py",
            "test_lists.py",
            "test_long_lists.py",
            "test_options.py",
            "test_races.py",
            "test_security.py",
            "test_verbs.py",
            "test_version_kinds.py",
            "test_watch.py",
            "test_watch_model.py",
            "test_ways_to_write.py",
            "test_writes.py",
        ),
        RECORDED,
    ),
    "apiserver/subresources": (
        _api(
            "test_binding.py",
            "test_eviction.py",
            "test_identity.py",
            "test_reviews.py",
            "test_scale.py",
        ),
        RECORDED,
    ),
    "apiserver/apply": (_api("apply", "test_any_object.py"), RECORDED),
    "global_scheduler": (["tests/global_scheduler"], []),
    "extender": (["tests/extender", "tests/test_origin.py"], []),
}
GOOD = ("killed", "late")


def equivalents() -> dict[str, str]:
    return dict(json.loads(EQUIVALENT.read_text("utf-8")))


def all_mutants(folder: str) -> list[Mutant]:
    place = ROOT / SOURCE / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    # templates are copied, and have tests of their own
    files = [file for file in files if file.parent.name != "template"]
    return [mutant for file in files for mutant in mutants(file, ROOT)]


def _pattern(folder: str) -> str:
    place = SOURCE / folder
    return str(place if place.suffix else place / "*")


def run(
    folder: str,
    chosen: list[Mutant],
    work: Path,
    known: set[str],
    *,
    continues: bool = False,
    deadline: float | None = None,
    only_near: bool = False,
) -> list[dict]:
    """Run the chosen mutants in a pytest of their own; return one row each.

    What is learnt about tests serves all folders that are near the same ones; `known` says of
    which tests it is there already. One that `continues` leaves out what an earlier run found, and
    learns only of tests that are new: the source must be what it was;
    after `deadline` (seconds since 1970) nothing is begun.
    """
    near, far = FOLDERS[folder]
    if only_near:
        far = []
    name = folder.replace("/", "-").removesuffix(".py")
    results = work / f"{name}.jsonl"
    if not continues:
        results.unlink(missing_ok=True)
    before = {row["key"]: row for row in _rows(results)}
    alike = [other for other in FOLDERS if FOLDERS[other][0] == near]
    learnt = "+".join(alike).replace("/", "-")
    plan = {
        "sources": [_pattern(other) for other in alike],
        "results": str(results),
        "learnt": str(work / learnt),
        "far": far,
        "keep": continues or learnt in known,
        "deadline": deadline,
        "mutants": [
            {
                "key": m.key,
                "path": m.path,
                "index": m.index,
                "first": m.first,
                "last": m.last,
            }
            for m in chosen
            if m.key not in before
        ],
    }
    file = work / f"{name}.plan"
    file.write_text(json.dumps(plan), "utf-8")
    plugins = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options = [
        "-q",
        "--no-header",
        "-m",
        "not kube and not browser and not slow and not long",
        "--hypothesis-seed=0",
    ]
    command = [sys.executable, "-m", "pytest", *plugins, *options, "--mutants-plan", str(file)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("CI", None)
    if plan["mutants"]:
        subprocess.run([*command, *near, *far], cwd=ROOT, env=environment, check=False)
        known.add(learnt)
    found = {row["key"]: row for row in _rows(results)}
    return [found[m.key] for m in chosen if m.key in found]


def _rows(results: Path) -> list[dict]:
    text = results.read_text("utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def summary(rows: list[dict], possible: int) -> dict[str, object]:
    killed = sum(row["outcome"] in GOOD for row in rows)
    share = round(100 * killed / len(rows), 1)
    return {
        "killed": killed,
        "late": sum(row["outcome"] == "late" for row in rows),
        "sample": len(rows),
        "possible": possible,
        "share": share,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", default=[], help=f"of {', '.join(FOLDERS)}")
    parser.add_argument("--sample", type=int, default=30, help="mutants a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write scores.json")
    parser.add_argument("--work", type=Path, help="keep results here")
    parser.add_argument(
        "--keep", action="store_true", help="go on with what is in --work (same source)"
    )
    parser.add_argument("--minutes", type=float, help="begin nothing after so many")
    parser.add_argument("--near", action="store_true", help="without tests of whole programs")
    parser.add_argument("--nice", type=int, default=19, help="how far behind other programs")
    parser.add_argument("--only", default="", help="only mutants whose name contains this")
    options = parser.parse_args()
    os.nice(options.nice)
    work = options.work or Path(tempfile.mkdtemp(prefix="bayplan-mutants-"))
    work.mkdir(parents=True, exist_ok=True)
    failed = False
    options.deadline = options.minutes and time.time() + 60 * options.minutes
    print(f"seed {options.seed}, {options.sample} mutants a folder; results in {work}")
    known: set[str] = set()
    for folder in options.folders or FOLDERS:
        failed |= one_folder(folder, options, work, known)
    return int(failed)


def one_folder(folder: str, options: argparse.Namespace, work: Path, known: set[str]) -> bool:
    """Run one folder; tell whether it fell below its recorded share."""
    alike = equivalents()
    every = all_mutants(folder)
    possible = [m for m in every if m.key not in alike]
    for key in alike.keys() - {m.key for m in every}:
        if key.startswith(str(SOURCE / folder)):
            print(f"{folder}: equivalent.json lists what is no longer there: {key}")
    chosen = [m for m in sample(possible, options.seed, options.sample) if options.only in m.key]
    rows = run(
        folder,
        chosen,
        work,
        known,
        continues=options.keep,
        deadline=options.deadline,
        only_near=options.near,
    )
    if len(rows) != len(chosen) or not rows:
        print(f"{folder}: only {len(rows)} of {len(chosen)} mutants were run")
        if options.deadline:
            print(f"  go on with: {folder} --work {work} --keep, and the same sample and seed")
        return True
    got = summary(rows, len(possible))
    print(f"{folder}: {got['killed']} of {got['sample']} killed ({got['share']} %)")
    for row in rows:
        if row["outcome"] not in GOOD:
            print(f"  {row['outcome']}: {row['key']}")
    if options.only:
        return False
    scores = json.loads(SCORES.read_text("utf-8"))
    before = scores.get(folder, {}).get(str(options.seed), {})
    if got["share"] < before.get("share", 0.0):
        print(f"{folder}: {got['share']} % is less than the {before['share']} % of scores.json")
        return True
    if options.record:
        got["first"] = before.get("first", got["share"])
        scores.setdefault(folder, {})[str(options.seed)] = got
        SCORES.write_text(json.dumps(scores, indent=1, sort_keys=True) + "\n", "utf-8")
    return False


if __name__ == "__main__":
    sys.exit(main())
