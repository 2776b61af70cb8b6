"""The page with its data in one file: opens without a server, loads nothing, changes nothing.

Modules cannot be imported from a file, so each becomes a `data:` address in an import map and
their imports of each other go by name. The data is compressed; the browser unpacks it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json

import msgspec

from bayplan.page import wire
from bayplan.page.board import Board
from bayplan.page.modules import IMPORT, STATIC

START = 'import "bayplan/app.js";'


def report(
    about: wire.Json,
    board: Board,
    *,
    at: str = "",
    histories: dict[str, Board] | None = None,
    answers: dict[str, object] | None = None,
) -> str:
    """Return the page of a board; `at` is the address (`#/…`) that it opens with."""
    still = {**about, "live": False}
    parts = {"cluster": wire.cluster(board, still)}
    for name, found in (histories or {}).items():
        parts[f"history {name}"] = wire.history(found, still)
    parts["answers"] = msgspec.json.encode(answers or {})
    imports = json.dumps({"imports": _modules()})
    first = f"if (!location.hash) location.hash = {_text(at)};" if at.startswith("#/") else ""
    scripts = [first] if first else []
    policy = " ".join(f"'sha256-{_digest(text)}'" for text in (imports, START, *scripts))
    style = (STATIC / "style.css").read_text()
    return _PAGE.format(
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src data: {policy}",
        title=html.escape(str(about.get("name", "bayplan"))),
        style=style,
        imports=imports,
        first="".join(f"<script>{text}</script>\n" for text in scripts),
        data="\n".join(_part(name, body) for name, body in parts.items()),
        start=START,
    )


def _part(name: str, body: bytes) -> str:
    text = base64.b64encode(wire.gzipped(body)).decode()
    return f'<script data-part="{html.escape(name)}" type="application/gzip+base64">{text}</script>'


def _modules() -> dict[str, str]:
    """Return every module as a `data:` address."""
    found = {}
    for path in sorted(STATIC.glob("*.js")):
        text = IMPORT.sub(r'\1"bayplan/\2"', path.read_text())
        body = base64.b64encode(text.encode()).decode()
        found[f"bayplan/{path.name}"] = f"data:text/javascript;base64,{body}"
    return found


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(text: str) -> str:
    """A string that is safe in a script element."""
    return json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e")


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
<script type="importmap">{imports}</script>
{data}
{first}</head>
<body><script type="module">{start}</script>
</body>
</html>
"""
