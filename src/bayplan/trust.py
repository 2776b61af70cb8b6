"""Whom a client of TLS trusts: the given certificates, as Go does.

OpenSSL by itself trusts only authorities that signed themselves; Go trusts whatever it is given,
also the server's own certificate. envtest gives webhooks just that as their `caBundle`. A name is
looked for in a certificate's alternative names alone, not in the common name of its subject.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")
_END = "-----END "


def trusting(*, text: str | None = None, file: Path | str | None = None) -> ssl.SSLContext:
    """Return a context that trusts these certificates (PEM); without any, the system's."""
    context = ssl.create_default_context(cafile=file, cadata=text)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    return context


def pem_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the type and the inside of each block; the text is read once, however it is made."""
    over, end = 0, 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < over:
            continue
        if end < begin.end():
            end = text.find(_END, begin.end())
        if end < 0:
            return
        if text.startswith(f"{begin[1]}-----", end + len(_END)):
            yield begin[1], text[begin.end() : end].strip()
            over = end
