"""What extension points return beside a status, and the work that they hand to the outside as data.

The framework performs no I/O. A plugin that must write to the API server (bind, claim a volume)
returns `Effects`: calls to make, and a condition to wait for. The live scheduler carries them out,
the simulator applies them to its own store, a test just reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from bayplan.api import Pod
from bayplan.framework.contract.status import Status


class PreFilterResult(msgspec.Struct, frozen=True):
    """Narrows the search: None leaves all nodes in, a set only those named."""

    node_names: frozenset[str] | None = None

    def merge(self, other: PreFilterResult) -> PreFilterResult:
        if self.node_names is None:
            return other
        if other.node_names is None:
            return self
        return PreFilterResult(self.node_names & other.node_names)


class NominatingMode(IntEnum):
    """Whether a failed attempt changes the pod's nominated node."""

    NOOP = 0
    OVERRIDE = 1


class NominatingInfo(msgspec.Struct, frozen=True):
    """The node that the pod should be nominated to; `""` with OVERRIDE clears it."""

    nominated_node_name: str = ""
    mode: NominatingMode = NominatingMode.NOOP


CLEAR_NOMINATION = NominatingInfo("", NominatingMode.OVERRIDE)


class Victims(msgspec.Struct, frozen=True):
    """The pods to take away on one node, most important first."""

    pods: tuple[Pod, ...]
    pdb_violations: int = 0


class ApiCall(msgspec.Struct, frozen=True):
    """One request to the API server, as data.

    `verb` is create, update, patch or delete; `resource` the plural with its group, such as `pods`
    or `resourceclaims.resource.k8s.io`; `patch` names the patch type where the verb is patch.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    body: Mapping[str, object] | None = None
    subresource: str = ""
    patch: str = "application/strategic-merge-patch+json"
    ignore_not_found: bool = False


class Effects(msgspec.Struct, frozen=True):
    """Work for the outside: make the calls in order, then wait until `done` answers.

    `done` is asked again whenever a watched object changed, and at least every second. None means
    not yet, a success status ends the wait, any other status fails the binding.
    """

    calls: tuple[ApiCall, ...] = ()
    done: Callable[[], Status | None] | None = None
    timeout_seconds: float = 0.0


class PostFilterResult(msgspec.Struct, frozen=True):
    """What a PostFilter proposes: a nomination, and the pods that must go for it."""

    nominating_info: NominatingInfo | None = None
    victims: Victims | None = None
    effects: Effects | None = None
    plugin: str = ""
    """Who helped; filled in by the framework, as the status of a success names nobody."""


class Unfinished(Exception):
    """Raised by a PostFilter plugin whose time is up (`Handle.late`).

    The attempt then ends without a decision and is made again in the next step. The plugin keeps
    what it has found, as far as it still holds by then.
    """


class PreBindPreFlightResult(msgspec.Struct, frozen=True):
    """Says that a plugin's PreBind will act; plugins that allow it are run together."""

    allow_parallel: bool = False
