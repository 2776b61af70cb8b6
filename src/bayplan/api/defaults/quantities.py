"""Quantities of resource lists, as the API server keeps them.

Every list of resources is rounded up to milli units when an object is decoded, and written in
canonical form. Texts that are no quantities stay as they are: the schema refuses them before.
"""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.remembered import remembered

_MILLI_NANOS = 10**6


@remembered(16384)
def rounded(value: str | int | float) -> str:
    """Return a quantity in canonical form, rounded up to milli units."""
    try:
        amount = quantity.parse(value)
    except quantity.QuantityError:
        return str(value)
    rest = amount.nanos % _MILLI_NANOS
    if not rest:
        return quantity.canonical(value)
    # Up means away from zero.
    nanos = amount.nanos - rest + (_MILLI_NANOS if amount.nanos > 0 else 0)
    return quantity.format_nanos(nanos, amount.format)


def round_resources(resources: Object) -> None:
    """Round and canonicalise every quantity of a resource list in place."""
    for name, value in resources.items():
        text = rounded(value)
        if text is not value:
            resources[name] = text


def round_lists(holder: Object, *names: str) -> None:
    """Do that for the resource lists in some fields, as far as they are there."""
    for name in names:
        if holder.get(name):
            round_resources(holder[name])


def add(a: str, b: str) -> str:
    """Return the sum of two quantities, in the format of the first."""
    first = quantity.parse(a)
    return quantity.format_nanos(first.nanos + quantity.nanos(b), first.format)


def maximum(a: str, b: str) -> str:
    """Return the larger of two quantities."""
    return b if quantity.compare(a, b) < 0 else a
