"""Timestamps and durations: how they are read, written and asked, as Go does."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from bayplan.api.duration import parse_nanoseconds
from bayplan.cel.errors import EvaluationError
from bayplan.cel.values import Duration, Timestamp
from bayplan.errors import DecodeError

SECOND = 1_000_000_000
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_SECONDS, MAX_SECONDS = -62135596800, 253402300799


def parse_duration(text: str) -> Duration:
    """Read `1h30m`; raises EvaluationError."""
    try:
        return Duration(parse_nanoseconds(text))
    except DecodeError as problem:
        raise EvaluationError(str(problem)) from None


def checked(nanos: int) -> Duration:
    if not -(2**63) <= nanos < 2**63:
        raise EvaluationError("integer overflow")
    return Duration(nanos)


def checked_time(nanos: int) -> Timestamp:
    if not MIN_SECONDS * SECOND <= nanos <= MAX_SECONDS * SECOND + SECOND - 1:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Read RFC 3339; raises EvaluationError."""
    match = _RFC3339.fullmatch(text)
    problem = f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"'
    if match is None:
        raise EvaluationError(f'{problem} as "2006"')
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        when = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise EvaluationError(f'parsing time "{text}": day out of range') from None
    nanos = int((match[7] or "").ljust(9, "0")[:9] or 0)
    shift = 0
    if match[8] != "Z":
        shift = int(match[8][1:3]) * 3600 + int(match[8][4:6]) * 60
        shift = -shift if match[8][0] == "-" else shift
    return Timestamp((seconds_of(when) - shift) * SECOND + nanos)


def seconds_of(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(seconds=1)


def in_zone(when: Timestamp, zone: str = "UTC") -> datetime:
    seconds, nanos = divmod(when.nanos, SECOND)
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.astimezone(_zone(zone))


def _zone(name: str) -> tzinfo:
    if ":" not in name:
        try:
            return ZoneInfo(name or "UTC")
        except (OSError, ValueError, KeyError):
            raise EvaluationError(f"unknown time zone {name}") from None
    hours, _, minutes = name.partition(":")
    try:
        sign = -1 if hours.startswith("-") else 1
        return timezone(timedelta(minutes=int(hours) * 60 + sign * int(minutes)))
    except (ValueError, OverflowError):
        raise EvaluationError(f"unknown time zone {name}") from None


def show_timestamp(when: Timestamp) -> str:
    seconds, nanos = divmod(when.nanos, SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + fraction + "Z"


def show_duration(given: Duration) -> str:
    text = repr(given.nanos / SECOND)
    if "e" in text:
        text = f"{given.nanos / SECOND:.20f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".") + "s"
