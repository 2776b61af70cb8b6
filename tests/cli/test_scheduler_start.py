"""What `bayplan scheduler` loads before it works."""

import subprocess
import sys

PROGRAM = """
import sys
from bayplan.cli.scheduler import command
try:
    command(["--config=/nowhere/at/all"], standalone_mode=False)
except Exception:
    pass
print("structlog" in sys.modules, "rich" in sys.modules)
import rich
"""


def test_no_library_for_colours_is_loaded():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )

    assert result.stdout.split() == ["True", "False"]
