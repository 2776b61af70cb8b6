"""Plays well-formed and malformed calls against any extender and says what is wrong with answers.

Each check is one call and one judgement. An extender in any language can be checked; nothing is
assumed but the protocol. A `bind` call would really bind, so bind is only asked with a pod that
cannot exist, and an error is the right answer. Who promises to keep nothing between calls is asked
about some pods in two orders: that finds one that counts, it does not prove that nobody does.
"""

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from bayplan.errors import BayplanError, DecodeError, reason
from bayplan.extender import wire

NODE_COUNT = 1000
SLOW_SECONDS = 1.0
TRIES = 3
"""How often a call is made that is answered late: once may be the machine's fault."""


class Verbs(msgspec.Struct, frozen=True):
    """The path of each verb below the URL; an empty one is not checked."""

    filter: str = "filter"
    prioritize: str = "prioritize"
    preempt: str = "preempt"
    bind: str = ""


class Finding(msgspec.Struct, frozen=True):
    """What one check found; `problem` is empty when the answer was right."""

    check: str
    problem: str
    seconds: float


class Answer(msgspec.Struct, frozen=True):
    """Status and body of an answer."""

    status: int
    body: bytes
    promises: bool = False
    """Whether the extender promises to keep nothing between calls."""


class CheckError(BayplanError):
    """An answer that is not what the protocol asks for."""


Judge = Callable[[Answer], None]


class Check(msgspec.Struct, frozen=True):
    """One call and how its answer is judged."""

    name: str
    path: str
    body: bytes
    judge: Judge


def _pod(name: str = "bayplan-check") -> bytes:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": "check"}}
    return json.dumps({"metadata": meta, "spec": {"containers": [container]}}).encode()


def _node(name: str) -> bytes:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name}
    return json.dumps(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"capacity": room, "allocatable": room},
        }
    ).encode()


def _ok(answer: Answer) -> bytes:
    if answer.status != 200:
        text = answer.body[:120].decode("utf-8", "replace")
        raise CheckError(f"answered {answer.status} where 200 was expected: {text}")
    return answer.body


def judge_filter(asked: Sequence[str], *, names: bool) -> Judge:
    """A filter's answer: known nodes only, each either kept or failed, in the form of the call."""
    known = set(asked)

    def judge(answer: Answer) -> None:
        result = wire.decode_filter_result(_ok(answer))
        if result.error:
            raise CheckError(f"Error is set: {result.error}")
        if names and result.node_names is None and result.nodes is None and asked:
            raise CheckError(
                "neither NodeNames nor Nodes is set: the scheduler reads it as no node"
            )
        if not names and result.nodes is None and asked:
            raise CheckError("Nodes is not set although the call carried Nodes")
        if names:
            kept = result.node_names or []
        else:
            kept = result.nodes or []
        failed = {**result.failed_nodes, **result.unresolvable_nodes}
        if strangers := [name for name in (*kept, *failed) if name not in known]:
            raise CheckError(f'names the node "{strangers[0]}", which was not asked about')
        if both := [name for name in kept if name in failed]:
            raise CheckError(f'node "{both[0]}" is both kept and failed')
        if len(set(kept)) != len(kept):
            raise CheckError("names a node twice")

    return judge


def judge_prioritize(asked: Sequence[str]) -> Judge:
    """Scores: a list, known nodes only, 0 to 10."""
    known = set(asked)

    def judge(answer: Answer) -> None:
        entries = wire.decode_priorities(_ok(answer))
        for entry in entries:
            if entry.host not in known:
                raise CheckError(f'scores the node "{entry.host}", which was not asked about')
            if not 0 <= entry.score <= wire.MAX_EXTENDER_PRIORITY:
                raise CheckError(f'score {entry.score} for "{entry.host}" is not within 0 to 10')
        if asked and not entries:
            raise CheckError("an empty list: no node is scored")

    return judge


def judge_preempt(victims: dict[str, wire.Victims]) -> Judge:
    """Victims: only proposed nodes and UIDs, at least one victim a node."""

    def judge(answer: Answer) -> None:
        for node, entry in wire.decode_preemption_result(_ok(answer)).items():
            if node not in victims:
                raise CheckError(f'names the node "{node}", which was not proposed')
            if not entry.uids:
                raise CheckError(f'names no victim on node "{node}"; leave the node out instead')
            if strange := [uid for uid in entry.uids if uid not in victims[node].uids]:
                raise CheckError(f'names the victim {strange[0]} on "{node}", not proposed there')

    return judge


def judge_refused(answer: Answer) -> None:
    """A malformed call: an error status, or an Error in the answer."""
    if answer.status != 200:
        return
    try:
        if wire.decode_error(answer.body, "answer"):
            return
    except DecodeError:
        pass
    raise CheckError("a malformed call was answered with 200 and no Error")


