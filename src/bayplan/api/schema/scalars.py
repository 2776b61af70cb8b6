"""Canonical text of the scalar types with a form of their own: quantities, times, durations, bytes.

The real API server decodes these into Go values and prints them again, so `1.5Gi` comes back as
`1536Mi`, `0.001` as `1m`, and a time with an offset in UTC. The functions here give the text that
comes back, or raise ValueError with the real server's words. They do no arithmetic for
scheduling.
"""

from __future__ import annotations

import binascii
import re
from datetime import datetime, timedelta

from bayplan.api import quantity
from bayplan.api.remembered import remembered

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def canonical_quantity(text: str) -> str:
    """The form of a quantity that comes back, as Kubernetes prints it."""
    try:
        return quantity.canonical(text)
    except quantity.QuantityError as problem:
        raise ValueError(problem.reason) from problem


@remembered(4096)
def canonical_time(text: str) -> str:
    """RFC 3339 in UTC, without fractions of a second."""
    if len(text) == 20 and text[19] == "Z" and _TIME.fullmatch(text):
        _moment(text, "2006-01-02T15:04:05Z07:00")
        return text
    moment = _moment(text, "2006-01-02T15:04:05Z07:00")
    return f"{moment.isoformat(timespec='seconds')}Z"


def canonical_micro_time(text: str) -> str:
    """RFC 3339 in UTC with exactly six decimals, which are demanded in the input too."""
    layout = "2006-01-02T15:04:05.000000Z07:00"
    match = _TIME.fullmatch(text)
    if match is None or match[7] is None or len(match[7]) != 6:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    moment = _moment(text, layout)
    if len(text) == 27 and text[19] == ".":  # in UTC, so as it is printed
        return text
    return f"{moment.isoformat(timespec='microseconds')}Z"


def _moment(text: str, layout: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), micros
        )
        if zone != "Z":
            hours, minutes = int(zone[1:3]), int(zone[4:])
            if hours > 24 or minutes > 60:
                raise ValueError("time zone offset out of range")
            offset = timedelta(hours=hours, minutes=minutes)
            moment = moment - offset if zone[0] == "+" else moment + offset
    except (ValueError, OverflowError) as error:
        raise ValueError(f'parsing time "{text}": out of range') from error
    return moment


def checked_base64(text: str) -> str:
    """The same text, if it is base64 as Go reads it (line breaks are ignored)."""
    plain = text.replace("\n", "").replace("\r", "")
    try:
        binascii.a2b_base64(plain, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"illegal base64 data at input byte {_where_wrong(text)}") from error
    return plain


def _where_wrong(text: str) -> int:
    """Where Go gives up reading base64: a wrong character, misplaced padding, or an early end."""
    at = 0
    full = [(i, char) for i, char in enumerate(text.encode()) if char not in b"\r\n"]
    for number, (i, char) in enumerate(full):
        place = number % 4
        if char in _BASE64:
            at = i + 1
            continue
        if char != ord("=") or place < 2:
            return i
        rest = full[number + 1 :]
        if place == 2:
            if not rest:
                return len(text.encode())
            if rest[0][1] != ord("="):
                return rest[0][0] - 1
            rest = rest[1:]
        return rest[0][0] if rest else at
    return len(text.encode()) - len(full) % 4
