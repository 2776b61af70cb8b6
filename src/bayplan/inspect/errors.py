"""What can go wrong with a question about a cluster.

BayplanError
└── InspectError         the text says what to change
    ├── SourceError      a kubeconfig, snapshot or dump cannot be read
    ├── AccessError      the API server refuses what no answer can do without
    └── UnknownObject    no such pod, owner or node; near names are given
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.errors import BayplanError
from bayplan.words import did_you_mean


class InspectError(BayplanError):
    """A question cannot be answered."""


class SourceError(InspectError):
    """A kubeconfig, snapshot or dump cannot be read."""


class AccessError(SourceError):
    """The API server refuses what no answer can do without."""


class UnknownObject(InspectError):
    """No such object; the text gives near names."""


GIVE = (
    "give a snapshot (`bayplan snapshot save`), `kubectl get nodes,pods,... -A -o json`, "
    "a cluster-info dump or a must-gather folder"
)
CORRECT = "correct it: `kubectl apply --dry-run=client -f` checks manifests"


def damaged(file: object, problem: object, remedy: str) -> SourceError:
    """A file that cannot be understood: what is wrong with it, and what to do."""
    return SourceError(f'reading "{file}": {problem}; {remedy}')


def unknown(what: str, name: str, known: Iterable[str], where: str = "") -> UnknownObject:
    """An error that names what was asked for and the nearest that exist."""
    hint = did_you_mean(name, known)
    return UnknownObject(f'{what} "{name}" is not in {where or "this cluster"}{hint}')
