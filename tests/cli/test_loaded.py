"""What commands load before they work: the list is bounded, so that starting stays quick.

The clock is not asked: `bench/start.py` does that.
"""

import subprocess
import sys

import pytest

RUN = """
import sys
from bayplan.cli.main import bayplan
try:
    bayplan.main({arguments!r}, standalone_mode=False)
except {error}:
    pass
except SystemExit:
    pass
print("loaded", *sorted(sys.modules))
"""
SERVER = """
import asyncio, sys
from bayplan.cli.main import bayplan
import bayplan.cli.up as up

def greeted(text, *rest, **named):
    if "is ready" in text:
        print("loaded", *sorted(sys.modules), flush=True)
        raise KeyboardInterrupt

up.click.echo = greeted
bayplan.main(["up", "--bind=127.0.0.1:0", "--data", sys.argv[1]], standalone_mode=False)
"""
CONNECT = """
import sys
import bayplan.cli.main as main
main._import_structlog()
import bayplan.scheduler.process, bayplan.scheduler.options, bayplan.observe.logs
print("loaded", *sorted(sys.modules))
"""
NOTHING_HEAVY = {"aiohttp", "asyncio", "cryptography", "msgspec", "numpy", "rich", "structlog"}


def loaded(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("loaded "):
            return set(line.split()[1:])
    raise AssertionError(done.stderr)


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_nothing_but_the_command_line(flag):
    modules = loaded(RUN.format(arguments=[flag], error="KeyError"))

    assert not modules & NOTHING_HEAVY
    own = {name for name in modules if name.partition(".")[0] == "bayplan"}
    assert own == {"bayplan", "bayplan.cli", "bayplan.cli.main", "bayplan.errors"}


def test_a_scheduler_loads_no_library_that_it_does_not_need_to_bind():
    modules = loaded(CONNECT)

    assert "bayplan.engine" in modules
    unneeded = {"aiohttp", "bayplan.apiserver", "bayplan.cel.program", "bayplan.inspect"}
    unneeded |= {"cryptography", "rich", "starlette", "uvicorn"}
    assert not modules & unneeded
    assert len([name for name in modules if name.startswith("bayplan.")]) <= 260


def test_a_whole_cluster_is_ready_before_its_page_and_questions_are_loaded(tmp_path):
    modules = loaded(SERVER, str(tmp_path / "data"))

    assert "bayplan.controllers.manager" in modules
    unneeded = {"aiohttp", "bayplan.cel.program", "bayplan.inspect.http", "bayplan.page"}
    unneeded |= {"bayplan.clock", "rich", "starlette"}
    assert not modules & unneeded
    assert len([name for name in modules if name.startswith("bayplan.")]) <= 496
