"""Asks a running global scheduler, for the command line."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bayplan.errors import BayplanError, ConfigError, reason
from bayplan.global_scheduler.draining import Drained
from bayplan.global_scheduler.fields import Json
from bayplan.global_scheduler.rebalance import Plan
from bayplan.global_scheduler.stranded import Stranded
from bayplan.global_scheduler.whatif import Answer
from bayplan.global_scheduler.why import Why

TIMEOUT = 30.0


class _Answer(msgspec.Struct):
    explain: Why | None = None
    stranded: list[Stranded] | None = None
    whatif: Answer | None = None
    drain: Drained | None = None
    plan: Plan | None = None
    moves: list[dict[str, str]] | None = None
    error_message: str = ""


def ask_stranded(server: str, token: str = "") -> list[Stranded]:
    """What is stranded on the hosts of all sites."""
    answer = _fetch(f"{server.rstrip('/')}/v1/stranded", None, token)
    if answer.stranded is None:
        raise _none(server, answer)
    return answer.stranded


def ask_what_if(
    server: str, lose: Sequence[str], add: Sequence[Path], place: Sequence[Path], token: str = ""
) -> Answer:
    """What would become of all allocations."""
    more: dict[str, list[Json]] = {}
    for path in add:
        for key, entries in _object(path).items():
            more.setdefault(key, []).extend(entries if isinstance(entries, list) else [entries])
    question = {"lose": list(lose), "add": more, "place": [_object(path) for path in place]}
    body = msgspec.json.encode(question)
    answer = _fetch(f"{server.rstrip('/')}/v1/whatif", body, token)
    if answer.whatif is None:
        raise _none(server, answer)
    return answer.whatif


def _object(path: Path) -> dict[str, Json]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise ConfigError(f"{path}: {cause}") from cause


def ask_drain(server: str, site: str, token: str = "", *, undo: bool = False) -> Drained | None:
    """Drain a site, or take it up again."""
    url = f"{server.rstrip('/')}/v1/sites/{urllib.parse.quote(site, safe='')}/drain"
    answer = _fetch(url, None, token, "DELETE" if undo else "POST")
    if answer.error_message or (answer.drain is None and not undo):
        raise _none(server, answer)
    return answer.drain


def ask_rebalance(server: str, moves: int, token: str = "", *, apply: bool = False) -> Plan:
    """A plan of moves; carried out on request, and then without those that failed."""
    url = f"{server.rstrip('/')}/v1/rebalance"
    answer = _fetch(f"{url}?moves={moves}", None, token)
    if answer.plan is None:
        raise _none(server, answer)
    if not apply or not answer.plan.moves:
        return answer.plan
    body = msgspec.json.encode({"moves": answer.plan.moves})
    done = _fetch(url, body, token)
    if done.moves is None:
        raise _none(server, done)
    failed = [f"{one['allocation']}: {one['problem']}" for one in done.moves if "problem" in one]
    if failed:
        raise BayplanError(f"{len(failed)} of {len(done.moves)} moves failed: {'; '.join(failed)}")
    return answer.plan


def ask_why(server: str, what: str, token: str = "") -> Why:
    """Why a request (a file) would fit, or an allocation (an id) is where it is."""
    url = f"{server.rstrip('/')}/v1/allocations"
    path = Path(what)
    body = None
    if path.is_file():
        url, body = f"{url}?dry_run=true&explain=true", path.read_bytes()
    elif path.suffix or "/" in what:
        raise ConfigError(f"{what}: there is no such file")
    else:
        url = f"{url}/{urllib.parse.quote(what)}?explain=true"
    answer = _fetch(url, body, token)
    if answer.explain is None:
        raise _none(server, answer)
    return answer.explain


def _fetch(url: str, body: bytes | None, token: str, method: str | None = None) -> _Answer:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--server must be an http or https URL, got {url}")
    server = url.partition("/v1/")[0]
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            raw = answer.read()
    except urllib.error.HTTPError as refused:
        raw = refused.read() or b"{}"
        if refused.code in (401, 403):
            raise BayplanError(f"{server} refuses the token; --token-file names it") from refused
        if not _decode(server, raw).error_message:
            raise _none(server, _Answer()) from refused
    except http.client.BadStatusLine as cause:
        raise _none(server, _Answer()) from cause
    except (OSError, http.client.HTTPException) as cause:
        inner = getattr(cause, "reason", cause)
        why = reason(inner) if isinstance(inner, OSError) else inner
        raise BayplanError(
            f"cannot reach {server}: {why}; is `bayplan global serve` running there? --server "
            "names another"
        ) from cause
    return _decode(server, raw) if raw else _Answer()


def _decode(server: str, raw: bytes) -> _Answer:
    try:
        return msgspec.json.decode(raw, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise _none(server, _Answer()) from cause


def _none(server: str, answer: _Answer) -> BayplanError:
    """What the scheduler says instead of an answer; another server says nothing of the kind."""
    elsewhere = f"{server} does not answer as a global scheduler; --server names another"
    return BayplanError(answer.error_message or elsewhere)
