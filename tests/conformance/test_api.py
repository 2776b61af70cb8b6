"""The embedded API server answers as kube-apiserver v1.36.4 did.

`recorded` is the shared suite; `kinds` takes every kind through every verb, `edges` asks odd
things, `flows` follows objects through watches; all were recorded from the real server. Steps that
differ on purpose are listed with the reason in docs/reference/api-differences.md; any other
difference fails, and so does a listed one that is gone.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bayplan.testing.etcd import find_etcd, start_etcd
from bayplan.testing.servers import start_embedded
from tests.conformance.api.replay import check, load

HERE = Path(__file__).parent / "api"
DIFFERENCES = Path(__file__).parents[2] / "docs" / "reference" / "api-differences.md"
SUITES = ("recorded", "kinds", "edges", "flows")
pytestmark = pytest.mark.xdist_group("api-conformance")  # one run of the suites serves all tests
TOKEN = "tok"  # one step sends it in a TokenReview


def listed_differences() -> set[str]:
    """The steps that the reference says are different."""
    return set(re.findall(r"^\| `([\w./-]+)` \|", DIFFERENCES.read_text("utf-8"), re.MULTILINE))


def differing_steps(suite: str, folder: Path, *store: str) -> dict[str, list[str]]:
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n", "utf-8")
    arguments = (
        "--anonymous-auth=false",
        f"--token-file={tokens}",
        "--emulated-version=1.36",
        *store,
    )
    steps = load(HERE / f"{suite}.json.gz")
    with start_embedded(folder, *arguments) as cluster:
        # Plain HTTP, which loopback also answers, saves a thousand handshakes.
        results = check(steps, cluster.server.replace("https:", "http:"), TOKEN)
    return {step["id"]: lines for step, lines in results if lines}


def on_etcd(folder: Path) -> dict[str, list[str]]:
    with start_etcd(folder / "etcd") as server:
        return differing_steps("recorded", folder, "--store=etcd", f"--etcd-servers={server.url}")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, list[str]]]:
    """Every suite on its own server, all at once: most steps wait for something."""
    runs = {suite: partial(differing_steps, suite) for suite in SUITES}
    runs["memory"] = lambda folder: differing_steps("recorded", folder, "--store=memory")
    if find_etcd() is not None:
        runs["etcd"] = on_etcd
    with ThreadPoolExecutor(len(runs)) as pool:
        started = {
            name: pool.submit(run, tmp_path_factory.mktemp(name)) for name, run in runs.items()
        }
        return {name: future.result() for name, future in started.items()}


@pytest.mark.parametrize("suite", SUITES)
def test_answers_agree_with_the_recorded_ones(suite, results):
    steps = {step["id"] for step in load(HERE / f"{suite}.json.gz")}

    differing = results[suite]

    assert listed_differences() & steps == set(differing), differing
    assert len(differing) <= 0.03 * len(steps)


@pytest.mark.parametrize("suite", [*SUITES, "custom", "validation"])
def test_every_refusal_is_compared_with_its_words(suite):
    silent = [
        step["id"]
        for step in load(HERE / f"{suite}.json.gz")
        if step["want"].get("status", 0) >= 400
        and (
            "message" not in (how := step.get("compare", {}))
            or how.keys() & {"only", "present"}
            or not how.get("body", True)
        )
    ]

    assert [] == silent


@pytest.mark.parametrize("store", ["memory", "etcd"])
def test_answers_do_not_depend_on_the_store(store, results):
    if store not in results:
        pytest.skip("there is no etcd program")

    assert results["recorded"] == results[store]
