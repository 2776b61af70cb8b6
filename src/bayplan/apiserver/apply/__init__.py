"""Server-side apply and the managedFields it rests on.

    result, changed = server_side_apply(live, applied, manager="alice", force=False, kind=type_,
    now=text) new = track_update(live, new, manager="kubectl-edit", operation="Update", now=text)

Binding and graceful deletion are not tracked, as in the real API server.
"""

from bayplan.apiserver.apply.refusals import ApplyConflict, ApplyRejected
from bayplan.apiserver.apply.server_side import server_side_apply
from bayplan.apiserver.apply.track import track_update

__all__ = ["ApplyConflict", "ApplyRejected", "server_side_apply", "track_update"]
