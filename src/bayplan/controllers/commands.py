"""What a simulated container does, as far as its command tells: how long it runs, how it ends.

No shell is run. A command made only of `sleep N`, `exit N`, `true`, `false` and `echo` (also behind
`sh -c`, joined by `;` or `&&`) is understood; anything else is not guessed at.
"""

from __future__ import annotations

import re
import shlex

from bayplan.controllers.objects import Json

FOREVER = float("inf")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


def outcome(container: Json) -> tuple[float, int] | None:
    """Return for how many seconds a container runs and its exit code; None if that is not clear."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if not words:
        return None
    if words[0] in _SHELLS and len(words) == 3 and words[1] in ("-c", "-ec", "-xc"):
        return _script(words[2])
    return _step(words)


def _script(text: str) -> tuple[float, int] | None:
    seconds, code = 0.0, 0
    for part in re.split(r"(;|&&|\n)", text):
        if part == "&&" and code:
            return seconds, code
        if part.strip() in ("", ";", "&&"):
            continue
        try:
            words = shlex.split(part)
        except ValueError:
            return None
        step = _step(words)
        if step is None:
            return None
        seconds, code = seconds + step[0], step[1]
        if words[0] == "exit":
            return seconds, code
    return seconds, code


def _step(words: list[str]) -> tuple[float, int] | None:
    program = words[0].rpartition("/")[2]
    if program == "sleep" and len(words) == 2:
        if words[1] in ("inf", "infinity"):
            return FOREVER, 0
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", words[1])
        return (float(found[1]) * _UNITS[found[2]], 0) if found else None
    if program == "exit" and len(words) <= 2:
        return (0.0, int(words[1]) if len(words) == 2 and words[1].isdigit() else 0)
    if program in ("true", "false"):
        return 0.0, int(program == "false")
    if program == "echo" and not any(mark in word for word in words for mark in "$`|><"):
        return 0.0, 0
    return None
