"""The edge of websockets: what a client may send on one that was taken, and what it must read.

A message is bounded in bytes by uvicorn and in pieces here: empty ones would never end. Who sends
without reading is not read either, until it does; so answers to its pings do not pile up, and it
is gone when its own answers to ours do not come. What is no UTF-8 ends it without a word in a log.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MAX_MESSAGE = 1 << 20
MAX_PIECES = 4096
TOO_BIG, NO_TEXT = 1009, 1007


class EdgeSocket(WebSocketsSansIOProtocol):
    """Uvicorn's websocket protocol with limits."""

    def data_received(self, data: bytes) -> None:
        self.conn.receive_data(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.abort()  # the opening was none, and nobody else would end it
            return
        if self.conn.parser_exc is not None:
            self.handle_parser_exception()
            return
        self.handle_events()
        if len(self.frames) > MAX_PIECES:
            self._refuse(TOO_BIG)
        elif not self.writable.is_set() and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._refuse(NO_TEXT)
                return
        super().send_receive_event_to_app()

    def _refuse(self, code: int) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code)
            self.handle_parser_exception()
