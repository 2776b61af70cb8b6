"""Asks a running global scheduler, for the command line."""

import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec

from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler.why import Why

TIMEOUT = 30.0


class _Answer(msgspec.Struct):
    explain: Why | None = None
    error_message: str = ""


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
        raise BayplanError(answer.error_message or f"{server} gave no explanation")
    return answer.explain


def _fetch(url: str, body: bytes | None, token: str) -> _Answer:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--server must be an http or https URL, got {url}")
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            raw = answer.read()
    except urllib.error.HTTPError as refused:
        raw = refused.read()
    except (urllib.error.URLError, OSError) as cause:
        reason = getattr(cause, "reason", cause)
        raise BayplanError(
            f"cannot reach {url.partition('/v1/')[0]}: {reason}; is `bayplan global serve` running "
            "there? --server names another"
        ) from cause
    try:
        return msgspec.json.decode(raw, type=_Answer)
    except msgspec.DecodeError as cause:
        raise BayplanError(f"{url.partition('/v1/')[0]} is not a global scheduler") from cause
