"""PodTopologySpread: keeps pods of a kind evenly spread over zones, nodes or other domains."""

from bayplan.plugins.pod_topology_spread.plugin import NAME, PodTopologySpread, new

__all__ = ["NAME", "PodTopologySpread", "new"]
