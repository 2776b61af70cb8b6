"""The page of the global scheduler: its files; all that it shows comes from the API.

The modules are those of a cluster's page (map, tables, colours), begun by `sites_app.js`. They hold
nothing of anybody, so they are served without a token; the API asks for it. The policy lets the
page load only what comes from here and run no inline script.
"""

from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC = Path(str(files("bayplan") / "page" / "static"))
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bayplan</title>
<link rel="icon" href="static/icon.svg">
<link rel="stylesheet" href="static/style.css">
<script type="module" src="static/sites_app.js"></script>
</head>
<body><noscript>This page draws with JavaScript; please allow it for this address.</noscript></body>
</html>
"""


def routes() -> list[Route]:
    """Return the page and its files."""
    return [Route("/", _index), Route("/static/{name}", _static)]


async def _index(request: Request) -> Response:
    return Response(INDEX, media_type="text/html; charset=utf-8", headers=HEADERS)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    path = FILES.get(name)
    if path is None:
        return Response("no such file\n", 404)
    return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers=HEADERS)
