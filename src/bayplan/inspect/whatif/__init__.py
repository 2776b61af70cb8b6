"""What if: changes to a cluster carried out in the engine, and what follows from them."""

from bayplan.inspect.whatif.answer import WhatIf
from bayplan.inspect.whatif.ask import what_if
from bayplan.inspect.whatif.changes import AnyChange, BadChange, parse_change, parse_changes
from bayplan.inspect.whatif.each import EachAnswer, each

__all__ = [
    "AnyChange",
    "BadChange",
    "EachAnswer",
    "WhatIf",
    "each",
    "parse_change",
    "parse_changes",
    "what_if",
]
