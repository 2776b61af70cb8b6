"""PodTopologySpread: how many pods each domain has, and by how much one more is too many."""

from __future__ import annotations

from msgspec.structs import replace

from bayplan.cluster.arrays import IntArray
from bayplan.framework import Status
from bayplan.inspect.amounts import listed
from bayplan.inspect.step import Step, set_to
from bayplan.inspect.why.case import Case
from bayplan.inspect.why.families.affinity import selector_text
from bayplan.plugins.pod_topology_spread.constraints import Constraint
from bayplan.plugins.pod_topology_spread.hard import REASON_LABEL, HardState
from bayplan.words import plural

HARD_STATE = "PodTopologySpread/hard"


def hard_state(case: Case) -> HardState | None:
    return case.state.get(HARD_STATE, HardState)


def facts(case: Case, status: Status, rows: IntArray) -> list[str]:
    state = hard_state(case)
    if state is None:
        return []
    if REASON_LABEL in status.all_reasons:
        return [_label_fact(case, item, rows) for item in state.constraints
                if _without(case, item, rows)]  # fmt: skip
    return [
        _constraint_fact(case, state, place)
        for place, item in enumerate(state.constraints)
        if max(_skew(case, state, place, row)[0] for row in rows[:200].tolist()) > item.max_skew
    ]


def _without(case: Case, item: Constraint, rows: IntArray) -> list[int]:
    return [row for row in rows.tolist() if item.key not in case.table.nodes[row].labels]


def _label_fact(case: Case, item: Constraint, rows: IntArray) -> str:
    lacking = _without(case, item, rows)
    names = listed(sorted(case.name(row) for row in lacking[:8]), 2)
    return f"{plural(len(lacking), 'node')} without the label {item.key} ({names})"


def _constraint_fact(case: Case, state: HardState, place: int) -> str:
    item = state.constraints[place]
    values = case.table.label_column(item.key).values
    counts, present = state.counts[place], state.present[place]
    domains = [
        (int(counts[code]), str(values[code]))
        for code in range(min(len(counts), len(values)))
        if code < len(present) and present[code]
    ]
    domains.sort()
    shown = listed([f"{value} has {count}" for count, value in domains], 4)
    text = (
        f"maxSkew {item.max_skew} over {item.key}, pods {selector_text(item.selector)}: {shown}; "
        f"one more may go only where there are at most "
        f"{state.least(place) + item.max_skew - item.matches_self}"
    )
    if len(domains) < item.min_domains:
        text += f"; minDomains {item.min_domains}, but there are only {len(domains)}"
    return text


def _skew(case: Case, state: HardState, place: int, row: int) -> tuple[int, int, str]:
    """The skew if the pod went there, how many pods are there, and the domain."""
    item = state.constraints[place]
    value = case.table.nodes[row].labels.get(item.key)
    if value is None:
        return 0, 0, ""
    code = case.table.label_column(item.key).code_of(value)
    counts = state.counts[place]
    count = int(counts[code]) if 0 <= code < len(counts) else 0
    return count + item.matches_self - state.least(place), count, value


def lacks(case: Case, row: int) -> str:
    state = hard_state(case)
    if state is None:
        return "spread constraints are not met"
    parts = []
    for place, item in enumerate(state.constraints):
        if item.key not in case.table.nodes[row].labels:
            parts.append(f"no label {item.key}")
            continue
        skew, count, value = _skew(case, state, place, row)
        if skew > item.max_skew:
            least = state.least(place)
            parts.append(
                f"{item.key}={value} has {count} already, the least is {least}: "
                f"skew {skew} of at most {item.max_skew}"
            )
    return ", ".join(parts)


def steps(case: Case, row: int) -> list[Step]:
    """Allow exactly the skew that this node needs, or only prefer to spread."""
    state, own = hard_state(case), case.pod.spec.topology_spread_constraints
    if state is None or not own:
        return []
    hard = [
        number for number, item in enumerate(own) if item.when_unsatisfiable != "ScheduleAnyway"
    ]
    skews, soft, texts = [], [], []
    for place, number in enumerate(hard[: len(state.constraints)]):
        item = state.constraints[place]
        missing = item.key not in case.table.nodes[row].labels
        skew = _skew(case, state, place, row)[0]
        if not missing and skew <= item.max_skew:
            continue
        path = ("spec", "topologySpreadConstraints", number)
        soft.append(set_to("ScheduleAnyway", *path, "whenUnsatisfiable"))
        texts.append(item.key)
        if own[number].min_domains is not None:
            soft.append({"op": "remove", "path": f"/{'/'.join(map(str, path))}/minDomains"})
        if not missing:
            skews.append((set_to(skew, *path, "maxSkew"), item, skew))
    found = []
    if texts:
        text = f"let the spread over {' and '.join(texts)} be ScheduleAnyway"
        found.append(Step(text, 22, "soft spread", tuple(soft)))
    if skews and len(skews) == len(texts):
        text = " and ".join(
            f"raise maxSkew over {item.key} from {item.max_skew} to {skew}"
            for _, item, skew in skews
        )
        found.append(Step(text, 24, "skew", tuple(op for op, _, _ in skews)))
    return found + _domain_steps(state, hard) + _label_steps(case, state, row)


def _domain_steps(state: HardState, hard: list[int]) -> list[Step]:
    """Ask for no more domains than there are."""
    ops, texts = [], []
    for place, number in enumerate(hard[: len(state.constraints)]):
        item, there = state.constraints[place], int(state.present[place].sum())
        if 0 < there < item.min_domains:
            ops.append(set_to(there, "spec", "topologySpreadConstraints", number, "minDomains"))
            texts.append(f"lower minDomains over {item.key} from {item.min_domains} to {there}")
    return [Step(" and ".join(texts), 23, "domains", tuple(ops))] if ops else []


def _label_steps(case: Case, state: HardState, row: int) -> list[Step]:
    """Give a node the labels that the pod is to be spread over; a domain of its own."""
    node = case.table.nodes[row]
    keys = [item.key for item in state.constraints if item.key not in node.labels]
    if not keys or any(part in key for key in keys for part in ("kubernetes.io/", "k8s.io/")):
        return []
    added = dict.fromkeys(keys, node.name)
    shown = " ".join(f"{key}={value}" for key, value in added.items())
    changed = replace(node, metadata=replace(node.metadata, labels={**node.labels, **added}))
    command = f"kubectl label node {node.name} {shown}"
    text = f"label {node.name} with {shown}"
    return [Step(text, 35, "label", put=(changed,), commands=(command,))]
