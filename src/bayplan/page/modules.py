"""The browser's modules: where they are, which import which, and the page that begins with them.

The page names the modules of the map and the cluster ahead, so that a browser asks for all of them
at once instead of finding one behind the other; views that are opened later bring their own.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
IMPORT = re.compile(r'(?m)(^(?:import|export) [^;]*?from |\bimport\()"\./([a-z_]+\.js)"')
FIRST = ("app.js", "view_map.js")


def needed(names: tuple[str, ...] = FIRST) -> list[str]:
    """Return modules and all that they import from the beginning, in a constant order."""
    found = list(names)
    for name in found:  # grows while it is read
        for how, imported in IMPORT.findall((STATIC / name).read_text()):
            if not how.startswith("import(") and imported not in found:
                found.append(imported)
    return found


def version() -> str:
    """Return what changes with any file of the page."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def index() -> str:
    """Return the page with its version and the modules to load ahead."""
    ahead = "\n".join(
        f'<link rel="modulepreload" href="static/VERSION/{name}">' for name in needed()
    )
    text = (STATIC / "index.html").read_text().replace("<!-- ahead -->", ahead)
    return text.replace("VERSION", version())
