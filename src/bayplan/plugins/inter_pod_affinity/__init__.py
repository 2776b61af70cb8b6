"""InterPodAffinity: places pods near to or far from other pods."""

from bayplan.plugins.inter_pod_affinity.plugin import NAME, InterPodAffinity, new

__all__ = ["NAME", "InterPodAffinity", "new"]
