"""The errors that Bayplan raises on purpose.

    BayplanError
    ├── ConfigError        a configuration file or flag is wrong; the text says what to change
    │   └── CannotListen   an address is taken or not ours
    ├── DecodeError        an object is not what its kind says; the text names the field
    └── PluginError        a plugin raised or returned what its extension point does not allow

Packages with their own family (store, client, apiserver) derive it from BayplanError and draw it
in their own `errors.py`. Commands turn a BayplanError into one line on stderr and exit code 1.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import traceback
from pathlib import Path
from types import TracebackType

_CALLERS = (
    *(
        str(Path(__file__).parent / name)
        for name in ("framework", "engine", "scheduler", "extender", "lessons", "sim")
    ),
    "<frozen importlib",
    str(importlib.__file__),
)


class BayplanError(Exception):
    """Something a user can act on; the text says how, or `remedy`, which commands add to it."""

    remedy = ""


class ConfigError(BayplanError):
    """A configuration file or flag is wrong."""


class CannotListen(ConfigError):
    """An address cannot be listened on."""

    def __init__(self, address: str, flag: str, problem: OSError) -> None:
        text = f'listening on "{address}": {problem.strerror or problem}'
        if problem.errno == errno.EADDRINUSE:
            text += f"; another server is there: stop it, or choose another {flag} (port 0: any)"
        else:
            text += f"; choose another {flag}"
        super().__init__(text)


class DecodeError(BayplanError):
    """An object is not what its kind says it is."""


class PluginError(BayplanError):
    """A plugin raised, or returned what its extension point does not allow."""


NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's names for a server that answers something else."""

RAISED = BaseException
"""What a call of others' code may raise: whatever it is fails a pod, not the scheduler.

Also `sys.exit`, a cancellation of its own, or a panic of an extension written in Rust. Whoever
catches it in the engine passes it to `not_ours`.
"""


def reason(problem: OSError) -> str:
    """Why a call to the system failed: `Connection refused`, not asyncio's own words for it."""
    if wrong := getattr(problem, "verify_message", ""):
        return f"its certificate is not trusted: {wrong}"
    said = getattr(problem, "reason", None)  # of ssl, whose numbers are none of the system
    if isinstance(said, str):
        return "it speaks no TLS" if said in NO_TLS else f"TLS failed: {said.lower()}"
    if problem.errno and problem.errno > 0:  # names that are not found have numbers of their own
        return os.strerror(problem.errno)
    return problem.strerror or str(problem)


def not_ours(error: BaseException) -> None:
    """Raise an interrupt again that may be the user's Ctrl-C: nobody else takes the signal."""
    if isinstance(error, KeyboardInterrupt) and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        raise error


def text_of(error: BaseException) -> str:
    """What an error of others' code says; nothing if that code fails again, or leaves, at it."""
    try:
        return str(error)
    except BaseException as again:
        not_ours(again)
        return ""


def with_place(error: BaseException) -> str:
    """The text of what others' code raised, with the file and line of that code at its end."""
    text = text_of(error) or type(error).__name__
    if isinstance(error, SyntaxError):
        return text  # it names its own place
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(_CALLERS)]
    if not outside:
        return text  # the call itself failed: wrong parameters, say
    own = [frame for frame in outside if frame.filename == outside[0].filename][-1]
    return f"{text} ({Path(own.filename).name}:{own.lineno})"


class Importing:
    """A block in which others' code runs for the first time: whatever it raises is told.

    Also what would end the process (SystemExit, KeyboardInterrupt): the file asked for it, not the
    user. `doing` begins the text: `loading plugin file "a.py"`.
    """

    def __init__(self, doing: str, kind: type[BayplanError] = ConfigError) -> None:
        self._doing = doing
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        if problem is None:
            return
        named = f"{type(problem).__name__}: " if text_of(problem) else ""
        raise self._kind(f"{self._doing}: {named}{with_place(problem)}") from problem
