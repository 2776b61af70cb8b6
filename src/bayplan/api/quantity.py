"""Exact resource quantities, as Kubernetes writes and rounds them.

A quantity is kept as a whole number of nanos: anything finer is rounded away from zero when it is
parsed, so integers are exact. Sums are made on nanos and rounded once, at the end: two containers
that ask for half a milli each ask for one milli together. `value` and `milli_value` round away
from zero and saturate at the limits of int64 (where the Go code overflows). `canonical` writes a
quantity the way the API server does, which keeps some texts that are not in shortest form.
Parsed texts are cached, because clusters use few distinct ones.
"""

import re
from typing import NamedTuple

from bayplan.api.remembered import remembered
from bayplan.errors import DecodeError

NANO = 10**9
MICRO = 10**6
INT64_MAX = 2**63 - 1

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG = "unable to parse quantity's suffix"
NUMBER_WRONG = "unable to parse numeric part of quantity"

_SHAPE = re.compile(r"([+-]?)0*([0-9]*)(\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}

# The Go parser has a fast path for this many digits; texts that take it may be kept as written.
_FAST_DIGITS = 18
# Exponents beyond this are cut: no resource has 10^400 of anything, and integers stay small.
_EXPONENT_LIMIT = 400
_DIGITS_LIMIT = 3000  # Python does not write numbers of more than 4300


class QuantityError(DecodeError):
    """A text is not a quantity; `reason` is what the API server says about it."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


def _refuse(text: str, reason: str) -> QuantityError:
    return QuantityError(f'parsing quantity "{text}": {reason}', reason)


class Amount(NamedTuple):
    """A parsed quantity: its value in nanos, how it was written, and the text if it is kept."""

    nanos: int
    format: str = DECIMAL_SI
    text: str = ""

    def __str__(self) -> str:
        return self.text or format_nanos(self.nanos, self.format)


@remembered(65536)
def parse(quantity: str | int | float) -> Amount:
    """Parse a quantity; numbers are read as their text."""
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    match = _SHAPE.fullmatch(text)
    if not text or not match:
        raise _refuse(text, FORMAT_WRONG)
    sign, whole, _, fraction, suffix = match.groups(default="")
    exponent, form = _interpret(suffix, text)
    if form == BINARY_SI and exponent > 40 and not any(map(str.isdigit, text)):
        raise _refuse(text, NUMBER_WRONG)
    digits = (whole or "0") + fraction
    if len(digits) > _DIGITS_LIMIT:
        raise _refuse(text, NUMBER_WRONG)
    nanos = _scale(int(digits), len(fraction), exponent, form)
    kept = text if _kept_as_written(whole or "0", fraction, exponent, form) else ""
    if form == BINARY_SI and not kept:
        nanos = min(nanos, INT64_MAX * NANO)
        if 0 < nanos < NANO:
            form = DECIMAL_SI
    return Amount(-nanos if sign == "-" else nanos, form, kept)


def _interpret(suffix: str, text: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], BINARY_SI
    try:
        if suffix[0] not in "eE":
            raise ValueError
        exponent = int(suffix[1:])
    except ValueError as problem:
        raise _refuse(text, SUFFIX_WRONG) from problem
    return max(-_EXPONENT_LIMIT, min(exponent, _EXPONENT_LIMIT)), DECIMAL_EXPONENT


def _scale(digits: int, decimals: int, exponent: int, form: str) -> int:
    """Return nanos, rounded up."""
    if form == BINARY_SI:
        return -(-(digits * NANO << exponent) // int(10**decimals))
    shift = 9 + exponent - decimals
    return digits * int(10**shift) if shift >= 0 else -(-digits // int(10**-shift))


def _kept_as_written(whole: str, fraction: str, exponent: int, form: str) -> bool:
    """Whether the API server keeps the text of this quantity instead of rewriting it."""
    digits = whole + fraction
    if form == BINARY_SI:
        room = 15 - len(whole) - exponent * 3 // 10 - 1
        return not fraction and room >= 0 and int(digits) & 7 != 0
    scale = exponent - len(fraction)
    fits = len(digits) <= _FAST_DIGITS and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def format_nanos(nanos: int, form: str = DECIMAL_SI) -> str:
    """Write a value in canonical form: no fraction, the largest suffix that loses nothing."""
    if nanos == 0:
        return "0"
    if form == BINARY_SI and (abs(nanos) < 1024 * NANO or nanos % NANO):
        form = DECIMAL_SI
    if form == BINARY_SI:
        mantissa, exponent = nanos // NANO, 0
        while mantissa % 1024 == 0 and exponent < 60:
            mantissa, exponent = mantissa // 1024, exponent + 10
        return f"{mantissa}{_BINARY_SUFFIX[exponent]}"
    mantissa, exponent = nanos, -9
    limit = 18 if form == DECIMAL_SI else _EXPONENT_LIMIT
    while mantissa % 1000 == 0 and exponent < limit:
        mantissa, exponent = mantissa // 1000, exponent + 3
    if form == DECIMAL_SI:
        return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)


def canonical(quantity: str | int | float) -> str:
    """Write a quantity the way the API server stores it."""
    return str(parse(quantity))


def nanos(quantity: str | int | float) -> int:
    """Return the exact value in nanos."""
    return parse(quantity).nanos


def whole(value: int) -> int:
    """Round nanos away from zero to units."""
    return _round(value, NANO)


def milli(value: int) -> int:
    """Round nanos away from zero to thousandths."""
    return _round(value, MICRO)


def _round(value: int, unit: int) -> int:
    rounded = -(-value // unit) if value >= 0 else value // unit
    return max(-INT64_MAX, min(rounded, INT64_MAX))


@remembered(65536)
def value(quantity: str | int | float) -> int:
    """Return a quantity in units, rounded away from zero."""
    return whole(parse(quantity).nanos)


@remembered(65536)
def milli_value(quantity: str | int | float) -> int:
    """Return a quantity in thousandths, rounded away from zero."""
    return milli(parse(quantity).nanos)


def compare(a: str | int | float, b: str | int | float) -> int:
    """Return -1, 0 or 1 as a is less than, equal to or greater than b."""
    left, right = parse(a).nanos, parse(b).nanos
    return (left > right) - (left < right)
