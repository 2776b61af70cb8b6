"""Binds claims to volumes where the pod goes; see `plugin` for the extension points."""

from bayplan.plugins.volume_binding.plugin import NAME, VolumeBinding, new

__all__ = ["NAME", "VolumeBinding", "new"]
