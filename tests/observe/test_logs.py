"""Log lines in klog's two formats, and what verbosity lets through."""

import io
import json
import re

import pytest
import structlog

from bayplan.observe import logs


@pytest.fixture(autouse=True)
def restore():
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    logs._state["v"] = 0


def test_text_looks_like_klog():
    out = io.StringIO()
    logs.configure(2, "text", out)

    structlog.get_logger("x").info("Successfully bound pod", pod="ns/p", attempts=2, first=True)

    line = out.getvalue()
    assert re.match(r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+\] ", line)
    assert line.endswith('"Successfully bound pod" pod="ns/p" attempts=2 first=true\n')
    assert logs.verbosity() == 2


def test_json_is_one_object_a_line():
    out = io.StringIO()
    logs.configure(0, "json", out)

    structlog.get_logger("x").error("bad", err=ValueError("boom"))

    record = json.loads(out.getvalue())
    assert {"level": "error", "msg": "bad", "err": "boom"} == {
        key: record[key] for key in ("level", "msg", "err")
    }


@pytest.mark.parametrize(("v", "shown"), [(0, False), (3, False), (4, True)])
def test_debug_needs_verbosity_four(v, shown):
    out = io.StringIO()
    logs.configure(v, "text", out)

    structlog.get_logger("x").debug("detail")

    assert shown == bool(out.getvalue())
