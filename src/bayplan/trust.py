"""Whom a client of TLS trusts: the given certificates, as Go does.

OpenSSL by itself trusts only authorities that signed themselves; Go trusts whatever it is given,
also the server's own certificate. envtest gives webhooks just that as their `caBundle`.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def trusting(*, text: str | None = None, file: Path | str | None = None) -> ssl.SSLContext:
    """Return a context that trusts these certificates (PEM); without any, the system's."""
    context = ssl.create_default_context(cafile=file, cadata=text)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
