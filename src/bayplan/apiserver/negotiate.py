"""Which form a client sends and which it accepts.

`accept` turns an Accept header into an `Output`: JSON, YAML or protobuf, and whether objects are
shown whole, as a Table or as metadata only. Headers repeat endlessly, so results are cached by
header. Protobuf is for built-in kinds and metadata, never for tables. CBOR is never answered:
clients that ask for it also accept JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.api.remembered import remembered
from bayplan.apiserver.errors import (
    not_acceptable,
    unrouted_accept,
    unrouted_media,
    unsupported_media,
)

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
BODIES = (JSON, YAML, PROTOBUF)
STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

WHOLE, TABLE, PARTIAL, PARTIAL_LIST = (
    "",
    "Table",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
)
DISCOVERY = "APIGroupDiscoveryList"


class Output(NamedTuple):
    """The negotiated answer: `media` is JSON, YAML or protobuf, `form` how objects are shown."""

    media: str = JSON
    form: str = WHOLE
    version: str = ""
    group: str = ""

    @property
    def content_type(self) -> bytes:
        return self.media.encode()


_DEFAULT = Output()


def _clauses(header: str) -> list[tuple[float, int, str, dict[str, str]]]:
    """Split an Accept header into (-quality, position, media type, parameters), best first."""
    found = []
    for position, part in enumerate(header.split(",")):
        media, *rest = (piece.strip() for piece in part.split(";"))
        parameters = {
            name.strip().lower(): value.strip().strip('"')
            for name, _, value in (piece.partition("=") for piece in rest)
        }
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if media:
            found.append((-quality, position, media.lower(), parameters))
    found.sort(key=lambda clause: clause[:2])
    return found


_FORMS = {
    TABLE: ("meta.k8s.io", ("v1", "v1beta1")),
    PARTIAL: ("meta.k8s.io", ("v1", "v1beta1")),
    PARTIAL_LIST: ("meta.k8s.io", ("v1", "v1beta1")),
}


_MEDIA = {JSON: JSON, "*/*": JSON, YAML: YAML, PROTOBUF: PROTOBUF}


@remembered(512)
def _negotiate(header: str, forms: bool, aggregated: bool, binary: bool) -> Output | None:
    for _, _, media, parameters in _clauses(header):
        wanted = parameters.get("as", "")
        chosen = _MEDIA.get(media, "")
        if not chosen or (chosen == PROTOBUF and (wanted == TABLE or not (binary or wanted))):
            continue
        if not wanted:
            return Output(chosen)
        version, group = parameters.get("v", ""), parameters.get("g", "")
        if (
            aggregated
            and wanted == DISCOVERY
            and group == "apidiscovery.k8s.io"
            and version == "v2"
        ):
            return Output(chosen, wanted, version, group)
        known = _FORMS.get(wanted)
        if forms and known and group == known[0] and version in known[1]:
            return Output(chosen, wanted, version, group)
    return None


def error_media(header: str | None) -> str:
    """Return the media type of an error: what was asked for, JSON for everyone else."""
    if not header or header in (JSON, "*/*"):
        return JSON
    found = _negotiate(header, False, False, True)
    return found.media if found else JSON


def accept(
    header: str | None,
    *,
    forms: bool = True,
    aggregated: bool = False,
    binary: bool = False,
    route: Sequence[str] = (),
) -> Output:
    """Choose how to answer. Raises a 406.

    `forms` allows Table and metadata only, `binary` whole objects in protobuf. `route` is what
    the real server's route of a built-in kind offers, which refuses first.
    """
    if not header or header in (JSON, "*/*"):
        return _DEFAULT
    found = _negotiate(header, forms, aggregated, binary)
    if found is None:
        if route and not any(media in _MEDIA for _, _, media, _ in _clauses(header)):
            raise unrouted_accept(route)
        raise not_acceptable(BODIES)
    return found


@remembered(256)
def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def body_type(header: str | None) -> str:
    """Return the media type of an object in a body; JSON when nothing is said. Raises a 415."""
    if not header:
        return JSON
    media = _media_type(header)
    if media not in BODIES:
        raise unsupported_media(list(BODIES))
    return media


def patch_type(header: str | None, *, strategic: bool) -> str:
    """Return the media type of a patch. Raises a 415, also for strategic where it cannot be.

    Only custom kinds have no strategic one.
    """
    media = _media_type(header or "")
    allowed = [p for p in PATCHES if strategic or p != STRATEGIC_PATCH]
    if media not in allowed:
        raise unrouted_media() if strategic else unsupported_media(allowed)
    return media
