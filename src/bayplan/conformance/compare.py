"""Where two decisions differ.

Only what the expected one names is compared. Some things are brought to a common form first: the
recordings of 1.36.4 say `prefilter result` where the real message lists the plugins that narrowed
the nodes; DynamicResources scores 0 for pods without claims and may be left out; victims that are
on their way out already are not deleted again, so the real scheduler's client does not see them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

Body = dict[str, Any]

_NARROWED = re.compile(r"didn't satisfy plugin\(s\) \[[^\]]*\]")
_NARROWED_TEXT = "didn't satisfy plugin(s) prefilter result"
_SILENT = "DynamicResources"


def normalize(expect: Body, leaving: Collection[str] = ()) -> Body:
    """Bring a decision into the form in which two of them are compared.

    `leaving` are the pods, as `namespace/name`, that are being deleted.
    """
    body = dict(expect)
    if body.get("message"):
        body["message"] = _NARROWED.sub(_NARROWED_TEXT, body["message"])
    if body.get("nodes"):
        body["nodes"] = {name: _status(status) for name, status in body["nodes"].items()}
    for part in ("raw", "scores"):
        if (scores := body.get(part)) and not any(scores.get(_SILENT, {}).values()):
            body[part] = {plugin: found for plugin, found in scores.items() if plugin != _SILENT}
    if post := body.get("postFilter"):
        victims = sorted(set(post.get("victims") or ()) - set(leaving))
        body["postFilter"] = {**post, "victims": victims}
    return body


def _status(status: Body) -> Body:
    if status.get("plugin") == "PreFilterResult":
        return {k: v for k, v in status.items() if k != "reasons"}
    return {**status, "reasons": sorted(status["reasons"])} if status.get("reasons") else status


def differences(want: Body, got: Body, leaving: Collection[str] = ()) -> list[str]:
    """Return a line for each place where a decision differs from the expected one.

    Where equally good candidates give several answers, `alternatives` of the expected one holds
    what else is right.
    """
    want, got = dict(want), normalize(got, leaving)
    others = want.pop("alternatives", None) or ()
    found = _lines(normalize(want, leaving), got)
    for other in others:
        if not found:
            break
        found = min(found, _lines(normalize({**want, **other}, leaving), got), key=len)
    return found


def _lines(want: Body, got: Body) -> list[str]:
    return [line for key in want for line in _compare(key, want[key], got.get(key))]


def _compare(path: str, want: Any, got: Any) -> Iterator[str]:
    if want == got:
        return
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted({*want, *got}):
            yield from _compare(f"{path}.{key}", want.get(key), got.get(key))
        return
    yield f"{path}: recorded {_show(want)}, decided {_show(got)}"


def _show(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def leaving(case: Body) -> set[str]:
    """The pods of a case that are being deleted."""
    return {
        f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
        for pod in case["objects"].get("pods") or ()
        if pod["metadata"].get("deletionTimestamp")
    }
