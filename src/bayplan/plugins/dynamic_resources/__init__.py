"""Devices for pods by structured parameters; see `plugin` for the extension points.

What is supported and what is left out is told in docs/reference/dynamic-resources.md.
"""

from bayplan.plugins.dynamic_resources.plugin import NAME, DynamicResources, new

__all__ = ["NAME", "DynamicResources", "new"]
