"""What another configuration, plugin file or version would decide differently."""

from bayplan.inspect.diff.answer import Diff
from bayplan.inspect.diff.ask import diff

__all__ = ["Diff", "diff"]
