"""DefaultPreemption: takes less important pods away when nothing fits."""

from bayplan.plugins.default_preemption.plugin import NAME, DefaultPreemption, new

__all__ = ["NAME", "DefaultPreemption", "new"]
