"""A hook of mkdocs: pages are written for readers of the checkout, the site shows them alone.

What a page links outside docs/ (manifests, examples) is named, not linked, and the marks of code
blocks that the documentation's tests read are left out.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

MARKS = re.compile(r"^(```\w+)[ \t]+\S.*$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mkdocs calls this for every page."""
    folder = PurePosixPath(page.file.src_uri).parent

    def named(match: re.Match[str]) -> str:
        words, target = match.groups()
        depth = target.count("../")
        if depth <= len(folder.parts):  # stays inside docs/
            return match.group(0)
        return f"{words} (`{PurePosixPath(*Path(target).parts[depth:])}`)"

    return LINK.sub(named, MARKS.sub(r"\1", markdown))
