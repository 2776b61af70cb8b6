"""How many more pods fit, of one template or several together, and what ends it."""

from bayplan.inspect.capacity.answer import Capacity
from bayplan.inspect.capacity.ask import capacity

__all__ = ["Capacity", "capacity"]
