"""Reads the scheduler files of Kubernetes 1.22 and older and writes them as a v1 configuration.

Three forms are known: a `Policy` (predicates, priorities, extenders), a ConfigMap with a Policy
under `policy.cfg`, and a componentconfig whose `algorithmSource` names a provider, a Policy file
or a ConfigMap. What has no counterpart any more is left out with a warning; nothing is dropped
silently. A policy only narrows the default profile: plugins it does not name are disabled, except
those for features that are younger than policies (scheduling gates, dynamic resources, declared
features) and the plumbing (queue sort, preemption, binding).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bayplan.api import yaml
from bayplan.api.duration import format_duration
from bayplan.config.fields import show
from bayplan.config.policy_tables import (
    ALIASES,
    FILTERS,
    GONE,
    MANDATORY,
    PREDICATES,
    PRIORITIES,
    SCORERS,
)
from bayplan.config.types import API_VERSION, KIND
from bayplan.errors import ConfigError

_Data = dict[str, Any]
_COMPONENT_VERSIONS = ("componentconfig/v1alpha1", "kubescheduler.config.k8s.io/v1alpha1")
_POLICY_KEY = "policy.cfg"


def is_legacy(document: Mapping[str, Any]) -> bool:
    """Whether a document is one of the old forms."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind in ("Policy", "ConfigMap"):
        return True
    return kind == KIND and version in _COMPONENT_VERSIONS


def convert_legacy(
    document: _Data,
    read_config_map: Callable[[str, str], Mapping[str, str]] | None,
    warnings: list[str],
) -> _Data:
    """Return the data of a v1 file that does what the old one did; add to `warnings`."""
    if document.get("kind") == "ConfigMap":
        document = _from_config_map(document.get("data") or {}, "the ConfigMap")
    if document.get("kind") == "Policy":
        warnings.append(
            "kind Policy was removed in Kubernetes 1.23; it was converted to "
            f"{KIND} {API_VERSION} (bayplan config convert prints it)"
        )
        return _Policy(document, warnings).convert("")
    return _component_config(document, read_config_map, warnings)


def _from_config_map(data: Mapping[str, str], what: str) -> _Data:
    text = data.get(_POLICY_KEY)
    if text is None:
        raise ConfigError(f'{what} has no key "{_POLICY_KEY}" with a Policy in it')
    return _parse_policy(text, f'key "{_POLICY_KEY}" of {what}')


def _parse_policy(text: str | bytes, what: str) -> _Data:
    policy = yaml.load(text)
    if not isinstance(policy, dict):
        raise ConfigError(f"{what} does not hold a Policy object")
    return policy


def _component_config(
    document: _Data,
    read_config_map: Callable[[str, str], Mapping[str, str]] | None,
    warnings: list[str],
) -> _Data:
    version = document["apiVersion"]
    warnings.append(f"{KIND} {version} is no longer served; it was converted to {API_VERSION}")
    source = document.get("algorithmSource") or {}
    policy = _find_policy(source.get("policy") or {}, read_config_map)
    name = document.get("schedulerName") or ""
    if policy is not None:
        result = _Policy(policy, warnings).convert(name)
    else:
        result = {"apiVersion": API_VERSION, "kind": KIND}
        if name:
            result["profiles"] = [{"schedulerName": name}]
        if source.get("provider") not in (None, "", "DefaultProvider"):
            warnings.append(
                f'algorithm provider "{source["provider"]}" no longer exists; '
                "the default plugins are used"
            )
    _copy_component_fields(document, result, warnings)
    return result


def _find_policy(
    source: _Data, read_config_map: Callable[[str, str], Mapping[str, str]] | None
) -> _Data | None:
    if path := (source.get("file") or {}).get("path"):
        try:
            return _parse_policy(Path(path).read_bytes(), f'policy file "{path}"')
        except OSError as problem:
            text = f'reading policy file "{path}" of algorithmSource: {problem.strerror}'
            raise ConfigError(text) from problem
    if ref := source.get("configMap"):
        namespace, name = ref.get("namespace") or "kube-system", ref.get("name") or ""
        if read_config_map is None:
            raise ConfigError(
                f"the policy is in ConfigMap {namespace}/{name}, which needs a cluster; "
                f"save it with kubectl -n {namespace} get configmap {name} -o yaml "
                "and pass that file instead"
            )
        what = f"ConfigMap {namespace}/{name}"
        return _from_config_map(read_config_map(namespace, name), what)
    return None


_COPIED = {
    "clientConnection": ("kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"),
    "leaderElection": (
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceNamespace",
        "resourceName",
    ),
}
_LOCK_NAMES = (
    ("lockObjectName", "resourceName"),
    ("lockObjectNamespace", "resourceNamespace"),
)
_KNOWN = frozenset(
    {"apiVersion", "kind", "schedulerName", "algorithmSource", "hardPodAffinitySymmetricWeight"}
)


