"""Keeps background work alive: what fails is said once and begun again, never lost in silence."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

log = structlog.get_logger(__name__)

FIRST, LIMIT = 0.5, 10.0


async def keep(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Run `work` until cancelled, again after a pause when it ends or fails.

    The same failure is logged the first time only, until the work ran without one.
    """
    said = ""
    wait = FIRST
    while True:
        try:
            await work()
            said, wait = "", FIRST
        except Exception as cause:
            inner = _innermost(cause)
            text = f"{type(inner).__name__}: {inner}"
            if text != said:
                log.error("background work failed and is begun again", work=name, error=text)
            said = text
            wait = min(wait * 2, LIMIT)
        await pause(wait)


def _innermost(cause: BaseException) -> BaseException:
    """The first failure inside a group of tasks."""
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return cause
