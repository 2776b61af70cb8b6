"""Durations as Go writes them: `1h30m`, `15s`, `1.5ms`.

A duration is a whole number of nanoseconds, as in Go, so that reading and writing one loses
nothing.
"""

import re

import msgspec

from bayplan.errors import DecodeError

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)")
_MOST_DIGITS = 19  # of 64 bits; Go refuses longer numbers and ignores further decimals
_LIMIT = 1 << 63


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time in whole nanoseconds."""

    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        return format_duration(self.nanoseconds)


def seconds(number: float) -> Duration:
    """A duration of so many seconds."""
    return Duration(round(number * 1e9))


def parse_duration(text: str) -> Duration:
    """Read Go's duration syntax; raise DecodeError in Go's words."""
    return Duration(parse_nanoseconds(text))


def parse_nanoseconds(text: str) -> int:
    """Read Go's duration syntax; raise DecodeError in Go's words."""
    sign, body = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if body == "0":
        return 0
    total, at = 0 if body else _LIMIT + 1, 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            raise DecodeError(_complaint(text, body[at:]))
        whole, _, fraction = part[1].partition(".")
        unit, fraction = _UNITS[part[2]], fraction[:_MOST_DIGITS]
        if len(whole.lstrip("0")) > _MOST_DIGITS:
            total = _LIMIT + 1
            break
        total += int(whole or 0) * unit
        total += int(fraction or 0) * unit // 10 ** len(fraction)
        at = part.end()
    if total > _LIMIT - (sign != "-"):
        raise DecodeError(f'time: invalid duration "{text}"')
    return -total if sign == "-" else total


def _complaint(text: str, rest: str) -> str:
    number = re.match(_NUMBER, rest)
    if number is None:
        return f'time: invalid duration "{text}"'
    unit = re.match(r"[^0-9.]*", rest[number.end() :])
    if unit is None or not unit[0]:
        return f'time: missing unit in duration "{text}"'
    return f'time: unknown unit "{unit[0]}" in duration "{text}"'


def format_duration(nanoseconds: int) -> str:
    """Write a number of nanoseconds as Go does: `15m0s`, `1.5s`, `0s`."""
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    if left < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if left >= size:
                return f"{sign}{_decimal(left, size)}{unit}"
    hours, left = divmod(left, _UNITS["h"])
    minutes, left = divmod(left, _UNITS["m"])
    text = f"{_decimal(left, _UNITS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _decimal(number: int, size: int) -> str:
    whole, rest = divmod(number, size)
    digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)
