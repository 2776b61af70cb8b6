"""Watches that last as long as the world does.

Real clients renew their watches every few minutes and are sent bookmarks in between, for the sake
of networks and restarts. In a day of one process that would be most of what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from bayplan.client import StreamResponse, Transport

FOR_EVER = 10**9


class PatientTransport:
    """A transport whose streams have neither time limit nor bookmarks."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.request = inner.request  # passed on as it is

    def stream(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[StreamResponse]:
        path, _, query = target.partition("?")
        words = [
            word
            for word in query.split("&")
            if not word.startswith(("timeoutSeconds=", "allowWatchBookmarks="))
        ]
        lasting = "&".join([*words, f"timeoutSeconds={FOR_EVER}"])
        return self._inner.stream(method, f"{path}?{lasting}", headers)

    async def refresh_credentials(self) -> bool:
        return await self._inner.refresh_credentials()

    async def close(self) -> None:
        await self._inner.close()
