"""Reads the Markdown pages: code blocks with their marks, links, and the commands they show.

A block's info string may carry marks after the language: `file=NAME` writes the block to a file,
`tested` runs its `$ ` lines, or the block if it is Python. Both work in one directory a page, in
the order of the page; `reason=…` tells why a session is not run.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WALKED = (
    "docs/tutorial/first-cluster.md",
    "docs/how-to/write-an-extender.md",
    "docs/how-to/place-stacks.md",
    "docs/how-to/etcd.md",
    "docs/reference/dynamic-resources.md",
)
"""Pages that are typed into a shell from their first line to their last."""
FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
STARTS = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*bayplan (.*)$")
BRACKETS = str.maketrans("", "", "[]")  # around what may be left out


class Block(NamedTuple):
    """A piece of code in a page."""

    language: str
    marks: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def file(self) -> str:
        return next((mark[5:] for mark in self.marks if mark.startswith("file=")), "")

    @property
    def exits(self) -> int:
        return next((int(mark[6:]) for mark in self.marks if mark.startswith("exits=")), 0)


def pages() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    return found + sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "deploy" / "README.md"]


def blocks(page: Path) -> list[Block]:
    """Fenced blocks, and indented ones as blocks without language."""
    found: list[Block] = []
    info: str | None = None
    lines: list[str] = []
    for line in page.read_text().splitlines():
        fence = FENCE.match(line)
        if fence and info is None:
            info, lines = fence.group(1), []
        elif fence:
            words = (info or "").split()
            found.append(Block(words[0] if words else "", tuple(words[1:]), tuple(lines)))
            info = None
        elif info is not None:
            lines.append(line)
        elif line.startswith("    "):
            found.append(Block("", (), (line.strip(),)))
    return found


def links(page: Path) -> Iterator[str]:
    """The targets of links, without those in code."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    return (match.group(1) for match in LINK.finditer(text))


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `bayplan` of every command line in the page's blocks and code spans."""
    spans = re.findall(r"`(bayplan [^`\n]+)`", page.read_text())
    lines = [line for block in blocks(page) for line in block.lines if block.language != "python"]
    for line in [*spans, *lines]:
        for part in re.split(r" && | \|\| |; | \| ", line.strip()):
            if match := STARTS.search(part):
                yield shlex.split(match.group(1).translate(BRACKETS), comments=True)


def anchors(page: Path) -> set[str]:
    """The anchors that headings make, as GitHub names them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}
