"""Checks the schedule of a CronJob: five fields, or a name such as `@daily`.

Only whether a schedule can be read is decided here, not when it is due.
"""

from __future__ import annotations

import re

from bayplan.api.labels import parse_int64

_NAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_DURATION = re.compile(r"([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+")
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: i + 1 for i, name in enumerate(_MONTHS)}),
    ("day of week", 0, 6, {name: i for i, name in enumerate(_DAYS)}),
)


def cron_problem(schedule: str) -> str | None:
    """Return why a schedule cannot be read, or None."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        return _descriptor_problem(text)
    fields = text.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (_, low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            problem = _part_problem(part, low, high, names)
            if problem:
                return problem
    return None


def _descriptor_problem(text: str) -> str | None:
    if text in _NAMES:
        return None
    if text.startswith("@every ") and _DURATION.fullmatch(text.removeprefix("@every ")):
        return None
    return f"unrecognized descriptor: {text}"


def _atoi(text: str) -> int | None:
    return parse_int64(text) if text[:1] not in ("+", "-") else None


def _part_problem(part: str, low: int, high: int, names: dict[str, int]) -> str | None:
    span, slash, step = part.partition("/")
    if slash and (_atoi(step) is None or "/" in step):
        return f'failed to parse int from {step}: strconv.Atoi: parsing "{step}": invalid syntax'
    if slash and _atoi(step) == 0:
        return f"step of range should be a positive number: {part}"
    if span in ("*", "?"):
        return None
    first, dash, last = span.partition("-")
    numbers = []
    for text in (first, last) if dash else (first,):
        number = names.get(text.lower(), _atoi(text))
        if number is None:
            return (
                f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
            )
        numbers.append(number)
    start, end = numbers[0], numbers[-1]
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return None
