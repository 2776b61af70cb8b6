"""Logging set-up: structlog, with kube-scheduler's verbosity and formats.

`--v` is Kubernetes' scale: 0 shows what an operator must know, 2 adds one line for each pod that is
bound or cannot be, 4 and above what a maintainer wants. Messages are constant, facts are
key=value. `text` looks like klog's lines, `json` like its JSON; both go to stderr.

Hot paths ask `verbosity()` once and keep the answer: a filtered call still costs a microsecond.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, TextIO, cast

import msgspec
import structlog

Format = Literal["text", "json"]
DEBUG_FROM = 4

_LETTERS = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F"}
_state = {"v": 0}


class _Stderr:
    """What stderr is when a line is written: a status line may stand below it for a while.

    A line that cannot be written (the log's disk is full, nobody reads the pipe) is lost, as in
    klog. It must not end who wrote it: a full disk is told by the thread that writes the store.
    """

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


STDERR = cast("TextIO", _Stderr())


def verbosity() -> int:
    """Return the value of `--v`."""
    return _state["v"]


def configure(v: int = 0, format_: Format = "text", stream: TextIO | None = None) -> None:
    """Set up logging for this process; call it once, at start."""
    _state["v"] = v
    level = logging.DEBUG if v >= DEBUG_FROM else logging.INFO
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _render_json if format_ == "json" else _render_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream or STDERR),
        cache_logger_on_first_use=False,
    )


def configure_if_not_done() -> None:
    """Set up logging where a program uses Bayplan as a library and has said nothing of logs."""
    if not structlog.is_configured():
        configure()


def _render_text(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    level, message = event.pop("level", method), event.pop("event", "")
    trace = event.pop("exception", "")
    moment = datetime.now()
    head = f"{_LETTERS.get(level, 'I')}{moment:%m%d %H:%M:%S.%f} {os.getpid():7}"
    facts = "".join(f" {key}={_quoted(value)}" for key, value in event.items())
    line = f'{head}] "{message}"{facts}'
    return f"{line}\n{trace}" if trace else line


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(str(value)).decode()


def _render_json(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    level, message = event.pop("level", method), event.pop("event", "")
    stamp = datetime.now().timestamp() * 1000
    record = {"ts": round(stamp, 3), "level": level, "msg": message, **event}
    return msgspec.json.encode(record, enc_hook=str).decode()
