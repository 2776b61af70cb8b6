"""Parts of JSON bodies from short texts: selectors and node selector terms.

The texts are those of `labelSelector=` queries: `app=web, tier in (a, b), !old, gen>3`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.labels import parse_selector

Body = dict[str, Any]


def expressions(text: str) -> list[Body]:
    """Return requirements in wire form."""
    return [
        {"key": r.key, "operator": r.operator} | ({"values": list(r.values)} if r.values else {})
        for r in parse_selector(text).requirements
    ]


def label_selector(text: str) -> Body:
    """Return a label selector in wire form; an empty text selects everything."""
    found = expressions(text)
    return {"matchExpressions": found} if found else {}


def node_term(requirements: Iterable[str], fields: Iterable[str]) -> Body:
    """Return a node selector term in wire form."""
    term: Body = {}
    if labels := [item for text in requirements for item in expressions(text)]:
        term["matchExpressions"] = labels
    if found := [item for text in fields for item in expressions(text)]:
        term["matchFields"] = found
    return term
