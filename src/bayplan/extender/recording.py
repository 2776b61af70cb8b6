"""Records the calls that a scheduler makes to an extender, and plays them to another version of it.

The recorder stands between both: `urlPrefix` names it, it passes every call on and writes it down
with its answer, one JSON object a line. It knows no verb and changes nothing, so any extender and
any scheduler will do. Replaying asks the same questions, of a URL or of an extender of the kit in
this process, and compares what the answers say, not how they are written. `bind` is left out unless
it is asked for: it would really bind.

Calls carry whole pods, with what stands in their environment: the file is for its owner only.
"""

import asyncio
import gzip
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec

from bayplan import packed, private
from bayplan.errors import BayplanError, DecodeError
from bayplan.extender import wire
from bayplan.extender.body import BodyError, Receive, Send, header, read_body, respond
from bayplan.extender.check import Answer, post
from bayplan.extender.kit import PATHS, Extender, Scope, UnknownVerbError
from bayplan.intake import Intake, Share

BIND = "bind"
MAX_LINE = 256 << 20  # a call about 5,000 whole nodes has 30 MB
Ask = Callable[["Recorded"], Awaitable[Answer]]


class RecordingError(BayplanError):
    """A recording that cannot be written or read."""


class Recorded(msgspec.Struct, frozen=True):
    """One call: where to, what was asked, and what was answered after how long."""

    path: str
    request: msgspec.Raw
    status: int
    answer: msgspec.Raw
    seconds: float

    @property
    def verb(self) -> str:
        """The verb by the usual paths; else the last part of the path."""
        last = "/" + self.path.rstrip("/").rpartition("/")[2]
        return PATHS.get(last, last[1:])


class Compared(msgspec.Struct, frozen=True):
    """A call that was made again; `difference` is empty when both answers say the same."""

    number: int
    path: str
    difference: str
    seconds: float
    before: float


