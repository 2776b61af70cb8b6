"""PodTopologySpread: even counts over the values of a node label."""

import math

from bayplan import api
from bayplan.api.labels import EVERYTHING, Requirement, compile_selector, from_map
from bayplan.api.taints import first_untolerated
from tests.reference.nodes import matches_node
from tests.reference.world import SKIP, UU, Plugin, U

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SOFT = "ScheduleAnyway"
SYSTEM_DEFAULTS = (
    {"maxSkew": 3, "topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT},
    {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": SOFT},
)


class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    has_score = True

    def constraints(self, mode):
        """Return the constraints of one mode as (constraint, compiled selector)."""
        own = self.pod.spec.topology_spread_constraints
        if own:
            return [(c, self._selector(c)) for c in own if c.when_unsatisfiable == mode]
        selector = self._default_selector()
        if selector.empty:
            return []
        body = {"spec": {"topologySpreadConstraints": list(self._defaults())}}
        defaults = api.convert(api.Pod, body).spec.topology_spread_constraints
        return [(c, selector) for c in defaults if c.when_unsatisfiable == mode]

    def _defaults(self):
        if self.args.get("defaultingType", "System") == "List":
            return self.args.get("defaultConstraints") or ()
        return SYSTEM_DEFAULTS

    def _selector(self, constraint):
        labels = self.pod.labels
        more = [
            Requirement(k, "In", (labels[k],)) for k in constraint.match_label_keys if k in labels
        ]
        return compile_selector(constraint.label_selector).and_also(more)

    def _default_selector(self):
        merged = {}
        for service in self.world.all("Service"):
            wanted = service.spec.selector
            if service.namespace != self.pod.namespace or wanted is None:
                continue
            if from_map(wanted).matches(self.pod.labels):
                merged.update(wanted)
        owner = self.pod.controller
        if owner is None:
            return from_map(merged)
        found = self.world.get(owner.kind, f"{self.pod.namespace}/{owner.name}")
        kind = (owner.api_version, owner.kind)
        if kind == ("v1", "ReplicationController") and found:
            merged.update(found.spec.selector or {})
        elif (
            owner.kind in ("ReplicaSet", "StatefulSet") and owner.api_version == "apps/v1" and found
        ):
            return from_map(merged).and_also(compile_selector(found.spec.selector).requirements)
        return from_map(merged)

    def _included(self, constraint, node):
        if constraint.node_affinity_policy in ("", "Honor") and not matches_node(self.pod, node):
            return False
        honored = constraint.node_taints_policy == "Honor"
        return not (honored and first_untolerated(node.node.spec.taints, self.pod.spec.tolerations))

    def _count(self, selector, node):
        if selector == EVERYTHING:
            return 0
        return sum(
            pod.namespace == self.pod.namespace
            and not pod.terminating
            and selector.matches(pod.labels)
            for pod in node.pods
        )

    def prefilter(self):
        hard = self.constraints("DoNotSchedule")
        if not hard:
            return SKIP
        counts = [{} for _ in hard]
        for node in self.world.nodes:
            if any(c.topology_key not in node.labels for c, _ in hard):
                continue
            for i, (constraint, selector) in enumerate(hard):
                if self._included(constraint, node):
                    value = node.labels[constraint.topology_key]
                    counts[i][value] = counts[i].get(value, 0) + self._count(selector, node)
        self.state = counts
        return None

    def filter(self, node):
        for i, (constraint, selector) in enumerate(self.constraints("DoNotSchedule")):
            key = constraint.topology_key
            text = "node(s) didn't match pod topology spread constraints"
            if key not in node.labels:
                return self.fail(UU, f"{text} (missing required label)")
            counts = self.state[i]
            least = min(counts.values(), default=0)
            if len(counts) < (constraint.min_domains or 1):
                least = 0
            own = 1 if selector.matches(self.pod.labels) else 0
            if counts.get(node.labels[key], 0) + own - least > constraint.max_skew:
                return self.fail(U, text)
        return None

    def add(self, pod, node, delta=1):
        hard = self.constraints("DoNotSchedule")
        if pod.namespace != self.pod.namespace:
            return
        if any(c.topology_key not in node.labels for c, _ in hard):
            return
        for i, (constraint, selector) in enumerate(hard):
            if selector.matches(pod.labels) and self._included(constraint, node):
                value = node.labels[constraint.topology_key]
                self.state[i][value] = self.state[i].get(value, 0) + delta

    def remove(self, pod, node):
        self.add(pod, node, -1)

    def prescore(self, feasible):
        soft = self.constraints("ScheduleAnyway")
        if not soft or not feasible:
            return SKIP
        all_keys = bool(self.pod.spec.topology_spread_constraints)
        all_keys = all_keys or self.args.get("defaultingType", "System") == "List"
        keys = [c.topology_key for c, _ in soft]
        self.soft, self.ignored = soft, set()
        self.totals = [{} for _ in soft]
        for node in feasible:
            if all_keys and any(key not in node.labels for key in keys):
                self.ignored.add(node.name)
                continue
            for i, key in enumerate(keys):
                if key != HOSTNAME:
                    self.totals[i].setdefault(node.labels.get(key, ""), 0)
        sizes = [
            len(feasible) - len(self.ignored) if key == HOSTNAME else len(self.totals[i])
            for i, key in enumerate(keys)
        ]
        self.weights = [math.log(size + 2) for size in sizes]
        for node in self.world.nodes:
            if all_keys and any(key not in node.labels for key in keys):
                continue
            for i, (constraint, selector) in enumerate(soft):
                value = node.labels.get(constraint.topology_key, "")
                if value in self.totals[i] and self._included(constraint, node):
                    self.totals[i][value] += self._count(selector, node)
        return None

    def score(self, node):
        if node.name in self.ignored:
            return 0
        total = 0.0
        for i, (constraint, selector) in enumerate(self.soft):
            key = constraint.topology_key
            if key not in node.labels:
                continue
            if key == HOSTNAME:
                count = self._count(selector, node)
            else:
                count = self.totals[i][node.labels[key]]
            total += count * self.weights[i] + (constraint.max_skew - 1)
        whole = int(total)
        return whole + 1 if total - whole >= 0.5 else whole

    def normalize(self, scores):
        kept = [s for name, s in scores.items() if name not in self.ignored]
        least, most = min(kept, default=0), max([0, *kept])
        return {
            name: 0 if name in self.ignored
            else 100 if most == 0
            else 100 * (most + least - score) // most
            for name, score in scores.items()
        }  # fmt: skip
