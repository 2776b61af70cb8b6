"""Virtual time: an event loop whose clock moves only when nothing else is left to do."""

from bayplan.clock.virtual import VirtualLoop, rest, run_virtual

__all__ = ["VirtualLoop", "rest", "run_virtual"]
