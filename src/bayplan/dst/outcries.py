"""Hears what the parts log: an error with a traceback is one that nobody expected.

Whoever catches such an error goes on (a reconciler tries again, a worker takes the next pod), so
that nothing else would show it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

import structlog
from structlog.typing import EventDict, WrappedLogger

from bayplan.dst.invariants import UNSEEN
from bayplan.dst.truth import Broken


@contextlib.contextmanager
def heard(tell: Callable[[Broken], None]) -> Iterator[None]:
    """While the block runs, call `tell` for every logged error that has a traceback."""

    def hear(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if event.get("exc_info"):
            tell(Broken(UNSEEN, f"{event['event']}: {sys.exception()!r}"))
        raise structlog.DropEvent

    before = structlog.get_config()
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(processors=[hear], wrapper_class=quiet)
    try:
        yield
    finally:
        structlog.configure(**before)
