"""Our order of equal elements beside that of the Go toolchain at hand."""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from bayplan.plugins.go_sort import go_sorted
from tests.plugins.test_go_sort import drawn

PROGRAM = Path(__file__).with_name("go_sort.go")

pytestmark = pytest.mark.kube


@pytest.mark.skipif(shutil.which("go") is None, reason="needs a Go toolchain")
def test_equal_elements_end_up_where_go_leaves_them():
    random = Random(20261117)
    asked = [drawn(random) for _ in range(4000)]
    lines = "".join(json.dumps({"keys": keys, "restless": rest}) + "\n" for keys, rest in asked)
    run = subprocess.run(
        ["go", "run", PROGRAM], input=lines, text=True, capture_output=True, check=True
    )

    for (keys, rest), line in zip(asked, run.stdout.splitlines(), strict=True):
        ours = go_sorted(range(len(keys)), keys, [key in rest for key in keys])
        assert ours == json.loads(line), (keys, rest)
