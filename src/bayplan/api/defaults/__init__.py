"""The defaults that the API server writes into an object before it validates and stores it.

`apply_defaults` works on decoded JSON in place and only *adds* what is missing (or replaces what Go
would call the zero value), so it is idempotent. It also brings resource quantities into the
canonical form in which kube-apiserver answers them.

What depends on other objects (priority, default storage class, tolerations) is admission; what
depends on who wrote and on the old object (status, generation) is the strategy in
`bayplan.apiserver.validation`.
"""

from __future__ import annotations

from bayplan.api.defaults.registry import apply_defaults

__all__ = ["apply_defaults"]
