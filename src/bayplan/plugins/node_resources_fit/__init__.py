"""NodeResourcesFit: what a pod asks must be free on the node; scored by one of three strategies."""

from bayplan.plugins.node_resources_fit.fit import NAME, NodeResourcesFit, new

__all__ = ["NAME", "NodeResourcesFit", "new"]
