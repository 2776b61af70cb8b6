"""Reads the tag out of an image reference, to choose the default pull policy.

The grammar is that of container image references: `[domain/]path[:tag][@digest]`, path in lower
case. A reference that does not parse has no tag, and then the policy is IfNotPresent.
"""

from __future__ import annotations

import re

from bayplan.api.remembered import remembered

_DOMAIN_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@remembered(8192)
def default_pull_policy(image: str) -> str:
    """Return `Always` for the tag latest (given or implied), else `IfNotPresent`."""
    match = None if _IDENTIFIER.fullmatch(image) else _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag, digest = match["tag"], match["digest"]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"
