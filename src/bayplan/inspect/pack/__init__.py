"""How few nodes would do, with a proof; whether pending pods could be placed; the moves."""

from bayplan.inspect.pack.answer import Packing
from bayplan.inspect.pack.ask import Wishes, pack

__all__ = ["Packing", "Wishes", "pack"]
