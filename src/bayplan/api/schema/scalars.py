"""Canonical text of the scalar types with a form of their own: quantities, times, durations, bytes.

The real API server decodes these into Go values and prints them again, so `1.5Gi` comes back as
`1536Mi`, `0.001` as `1m`, and a time with an offset in UTC. The functions here give the text that
comes back, or raise ValueError with the real server's words. They do no arithmetic for
scheduling.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache

QUANTITY_PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
BAD_QUANTITY = f"quantities must match the regular expression '{QUANTITY_PATTERN}'"
BAD_SUFFIX = "unable to parse quantity's suffix"
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([-+]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_BINARY_NAMES = ["", *_BINARY]
_LARGEST = Decimal(2**63 - 1)
_WIDE = Context(prec=200)  # exact for every quantity that a request can hold

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")


@lru_cache(maxsize=8192)
def canonical_quantity(text: str) -> str:
    """The canonical form of a quantity, as Kubernetes prints it."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        raise ValueError(BAD_QUANTITY)
    sign, whole, fraction, letters, exponent = match.groups()
    value = Decimal(f"{sign}{whole or 0}.{fraction or 0}")
    digits = len((whole + (fraction or "")).strip("0"))
    if letters in _BINARY and not exponent:
        value = _WIDE.multiply(value, Decimal(2 ** _BINARY[letters]))
        return _binary(_rounded(value, 19))
    if letters in _DECIMAL and not exponent:
        return _decimal(_rounded(_WIDE.scaleb(value, _DECIMAL[letters]), digits), exponents=False)
    if letters in ("e", "E") and exponent.lstrip("+-"):
        if abs(int(exponent)) > 100:
            raise ValueError(BAD_SUFFIX)
        return _decimal(_rounded(_WIDE.scaleb(value, int(exponent)), digits), exponents=True)
    raise ValueError(BAD_SUFFIX)


def _rounded(value: Decimal, digits: int) -> Decimal:
    """Round up to nano, and cap what has more digits than the fast path of upstream keeps."""
    if value.as_tuple().exponent < -9:  # type: ignore[operator]  # never infinite or NaN
        value = value.quantize(Decimal("1e-9"), rounding=ROUND_UP, context=_WIDE)
    if digits > 18 and abs(value) > _LARGEST:
        return _LARGEST.copy_sign(value)
    return value


def _decimal(value: Decimal, *, exponents: bool) -> str:
    if value == 0:
        return "0"
    sign, digits, exponent = value.normalize(_WIDE).as_tuple()
    assert isinstance(exponent, int)
    mantissa = int("".join(map(str, digits)))
    power = exponent - exponent % 3
    mantissa *= 10 ** (exponent - power)
    while mantissa % 1000 == 0 and power < (18 if not exponents else 99):
        mantissa //= 1000
        power += 3
    if not exponents and power > 18:
        mantissa, power = mantissa * 10 ** (power - 18), 18
    suffix = (f"e{power}" if power else "") if exponents else _DECIMAL_NAMES[power]
    return f"{'-' if sign else ''}{mantissa}{suffix}"


def _binary(value: Decimal) -> str:
    if -1024 < value < 1024:
        return _decimal(value, exponents=False)
    number = int(value.to_integral_value(rounding=ROUND_UP, context=_WIDE))
    step = 0
    while number % 1024 == 0 and step < 6:
        number //= 1024
        step += 1
    return f"{number}{_BINARY_NAMES[step]}"


@lru_cache(maxsize=4096)
def canonical_time(text: str) -> str:
    """RFC 3339 in UTC, without fractions of a second."""
    if len(text) == 20 and text[19] == "Z" and _TIME.fullmatch(text):
        _moment(text, "2006-01-02T15:04:05Z07:00")
        return text
    moment = _moment(text, "2006-01-02T15:04:05Z07:00")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def canonical_micro_time(text: str) -> str:
    """RFC 3339 in UTC with exactly six decimals, which are demanded in the input too."""
    layout = "2006-01-02T15:04:05.000000Z07:00"
    match = _TIME.fullmatch(text)
    if match is None or match[2] is None or len(match[2]) != 6:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    return _moment(text, layout).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def _moment(text: str, layout: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    try:
        moment = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S")
        if match[3] != "Z":
            hours, minutes = match[3][1:].split(":")
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            moment = moment - offset if match[3][0] == "+" else moment + offset
    except (ValueError, OverflowError) as error:
        raise ValueError(f'parsing time "{text}": out of range') from error
    if match[2]:
        moment = moment.replace(microsecond=int(match[2][:6].ljust(6, "0")))
    return moment.replace(tzinfo=UTC)


def checked_base64(text: str) -> str:
    """The same text, if it is base64 as Go reads it (line breaks are ignored)."""
    plain = text.replace("\n", "").replace("\r", "")
    try:
        binascii.a2b_base64(plain, strict_mode=True)
    except binascii.Error as error:
        raise ValueError("illegal base64 data at input byte 0") from error
    return plain
