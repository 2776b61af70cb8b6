"""InterPodAffinity: near to and apart from other pods."""

from bayplan import api
from bayplan.api.labels import SelectorError, compile_selector
from tests.reference.world import SKIP, UU, Plugin, U


class Term:
    """An affinity term of a pod, with its namespaces worked out."""

    def __init__(self, owner: api.Pod, term: api.PodAffinityTerm, weight: int = 0):
        self.selector = compile_selector(term.label_selector)
        self.namespace_selector = compile_selector(term.namespace_selector)
        self.key, self.weight = term.topology_key, weight
        self.namespaces = set(term.namespaces)
        if not term.namespaces and term.namespace_selector is None:
            self.namespaces = {owner.namespace}

    def resolve(self, world):
        """Add the namespaces that match now; the selector stays, as upstream leaves it."""
        if not self.namespace_selector.empty:
            for namespace in world.all("Namespace"):
                if self.namespace_selector.matches(namespace.labels):
                    self.namespaces.add(namespace.name)
        return self

    def matches(self, pod: api.Pod, namespace_labels: dict[str, str]) -> bool:
        inside = pod.namespace in self.namespaces
        inside = inside or self.namespace_selector.matches(namespace_labels)
        return inside and self.selector.matches(pod.labels)


def required(pod: api.Pod, kind: str) -> list[Term]:
    affinity = getattr(pod.spec.affinity, kind, None)
    return [Term(pod, term) for term in affinity.required] if affinity else []


def preferred(pod: api.Pod, kind: str) -> list[Term]:
    affinity = getattr(pod.spec.affinity, kind, None)
    found = affinity.preferred if affinity else ()
    return [Term(pod, item.pod_affinity_term, item.weight) for item in found]


def quietly(function, *args) -> list[Term]:
    """Terms of a placed pod; those that cannot be understood count as absent."""
    try:
        return function(*args)
    except SelectorError:
        return []


class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    has_score = True

    def prefilter(self):
        try:
            self.near = [t.resolve(self.world) for t in required(self.pod, "pod_affinity")]
            self.apart = [t.resolve(self.world) for t in required(self.pod, "pod_anti_affinity")]
        except SelectorError as problem:
            return self.fail(UU, f"parsing pod: {problem}")
        self.own_labels = self.world.namespace_labels(self.pod.namespace)
        self.state = {"existing": {}, "near": {}, "apart": {}}
        for pod, node in self.world.placed():
            self.add(pod, node)
        if not self.state["existing"] and not self.near and not self.apart:
            return SKIP
        return None

    def add(self, pod, node, delta=1):
        for term in quietly(required, pod, "pod_anti_affinity"):
            if term.matches(self.pod, self.own_labels):
                self._count("existing", term.key, node, delta)
        if self.near and all(term.matches(pod, {}) for term in self.near):
            for term in self.near:
                self._count("near", term.key, node, delta)
        for term in self.apart:
            if term.matches(pod, {}):
                self._count("apart", term.key, node, delta)

    def remove(self, pod, node):
        self.add(pod, node, -1)

    def _count(self, what, key, node, delta):
        if key not in node.labels:
            return
        counts, pair = self.state[what], (key, node.labels[key])
        counts[pair] = counts.get(pair, 0) + delta
        if counts[pair] == 0:
            del counts[pair]

    def filter(self, node):
        if not self._near_enough(node):
            return self.fail(UU, "node(s) didn't match pod affinity rules")
        for term in self.apart:
            if self.state["apart"].get((term.key, node.labels.get(term.key)), 0) > 0:
                return self.fail(U, "node(s) didn't match pod anti-affinity rules")
        if any(self.state["existing"].get(pair, 0) > 0 for pair in node.labels.items()):
            return self.fail(U, "node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    def _near_enough(self, node):
        if any(term.key not in node.labels for term in self.near):
            return False
        counts = self.state["near"]
        if all(counts.get((term.key, node.labels[term.key]), 0) > 0 for term in self.near):
            return True
        first = not counts
        return first and all(term.matches(self.pod, {}) for term in self.near)

    def prescore(self, feasible):
        near = [t.resolve(self.world) for t in preferred(self.pod, "pod_affinity")]
        apart = [t.resolve(self.world) for t in preferred(self.pod, "pod_anti_affinity")]
        if self.args.get("ignorePreferredTermsOfExistingPods") and not near and not apart:
            return SKIP
        hard = self.args.get("hardPodAffinityWeight", 1)
        own_labels = self.world.namespace_labels(self.pod.namespace)
        self.sums = {}

        def credit(term, weight, node):
            if term.key in node.labels:
                pair = (term.key, node.labels[term.key])
                self.sums[pair] = self.sums.get(pair, 0) + weight

        for pod, node in self.world.placed():
            for term in near:
                if term.matches(pod, {}):
                    credit(term, term.weight, node)
            for term in apart:
                if term.matches(pod, {}):
                    credit(term, -term.weight, node)
            if hard > 0:
                for term in quietly(required, pod, "pod_affinity"):
                    if term.matches(self.pod, own_labels):
                        credit(term, hard, node)
            for term in quietly(preferred, pod, "pod_affinity"):
                if term.matches(self.pod, own_labels):
                    credit(term, term.weight, node)
            for term in quietly(preferred, pod, "pod_anti_affinity"):
                if term.matches(self.pod, own_labels):
                    credit(term, -term.weight, node)
        return None if self.sums else SKIP

    def score(self, node):
        return sum(self.sums.get(pair, 0) for pair in node.labels.items())

    def normalize(self, scores):
        least, most = min(scores.values()), max(scores.values())
        wide = most - least
        if wide <= 0:
            return dict.fromkeys(scores, 0)
        return {name: int(100.0 * (float(s - least) / float(wide))) for name, s in scores.items()}
