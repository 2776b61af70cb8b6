"""Names for decoded JSON, as the API server handles it.

Objects are plain dictionaries whose types were checked against the schema when they were decoded;
their values are as varied as the API, hence the one `Any` of this package.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