class Recorder:
    """An ASGI application that passes calls on and writes them down."""

    def __init__(self, url: str, path: Path, *, timeout: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self.count = 0
        self._timeout = timeout
        self._intake = Intake()
        self._files = ExitStack()
        self._file = _create(path, self._files)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (event := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{event['type']}.complete"})
            self.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            with self._intake.share() as share:
                await self._pass_on(scope, receive, send, share)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, share: Share) -> None:
        if scope["path"] in ("/healthz", "/livez", "/readyz"):
            return await respond(send, 200, b"ok", "text/plain")
        if scope["method"] != "POST":
            return await respond(send, 405, b"extender verbs are POST", "text/plain")
        try:
            body = await read_body(scope, receive, share)
        except BodyError as problem:
            return await respond(send, problem.status, str(problem).encode(), "text/plain")
        token = header(scope, b"authorization").decode("latin-1").removeprefix("Bearer ")
        start = time.perf_counter()
        try:
            url = self.url + scope["path"]
            answer = await asyncio.to_thread(post, url, body, token, self._timeout)
        except OSError as problem:
            text = f"the extender at {self.url} did not answer: {problem}"
            return await respond(send, 502, text.encode(), "text/plain")
        self._write(scope["path"], body, answer, time.perf_counter() - start)
        kind = "application/json" if answer.status == 200 else "text/plain; charset=utf-8"
        await respond(send, answer.status, answer.body, kind)

    def _write(self, path: str, body: bytes, answer: Answer, seconds: float) -> None:
        call = Recorded(path, _json(body), answer.status, _json(answer.body), round(seconds, 6))
        self._file.write(msgspec.json.encode(call) + b"\n")
        self._file.flush()
        self.count += 1

    def close(self) -> None:
        """Finish the file."""
        self._files.close()


def _create(path: Path, files: ExitStack) -> IO[bytes]:
    try:
        number = private.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as cause:
        raise RecordingError(f'writing "{path}": {cause}') from cause
    file: IO[bytes] = files.enter_context(os.fdopen(number, "wb"))
    if path.suffix != ".gz":
        return file
    packer = gzip.GzipFile(fileobj=file, mode="wb")
    files.callback(packer.close)
    return packer  # type: ignore[return-value]


def _json(body: bytes) -> msgspec.Raw:
    """A body as it is, or as a text when it is no JSON on one line."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(body.decode("utf-8", "replace")))
    return msgspec.Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))


def read(path: Path, limit: int = MAX_LINE) -> Iterator[Recorded]:
    """The calls of a recording; a last line that was cut off by a kill is left out."""
    number = 0
    try:
        with path.open("rb") as file:
            for line in packed.lines(file, limit) if path.suffix == ".gz" else file:
                number += 1
                if line.endswith(b"\n"):
                    yield msgspec.json.decode(line, type=Recorded)
    except packed.CutOffError:
        return
    except (OSError, packed.PackedError, msgspec.DecodeError) as cause:
        place = f"line {number}: " if isinstance(cause, msgspec.DecodeError) else ""
        raise RecordingError(f'reading "{path}": {place}{cause}') from cause


def by_url(url: str, token: str = "", timeout: float = 30.0) -> Ask:
    """Ask an extender that is served."""

    async def ask(call: Recorded) -> Answer:
        where = url.rstrip("/") + call.path
        return await asyncio.to_thread(post, where, bytes(call.request), token, timeout)

    return ask


def by_kit(app: Extender) -> Ask:
    """Ask an extender in this process."""

    async def ask(call: Recorded) -> Answer:
        try:
            return Answer(200, await app.answer(call.verb, bytes(call.request)))
        except UnknownVerbError as problem:
            return Answer(404, str(problem).encode())
        except BayplanError as problem:
            return Answer(400, str(problem).encode())

    return ask


async def replay(path: Path, ask: Ask, *, bind: bool = False) -> list[Compared]:
    """Make every call again, one after another, and compare the answers."""
    found = []
    for number, call in enumerate(read(path), 1):
        if call.verb == BIND and not bind:
            continue
        start = time.perf_counter()
        try:
            difference = _difference(call, await ask(call))
        except OSError as problem:
            difference = f"no answer: {problem}"
        took = time.perf_counter() - start
        found.append(Compared(number, call.path, difference, took, call.seconds))
    if not found:
        raise RecordingError(
            f'"{path}" holds no call to make; record some: bayplan extender record'
        )
    return found


def _difference(call: Recorded, now: Answer) -> str:
    before = Answer(call.status, bytes(call.answer))
    if before.status != now.status:
        text = now.body[:200].decode("utf-8", "replace")
        return f"status {before.status} became {now.status}: {text}"
    if now.status != 200:
        return ""
    one, other = _said(call.verb, before.body), _said(call.verb, now.body)
    if one == other:
        return ""
    changed = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    some = [f"{key}: {one.get(key, 'nothing')} became {other.get(key, 'nothing')}"
            for key in changed[:3]]  # fmt: skip
    return "; ".join(some) + (f"; and {len(changed) - 3} more" if len(changed) > 3 else "")


def _said(verb: str, body: bytes) -> dict[str, object]:
    """What an answer says, by node where it speaks of nodes."""
    try:
        if verb == "filter":
            return _filtered(wire.decode_filter_result(body))
        if verb == "prioritize":
            return {f'node "{one.host}"': one.score for one in wire.decode_priorities(body)}
        if verb == "preempt":
            found = wire.decode_preemption_result(body)
            return {f'node "{node}"': sorted(entry.uids) for node, entry in found.items()}
        return {"the answer": msgspec.json.decode(body) if body else None}
    except (DecodeError, msgspec.DecodeError) as problem:
        return {"the answer": f"garbage ({problem})"}


def _filtered(answer: wire.FilterAnswer) -> dict[str, object]:
    kept = answer.node_names if answer.node_names is not None else answer.nodes
    said: dict[str, object] = {f'node "{name}"': "kept" for name in kept or ()}
    for reasons in (answer.failed_nodes, answer.unresolvable_nodes):
        said |= {f'node "{name}"': f"refused ({why})" for name, why in reasons.items()}
    return said | ({"Error": answer.error} if answer.error else {})
