"""Settings for all tests.

Hypothesis gives an example 200 ms by default, and all of them a second to be drawn. On a busy
machine that fails at random, so there is no such limit here; pytest's own timeout ends what hangs.

Tests, and the programs that they start, import the source beside them, whatever is installed. Where
Python is told to write no bytecode, each of them would compile it all anew, which takes longer than
most tests: it is kept with pytest's own cache then, not beside the sources.

Real programs that `hack/kube-assets` built are put on the path, so that a test finds the same
kubectl or helm everywhere. Where CI is set a skipped test is a failed one: what it needs has to be
brought there, or its green would say nothing. There hypothesis draws the same examples in each run,
so that a commit has one answer; elsewhere each run draws others. Names of tests must be the same in
every run and on every worker: those that could not be are refused here, `hack/check-test-names`
compares two runs.
"""

import gc
import io
import os
import random
import re
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

import bayplan
from bayplan.observe import logs
from bayplan.testing.servers import kube_assets

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
assert Path(bayplan.__file__).is_relative_to(SOURCE), (
    f"tests of {ROOT} would try {bayplan.__file__}"
)
before = os.environ.get("PYTHONPATH", "")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), str(ROOT), before]))
# What the timer of pytest-timeout raises is lost in uvloop's callbacks: a test that hangs in a
# server of its own process would never end. Programs that tests start run on uvloop.
sys.modules["uvloop"] = None
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".pytest_cache/bytecode")

GC_THRESHOLDS = (20_000, 20, 50)  # those of the command line

# Bytes, what is not ASCII, addresses in memory: names that hang on the run or cannot be typed.
UNFIT_NAME = re.compile(r"\\x|\\u|\\U|0x[0-9a-f]{6,}|[^ -~]")

settings.register_profile(
    "bayplan",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("bayplan")

if (assets := kube_assets()) is not None:
    os.environ["PATH"] = f"{assets}{os.pathsep}{os.environ.get('PATH', '')}"


def pytest_addoption(parser):
    parser.addoption("--order-seed", type=int, help="run in a random order; 0 draws a seed")


def pytest_configure(config):
    if config.option.order_seed == 0:  # drawn once: a worker is told what was drawn above it
        drawn = getattr(config, "workerinput", {}).get("order_seed")
        config.option.order_seed = drawn or random.randrange(1, 1 << 30)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["order_seed"] = node.config.option.order_seed


def pytest_report_header(config):
    seed = config.option.order_seed
    return f"order: --order-seed {seed}" if seed else None


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if exitstatus and config.option.order_seed:
        terminalreporter.write_line(f"in the order of --order-seed {config.option.order_seed}")


def in_random_order(items, seed):
    """Shuffle modules, and tests within each; a module's fixtures are still made once."""
    rng = random.Random(seed)
    modules = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    places = sorted(modules)
    rng.shuffle(places)
    for place in places:
        rng.shuffle(modules[place])
    return [item for place in places for item in modules[place]]


def pytest_collection_modifyitems(config, items):
    if config.option.order_seed:
        items[:] = in_random_order(items, config.option.order_seed)
    unfit = sorted({item.nodeid for item in items if UNFIT_NAME.search(item.nodeid)})
    if unfit:
        raise pytest.UsageError(f"give these cases an id of plain text: {', '.join(unfit)}")
    if assets is None:
        missing = pytest.mark.skip(reason="the real programs are not built: make kube-assets")
        for item in items:
            if item.get_closest_marker("kube"):
                item.add_marker(missing)


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_groups_stay_together(config, items):
    """Fail where groups are lost: each worker would make their dear fixtures anew."""
    if not getattr(config.option, "loadgroup", False):
        return
    split = [i.nodeid for i in items if i.get_closest_marker("xdist_group") and "@" not in i.nodeid]
    if split:
        raise pytest.UsageError(f"pytest-xdist lost the group of {split[0]}: see pyproject.toml")


def pytest_collection_finish():
    """What is imported stays: to look for garbage in it took a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return refused_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """A whole module that skips itself."""
    return refused_in_ci((yield))


def refused_in_ci(report):
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where CI is set: {report.longrepr[2]}"
    return report


@pytest.fixture
def quiet():
    """What a scheduler logs meanwhile, in the same process, is not part of an answer."""
    before = structlog.get_config()
    logs.configure(0, stream=io.StringIO())
    yield
    structlog.configure(**before)