def _copy_component_fields(document: _Data, result: _Data, warnings: list[str]) -> None:
    for section, names in _COPIED.items():
        old = document.get(section) or {}
        section_data = {name: old[name] for name in names if old.get(name) not in (None, "")}
        if section_data:
            result[section] = section_data
    locks = document.get("leaderElection") or {}
    for old_name, new in _LOCK_NAMES:
        if locks.get(old_name):
            result.setdefault("leaderElection", {})[new] = locks[old_name]
    for name in ("enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"):
        if document.get(name) is not None:
            result[name] = document[name]
    if document.get("enableProfiling") is None and document.get("enableContentionProfiling"):
        result["enableProfiling"] = True
    weight = document.get("hardPodAffinitySymmetricWeight")
    if weight is not None:
        _set_hard_affinity(result, weight)
    taken = _KNOWN | set(_COPIED) | set(result)
    warnings += [
        f'field "{name}" has no counterpart and was left out'
        for name in sorted(set(document) - taken)
    ]


def _set_hard_affinity(result: _Data, weight: int) -> None:
    profile = result.setdefault("profiles", [{}])[0]
    configs = profile.setdefault("pluginConfig", [])
    if not any(item["name"] == "InterPodAffinity" for item in configs):
        configs.append({"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": weight}})


