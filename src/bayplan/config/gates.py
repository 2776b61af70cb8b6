"""Feature gates and versions: what Kubernetes 1.36 and 1.37 know, and what is on in each.

kube-scheduler accepts every gate of Kubernetes, so that one `--feature-gates` line serves all
parts of a control plane; so do we. A gate that the engine does not read changes nothing here.
Gates may hang on others (`GangScheduling` needs `GenericWorkload`), and a locked gate cannot be
changed. The table is `gates.txt` beside this module.

What a version does differently without a gate is asked with `gates.since("1.37")`.
"""

import enum
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from bayplan.config.fields import InvalidConfig

RELEASES = {"1.36": "v1.36.4", "1.37": "v1.37.1"}
"""The releases that each version was read from and compared with: what we say we are."""

VERSIONS = tuple(RELEASES)
NEWEST = VERSIONS[-1]

FOLDED = {"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"}
"""Gates that a later version made part of another: still taken there, so that one line of gates
serves both versions; they change nothing of their own."""


class Stage(enum.Enum):
    """How mature a feature is."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Gate(NamedTuple):
    """A feature gate in one version."""

    stage: Stage
    default: bool
    locked: bool
    needs: tuple[str, ...]


@cache
def gates_of(version: str) -> Mapping[str, Gate]:
    """Every gate that a version knows."""
    text = (resources.files(__package__) / "gates.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    column = lines[0].index(version)
    return {line[0]: _gate(line[column]) for line in lines[1:] if line[column] != "-"}


def _gate(text: str) -> Gate:
    spec, _, needs = text.partition(">")
    stage, default, *locked = spec.split(":")
    names = tuple(needs.split(",")) if needs else ()
    return Gate(Stage(stage.upper()), default == "on", bool(locked), names)


class FeatureGates:
    """Which features are on in a version. Immutable once made; ask with `gates["Name"]`."""

    def __init__(self, changes: Mapping[str, bool] | None = None, version: str = NEWEST) -> None:
        """Start from the defaults and apply `changes`; raise InvalidConfig with all problems."""
        self.version = version
        self._gates = gates_of(version)
        self._on = {name: gate.default for name, gate in self._gates.items()}
        self.changed = {
            name: on
            for name, on in (changes or {}).items()
            if name in self._gates or name not in FOLDED
        }
        problems = [text for name in self.changed if (text := self._problem(name))]
        if problems:
            raise InvalidConfig(problems)
        for stage, word in ((Stage.ALPHA, "AllAlpha"), (Stage.BETA, "AllBeta")):
            if word in self.changed:
                self._on |= {
                    name: self.changed[word]
                    for name, gate in self._gates.items()
                    if gate.stage is stage and not gate.locked
                }
        self._on |= {n: v for n, v in self.changed.items() if n in self._gates}
        self._check_needs()

    def _problem(self, name: str) -> str | None:
        if name in ("AllAlpha", "AllBeta"):
            return None
        if name not in self._gates:
            from bayplan.words import did_you_mean

            return f"unrecognized feature gate: {name}{did_you_mean(name, self._gates, 0.6)}"
        gate = self._gates[name]
        if gate.locked and self.changed[name] != gate.default:
            on = str(gate.default).lower()
            value = str(self.changed[name]).lower()
            return f"cannot set feature gate {name} to {value}, feature is locked to {on}"
        return None

    def _check_needs(self) -> None:
        problems = [
            f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            for name, gate in self._gates.items()
            if self._on[name]
            and (missing := [need for need in gate.needs if not self._on.get(need, True)])
        ]
        if problems:
            raise InvalidConfig(problems)

    def __getitem__(self, name: str) -> bool:
        """Whether a feature is on; a name that no version knows is a programmer's error.

        A gate that this version does not know yet, or no more, is off: what was behind it then is
        asked by `since`.
        """
        if name not in self._on:
            if not any(name in gates_of(version) for version in VERSIONS):
                raise KeyError(name)
            return False
        return self._on[name]

    @property
    def release(self) -> str:
        """The release of this version, such as `v1.36.4`."""
        return RELEASES[self.version]

    def since(self, version: str) -> bool:
        """Whether the version is this one or a later one."""
        return VERSIONS.index(self.version) >= VERSIONS.index(version)

    def with_changes(self, changes: Mapping[str, bool]) -> "FeatureGates":
        """These gates of the same version with more changes."""
        return FeatureGates({**self.changed, **changes}, self.version)

    def names(self) -> list[str]:
        """Every known gate, sorted."""
        return sorted(self._gates)

    def locked(self, name: str) -> bool:
        return self._gates[name].locked


def parse_gates(text: str, version: str = NEWEST) -> FeatureGates:
    """Read `--feature-gates A=true,B=false`; a name may be written `kube:A`."""
    changes: dict[str, bool] = {}
    problems = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        name = name.removeprefix("kube:")
        if not equals:
            problems.append(f"missing bool value for feature gate key: {item}")
        elif value in ("1", "t", "T", "TRUE", "true", "True"):
            changes[name] = True
        elif value in ("0", "f", "F", "FALSE", "false", "False"):
            changes[name] = False
        else:
            problems.append(f"invalid value of {name}={value}, expected true or false")
    if problems:
        raise InvalidConfig(problems)
    return FeatureGates(changes, version)


def parse_version(text: str) -> str:
    """Read `--emulated-version 1.36` or `kube=1.36`; nothing is the newest."""
    found = NEWEST
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = item.rpartition("=")[2].removeprefix("v")
        if "=" in item and item.partition("=")[0] != "kube":
            raise InvalidConfig([f'emulated-version "{item}": component not registered; use kube'])
        if found not in VERSIONS:
            raise InvalidConfig(
                [f'emulated-version "{item}": not one of {", ".join(VERSIONS)}, the versions known']
            )
    return found


DEFAULT_GATES = FeatureGates()
