"""HTTP extenders, both sides: wire format, the client that calls them, the kit to write one.

An extender's author needs two names:

    from bayplan.extender import Extender, Rejection
"""

from bayplan.extender.answers import Rejection
from bayplan.extender.kit import Extender, NodeLookup
from bayplan.extender.nodes import NodeCache
from bayplan.extender.wire import Victims

__all__ = ["Extender", "NodeCache", "NodeLookup", "Rejection", "Victims"]