class _Policy:
    """One policy on its way to a profile."""

    def __init__(self, policy: _Data, warnings: list[str]) -> None:
        self.policy = policy
        self.warnings = warnings
        self.filters: set[str] = set()
        self.scores: dict[str, int] = {}
        self.args: dict[str, _Data] = {}

    def convert(self, scheduler_name: str) -> _Data:
        predicates = self._list("predicates")
        priorities = self._list("priorities")
        if predicates is None:
            self.filters = set(FILTERS)
        else:
            self.filters = set(MANDATORY)
            for i, item in enumerate(predicates):
                self._predicate(item, f"predicates[{i}]")
        if priorities is None:
            self.scores = dict(SCORERS)
        else:
            for i, item in enumerate(priorities):
                self._priority(item, f"priorities[{i}]")
        self._other_fields()
        profile: _Data = {"plugins": self._plugins()}
        if scheduler_name:
            profile["schedulerName"] = scheduler_name
        if self.args:
            profile["pluginConfig"] = [
                {"name": name, "args": args} for name, args in sorted(self.args.items())
            ]
        result = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
        if extenders := self._extenders():
            result["extenders"] = extenders
        return result

    def _list(self, field: str) -> list[Any] | None:
        """The items of a list; None when absent, which means the defaults of old."""
        items = self.policy.get(field)
        if items is not None and not isinstance(items, list):
            raise ConfigError(f"{field}: expected a list, got {show(items)}")
        return items

    def _named(self, item: object, path: str) -> tuple[str, _Data]:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ConfigError(f"{path}: expected an object with a name, got {show(item)}")
        return item["name"], item.get("argument") or {}

    def _predicate(self, item: object, path: str) -> None:
        name, argument = self._named(item, path)
        if presence := argument.get("labelsPresence"):
            operator = "Exists" if presence.get("presence") else "DoesNotExist"
            keys = presence.get("labels") or []
            expressions = [{"key": key, "operator": operator} for key in keys]
            self._require_labels(expressions)
        elif argument.get("serviceAffinity"):
            self._gone(path, name, "serviceAffinity has no counterpart; use podAffinity in pods")
        elif name in PREDICATES:
            self.filters |= set(PREDICATES[name])
        elif name in GONE:
            self._gone(path, name, GONE[name])
        else:
            known = ", ".join(sorted(PREDICATES))
            raise ConfigError(f'{path}: unknown predicate "{name}"; known: {known}')

    def _require_labels(self, expressions: list[_Data]) -> None:
        self.filters.add("NodeAffinity")
        affinity = self.args.setdefault("NodeAffinity", {"addedAffinity": {}})["addedAffinity"]
        required = affinity.setdefault(
            "requiredDuringSchedulingIgnoredDuringExecution",
            {"nodeSelectorTerms": [{"matchExpressions": []}]},
        )
        required["nodeSelectorTerms"][0]["matchExpressions"] += expressions

    def _priority(self, item: object, path: str) -> None:
        name, argument = self._named(item, path)
        assert isinstance(item, dict)
        weight = item.get("weight") or 0
        if not isinstance(weight, int) or weight <= 0:
            raise ConfigError(f"{path}.weight: {show(weight)} is not a positive integer")
        if ratio := argument.get("requestedToCapacityRatioArguments"):
            self._capacity_ratio(ratio, weight)
        elif preference := argument.get("labelPreference"):
            self._label_preference(preference, weight)
        elif spread := argument.get("serviceAntiAffinity"):
            self._service_spread(spread, weight, path)
        elif name in GONE:
            self._gone(path, name, GONE[name])
        elif name in PRIORITIES:
            plugin, strategy = PRIORITIES[name]
            self._add_score(plugin, weight)
            if strategy:
                self._strategy(strategy, path)
        else:
            known = ", ".join(sorted(PRIORITIES))
            raise ConfigError(f'{path}: unknown priority "{name}"; known: {known}')

    def _add_score(self, plugin: str, weight: int) -> None:
        self.scores[plugin] = self.scores.get(plugin, 0) + weight

    def _strategy(self, kind: str, path: str) -> None:
        fit = self.args.setdefault("NodeResourcesFit", {"scoringStrategy": {"type": kind}})
        if fit["scoringStrategy"]["type"] != kind:
            self._gone(path, kind, "only one resource strategy can be used per profile")

    def _capacity_ratio(self, ratio: _Data, weight: int) -> None:
        self._add_score("NodeResourcesFit", weight)
        strategy: _Data = {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": ratio.get("shape") or []},
        }
        if resources := ratio.get("resources"):
            strategy["resources"] = resources
        self.args["NodeResourcesFit"] = {"scoringStrategy": strategy}

    def _label_preference(self, preference: _Data, weight: int) -> None:
        self._add_score("NodeAffinity", weight)
        operator = "Exists" if preference.get("presence") else "DoesNotExist"
        expression = {"key": preference.get("label") or "", "operator": operator}
        affinity = self.args.setdefault("NodeAffinity", {"addedAffinity": {}})["addedAffinity"]
        affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
            {"weight": min(weight, 100), "preference": {"matchExpressions": [expression]}}
        )

    def _service_spread(self, spread: _Data, weight: int, path: str) -> None:
        self._add_score("PodTopologySpread", weight)
        self.warnings.append(
            f"{path}: serviceAntiAffinity was replaced by a default topology spread constraint"
        )
        constraint = {
            "maxSkew": 1,
            "topologyKey": spread.get("label") or "",
            "whenUnsatisfiable": "ScheduleAnyway",
        }
        its = self.args.setdefault(
            "PodTopologySpread", {"defaultingType": "List", "defaultConstraints": []}
        )
        its["defaultConstraints"].append(constraint)

    def _gone(self, path: str, name: str, why: str) -> None:
        self.warnings.append(f'{path}: "{name}" was left out: {why}')

    def _other_fields(self) -> None:
        weight = self.policy.get("hardPodAffinitySymmetricWeight")
        if weight:
            self.args["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
        if self.policy.get("alwaysCheckAllPredicates"):
            self.warnings.append(
                "alwaysCheckAllPredicates was left out: filtering a node stops at its first reason"
            )
        known = {
            "apiVersion", "kind", "predicates", "priorities", "extenders", "extenderConfigs",
            "hardPodAffinitySymmetricWeight", "alwaysCheckAllPredicates",
        }  # fmt: skip
        self.warnings += [
            f'policy field "{name}" is unknown and was left out'
            for name in sorted(set(self.policy) - known)
        ]

    def _plugins(self) -> _Data:
        """Disable what the policy does not name; set weights where they differ from the
        default."""
        used = self.filters | set(self.scores)
        only_score = sorted((set(self.scores) & FILTERS) - self.filters)
        only_filter = sorted((self.filters & set(SCORERS)) - set(self.scores))
        unused = [name for name in (*FILTERS, *SCORERS) if name not in used]
        weights = [
            {"name": name, "weight": weight}
            for name, weight in sorted(self.scores.items())
            if SCORERS.get(name) != weight
        ]
        sets: dict[str, _Data] = {
            "multiPoint": {"enabled": weights, "disabled": _names(sorted(set(unused)))},
            "preFilter": {"disabled": _names(only_score)},
            "filter": {"disabled": _names(only_score)},
            "preScore": {"disabled": _names(only_filter)},
            "score": {"disabled": _names(only_filter)},
        }
        full = {point: {k: v for k, v in its.items() if v} for point, its in sets.items()}
        return {point: its for point, its in full.items() if its}

    def _extenders(self) -> list[_Data]:
        items = self._list("extenders") or self._list("extenderConfigs") or []
        return [self._extender(item, f"extenders[{i}]") for i, item in enumerate(items)]

    def _extender(self, item: object, path: str) -> _Data:
        if not isinstance(item, dict):
            raise ConfigError(f"{path}: expected an object, got {show(item)}")
        return {_field(name): _extender_value(_field(name), value) for name, value in item.items()}


def _field(name: str) -> str:
    return ALIASES.get(name.lower(), name)


def _extender_value(name: str, value: object) -> object:
    # policies gave the time limit as a number of nanoseconds
    if name == "httpTimeout" and isinstance(value, int):
        return format_duration(value)
    if name == "tlsConfig" and isinstance(value, dict):
        return {_field(key): its for key, its in value.items()}
    if name == "managedResources" and isinstance(value, list):
        return [
            {_field(key): its for key, its in entry.items()} if isinstance(entry, dict) else entry
            for entry in value
        ]
    return value


def _names(names: list[str]) -> list[_Data]:
    return [{"name": name} for name in names]
