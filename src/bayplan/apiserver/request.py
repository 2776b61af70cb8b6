"""One request, taken apart: what is asked of which resource, by whom, in which form.

`parse_path` knows Kubernetes' URL scheme and nothing else; it reads the registry of kinds only to
tell a resource from a subresource. The body stays bytes until a verb decodes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from bayplan.api.labels import parse_int64
from bayplan.api.remembered import remembered
from bayplan.api.user import ANONYMOUS, User
from bayplan.apiserver.errors import bad_request, invalid
from bayplan.apiserver.kinds import Kind
from bayplan.apiserver.negotiate import Output
from bayplan.apiserver.validation.causes import Cause, not_supported, quote

if TYPE_CHECKING:
    from bayplan.apiserver.fairness.seats import Seats


class Target(NamedTuple):
    """What a path names below a group version. An empty name means the collection."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str
    subresource: str
    watch: bool = False  # the old /watch/ prefix
    longer: bool = False  # something follows the subresource, whose permission is the one needed


@remembered(8192)
def parse_path(path: str) -> Target | None:
    """Take a resource path apart; None when it is not one."""
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis" and parts[2]:
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if rest and rest[-1] == "":
        rest = rest[:-1]
    watch = bool(rest) and rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    if not rest or not all(rest):
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    longer = len(rest) > 3
    return Target(group, version, namespace, resource, name, subresource, watch, longer)


@remembered(4096)
def parse_query(query: bytes) -> dict[str, str]:
    """Return the first value of each query parameter."""
    found: dict[str, str] = {}
    for key, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        found.setdefault(key, value)
    return found


NO_QUERY: dict[str, str] = {}


class Request:
    """A request to a resource, as the verbs see it."""

    __slots__ = (
        "body",
        "content_type",
        "copies",
        "in_turn",
        "kind",
        "large",
        "name",
        "namespace",
        "output",
        "parsed",
        "pretty",
        "query",
        "stored",
        "subresource",
        "user",
        "user_agent",
        "verb",
        "warnings",
    )

    def __init__(
        self,
        verb: str,
        kind: Kind,
        namespace: str,
        name: str,
        subresource: str,
        *,
        query: dict[str, str] = NO_QUERY,
        body: bytes = b"",
        content_type: str | None = None,
        user: User = ANONYMOUS,
        user_agent: str = "",
        output: Output = Output(),  # noqa: B008 - an immutable value
    ) -> None:
        self.verb = verb
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.subresource = subresource
        self.query = query
        self.stored = 0  # bytes of the object that it changes
        self.copies = 0  # that a patch makes; each may double it
        self.large: Seats | None = None  # of requests that work on large objects
        self.in_turn = False  # holds one of those
        self.body = body
        self.parsed: object = None  # what a body holds that was read beside the event loop
        self.content_type = content_type
        self.user = user
        self.user_agent = user_agent
        self.output = output
        self.pretty = False
        self.warnings: list[str] = []

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be written. Raises a 400 for any value but All."""
        value = self.query.get("dryRun")
        if not value:
            return False
        if value != "All":
            raise _bad_option(self._options_kind, not_supported("dryRun", [value], ["All"]))
        return True

    @property
    def _options_kind(self) -> str:
        return {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}.get(
            self.verb, "DeleteOptions"
        )

    @property
    def field_validation(self) -> str:
        """Return Strict, Warn or Ignore; Warn when nothing is said. Raises a 422."""
        value = self.query.get("fieldValidation") or "Warn"
        if value not in ("Strict", "Warn", "Ignore"):
            raise _bad_option(
                self._options_kind,
                not_supported("fieldValidation", value, ["", "Ignore", "Strict", "Warn"]),
            )
        return value

    @property
    def field_manager(self) -> str:
        """Return who the written fields are put down to: the parameter, or the user agent."""
        given = self.query.get("fieldManager", "")
        if len(given) > 128:
            raise _bad_option(
                self._options_kind,
                Cause(
                    "FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes"
                ),
            )
        if not given.isprintable():
            place = next(i for i, char in enumerate(given) if not char.isprintable())
            code, at = f"U+{ord(given[place]):04X}", len(given[:place].encode())
            detail = f"Invalid value: {quote(given)}: invalid character {code} (at position {at})"
            raise _bad_option(
                self._options_kind, Cause("FieldValueInvalid", "fieldManager", detail)
            )
        return given or self.user_agent.partition("/")[0] or "unknown"


def _bad_option(kind: str, cause: Cause) -> Exception:
    return invalid("meta.k8s.io", kind, "", [cause])


def flag(query: dict[str, str], name: str) -> bool:
    """Read a boolean parameter as upstream does: all but `0` and `false` is true."""
    value = query.get(name)
    return value is not None and value.lower() not in ("0", "false")


def number(query: dict[str, str], name: str) -> int | None:
    """Read an integer parameter. Raises a 400."""
    value = query.get(name)
    if value is None:
        return None
    found = parse_int64(value)
    if found is None:
        digits = value.removeprefix("-").removeprefix("+")
        what = "value out of range" if digits.isascii() and digits.isdigit() else "invalid syntax"
        raise bad_request(f'strconv.ParseInt: parsing "{value}": {what}')
    return found
