"""DefaultPreemption: which pods to take away so that the pod fits."""

from bayplan import api
from bayplan.api import parse_time
from bayplan.api.labels import compile_selector
from bayplan.plugins.go_sort import go_sorted
from tests.reference.world import UU, NodeState, Status, U, World

NAME = "DefaultPreemption"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
FAR_FUTURE = float("inf")


def start_time(pod: api.Pod) -> float:
    return parse_time(pod.status.start_time) if pod.status.start_time else FAR_FUTURE


def by_importance(pods: list[api.Pod]) -> list[api.Pod]:
    """Most important first; the start of who has not started is read anew each time."""
    keys = [(-pod.priority, start_time(pod)) for pod in pods]
    return go_sorted(pods, keys, [not pod.status.start_time for pod in pods])


class Preemption:
    """One PostFilter of DefaultPreemption."""

    def __init__(self, world: World, pod: api.Pod, plugins, statuses: dict[str, Status]):
        self.world, self.pod, self.plugins, self.statuses = world, pod, plugins, statuses

    def run(self):
        """Return (message, nominated node, victims); the message is empty on success."""
        if self.pod.spec.preemption_policy == "Never":
            return "preemption: not eligible due to preemptionPolicy=Never.", "", None
        if self._terminating_victim():
            text = "preemption: not eligible due to a terminating pod on the nominated node."
            return text, self.pod.status.nominated_node_name, None
        candidates, failures = {}, {}
        for node in self.world.nodes:
            if self.statuses[node.name].code != U:
                continue
            found = self._victims(node)
            if isinstance(found, Status):
                failures[node.name] = found
            else:
                candidates[node.name] = found
        if not candidates:
            return f"preemption: {self._summary(failures)}", "", None
        name = choose(candidates)
        return "", name, sorted(pod.key for pod in candidates[name][0])

    def _terminating_victim(self) -> bool:
        name = self.pod.status.nominated_node_name
        if not name or self.statuses[name].code == UU:
            return False
        return any(
            pod.priority < self.pod.priority
            and pod.terminating
            and any(
                c.type == "DisruptionTarget"
                and c.status == "True"
                and c.reason == "PreemptionByScheduler"
                for c in pod.status.conditions
            )
            for pod in self.world.node(name).pods
        )

    def _summary(self, failures: dict[str, Status]) -> str:
        return fit_error(len(self.world.nodes), failures, (NOT_HELPFUL,))

    def _victims(self, node: NodeState):
        """Return (victims, violations), or the status of a node that cannot help."""
        node = node.clone()
        plugins = [plugin.clone() for plugin in self.plugins]

        def change(pod, add):
            if add:
                node.pods.append(pod)
            else:
                node.pods.remove(pod)
            for plugin in plugins:
                (plugin.add if add else plugin.remove)(pod, node)

        def fits():
            return next((s for p in plugins if (s := p.filter(node))), None)

        potential = [pod for pod in node.pods if pod.priority < self.pod.priority]
        if not potential:
            return Status(UU, NAME, (NO_VICTIMS,))
        for pod in potential:
            change(pod, add=False)
        if status := fits():
            return status
        violating, rest = self._split(by_importance(potential))
        victims, violations = [], 0
        for pod in (*violating, *rest):
            change(pod, add=True)
            if fits():
                change(pod, add=False)
                victims.append(pod)
                violations += pod in violating
        return by_importance(victims) if violating and rest else victims, violations

    def _split(self, pods):
        budgets = self.world.all("PodDisruptionBudget")
        left = {budget.key: budget.status.disruptions_allowed for budget in budgets}
        violating, rest = [], []
        for pod in pods:
            bad = False
            for budget in budgets:
                selector = compile_selector(budget.spec.selector)
                if (
                    budget.namespace == pod.namespace
                    and pod.labels
                    and not selector.empty
                    and selector.matches(pod.labels)
                    and pod.name not in budget.status.disrupted_pods
                ):
                    left[budget.key] -= 1
                    bad = bad or left[budget.key] < 0
            (violating if bad else rest).append(pod)
        return violating, rest


def choose(candidates: dict[str, tuple[list, int]]) -> str:
    """Return the node that loses least."""

    def cost(name):
        victims, violations = candidates[name]
        top = victims[0].priority
        earliest = min(start_time(pod) for pod in victims if pod.priority == top)
        total = sum(pod.priority + 2**31 for pod in victims)
        return violations, top, total, len(victims), -earliest

    return min(candidates, key=cost)


def fit_error(count: int, statuses: dict[str, Status], absent: tuple[str, ...] = ()) -> str:
    """Return the text that tells why no node fits."""
    tally: dict[str, int] = {}
    for status in statuses.values():
        for reason in status.reasons:
            tally[reason] = tally.get(reason, 0) + 1
    if len(statuses) < count:
        for reason in absent:
            tally[reason] = tally.get(reason, 0) + count - len(statuses)
    text = f"0/{count} nodes are available:"
    if tally:
        text += " " + ", ".join(sorted(f"{n} {reason}" for reason, n in tally.items())) + "."
    return text