def checks(verbs: Verbs, *, names: bool) -> Iterator[Check]:
    """All checks for the verbs given, with names only or with whole nodes."""
    few = [f"check-{n}" for n in range(3)]
    many = [f"check-{n}" for n in range(NODE_COUNT)]
    form = "names" if names else "nodes"

    args = partial(_args, _pod(), names=names)
    if verbs.filter:
        for asked in (few, many, []):
            judge = judge_filter(asked, names=names)
            yield Check(f"filter {len(asked)} {form}", verbs.filter, args(asked), judge)
    if verbs.prioritize:
        for asked in (few, many):
            judge = judge_prioritize(asked)
            yield Check(f"prioritize {len(asked)} {form}", verbs.prioritize, args(asked), judge)
    if verbs.preempt:
        yield _preempt_check(verbs.preempt, names=names)
    if verbs.bind:
        nobody = wire.encode_binding_args(
            wire.BindingArgs("bayplan-check-nobody", "default", "no-such-uid", "check-0")
        )
        yield Check("bind a pod that does not exist", verbs.bind, nobody, judge_refused)
    yield from _malformed(verbs)


def _args(pod: bytes, asked: Sequence[str], *, names: bool) -> bytes:
    if names:
        return wire.encode_args(pod, names=asked)
    return wire.encode_args(pod, nodes=[_node(name) for name in asked])


def _preempt_check(path: str, *, names: bool) -> Check:
    pods = [_pod(f"victim-{n}") for n in range(2)]
    victims = {
        f"check-{n}": wire.Victims(pods=[pod], uids=[f"uid-victim-{n}"])
        for n, pod in enumerate(pods)
    }
    body = wire.encode_preemption_args(_pod(), victims, by_uid=names)
    return Check("preempt 2 nodes", path, body, judge_preempt(victims))


def _malformed(verbs: Verbs) -> Iterator[Check]:
    bodies = {
        "cut off": b'{"Pod":{"meta',
        "no pod": b'{"NodeNames":["check-0"]}',
        "a list": b"[1,2,3]",
        "wrong types": b'{"Pod":5,"NodeNames":"check-0"}',
        "empty": b"",
    }
    for verb in (verbs.filter, verbs.prioritize):
        for name, body in bodies.items() if verb else ():
            yield Check(f"{verb} refuses a body that is {name}", verb, body, judge_refused)


def run(
    url: str, verbs: Verbs, *, names: bool, token: str = "", timeout: float = 5.0
) -> Iterator[Finding]:
    """Make the calls one after another and yield what each found; CheckError if nobody is there."""
    reach(url, timeout)
    promised: set[str] = set()

    def ask(path: str, body: bytes) -> Answer:
        answer = post(f"{url.rstrip('/')}/{path}", body, token, timeout)
        if answer.promises:
            promised.add(path)
        return answer

    def once(check: Check) -> None:
        check.judge(ask(check.path, check.body))

    for check in checks(verbs, names=names):
        yield _found(check.name, partial(once, check))
    for path in (verbs.filter, verbs.prioritize):
        if path in promised:
            twice = partial(_ask_twice, ask, path, names=names)
            yield _found(f"{path} keeps its promise", twice)


def _found(name: str, check: Callable[[], None]) -> Finding:
    took = 0.0
    for _ in range(TRIES):
        start = time.monotonic()
        problem = ""
        try:
            check()
        except (BayplanError, OSError) as found:
            problem = str(found) or type(found).__name__
        took = time.monotonic() - start
        if problem or took <= SLOW_SECONDS:
            return Finding(name, problem, took)
    late = f"right, but it took {took:.1f}s; a pod waits for it in every cycle"
    return Finding(name, late, took)


def _ask_twice(ask: Callable[[str, bytes], Answer], path: str, *, names: bool) -> None:
    """Ask about some pods, and again the other way round: what was asked before must not matter."""
    nodes = [f"check-{n}" for n in range(3)]
    bodies = [_args(_pod(f"bayplan-check-{n}"), nodes, names=names) for n in range(3)]
    first = {body: _ok(ask(path, body)) for body in bodies}
    for body in reversed(bodies):
        if msgspec.json.decode(_ok(ask(path, body))) != msgspec.json.decode(first[body]):
            raise CheckError(
                "the answer about a pod changes with what was asked before, although the header "
                "Bayplan-Ahead promises that nothing is kept between calls"
            )


def reach(url: str, timeout: float = 10.0) -> None:
    """Connect once, so that a wrong address is one problem and not one for each call."""
    found = urllib.parse.urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise CheckError(f'extender "{url}": want a URL, for example http://127.0.0.1:8888')
    try:
        port = found.port or (443 if found.scheme == "https" else 80)
        socket.create_connection((found.hostname, port), timeout).close()
    except (OSError, ValueError) as cause:
        why = reason(cause) if isinstance(cause, OSError) else cause
        raise CheckError(f'reaching extender "{url}": {why}; is it running?') from cause


def post(url: str, body: bytes, token: str, timeout: float) -> Answer:
    """Send a body and return the answer, whatever its status."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            promise = answer.headers.get(wire.AHEAD_LOW.decode(), "")
            return Answer(answer.status, answer.read(), promise.encode() == wire.AHEAD_YES)
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.read())
