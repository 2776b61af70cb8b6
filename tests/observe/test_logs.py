"""Log lines in klog's two formats, and what verbosity lets through."""

import errno
import io
import json
import re
import sys

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


def test_a_line_for_which_the_disk_has_no_room_ends_nobody_and_later_ones_are_written(monkeypatch):
    class OnDisk(io.StringIO):
        full = True

        def write(self, text):
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

        def flush(self):
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")

    disk = OnDisk()
    monkeypatch.setattr(sys, "stderr", disk)
    logs.configure()
    log = structlog.get_logger("x")

    log.error("lost")
    disk.full = False
    log.error("kept")

    assert '"kept"' in disk.getvalue()


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
