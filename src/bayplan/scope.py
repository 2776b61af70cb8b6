"""What the edge adds to an ASGI scope, for applications that need not load the edge itself."""

from __future__ import annotations

from collections.abc import Callable

PEER = "bayplan.peer"  # the key of a client's verified certificate, in DER
STRAIGHT = "bayplan.straight"  # and of `edge.straight`
LOST = "bayplan.lost"  # and of `edge.lost`
AT_ONCE = "bayplan.at-once"  # and of `edge.at_once`
PIECE = 64 * 1024  # bytes that are sent at once

Headers = list[tuple[bytes, bytes]]
AtOnce = Callable[[object, int, Headers, bytes], bool]
