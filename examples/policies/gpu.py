"""Six ways to place pods on nodes with shared GPUs, as plugins: filter, score and reserve.

They follow "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (USENIX ATC 2023), with that paper's formulas and integer scores. A pod says by labels how
many GPUs it wants (`gpu-count`), how many thousandths of each (`gpu-milli`; 1000 unless it wants a
part of one) and, if it matters, which models (`gpu-model: T4.P100`); a node how many it has and of
which model. CPU and memory are NodeResourcesFit's business.

Which devices a pod got is remembered by this process only: for a real cluster it would have to be
written to the pod. Arguments: `seed`, and for FGD `typical`, a list of
`{cpu, milli, count, model, share}`: the pods that the cluster expects.

    profiles:
      - plugins:
          multiPoint: {enabled: [{name: FGD, weight: 20000}, {name: FirstName, weight: 101}]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayplan.api import Pod
from bayplan.cluster.resources import resource_id
from bayplan.framework import Code, CycleState, Handle, NodeTable, Status, Verdict

COUNT, MILLI, MODEL = "gpu-count", "gpu-milli", "gpu-model"
WHOLE = 1000
MOST_DEVICES = 8
MOST_CPU, MOST_GPU = 128_000.0, 8_000.0
REASON = "node(s) had no GPUs that fit"
CPU = resource_id("cpu")
_NUMBERS = np.arange(MOST_DEVICES)
_CAUSES, _NO_GPU = 6, 1
"""How many causes of fragmentation the paper's program adds up, and the one of too full devices."""

Array = np.ndarray[Any, np.dtype[Any]]


class Wish:
    """What a pod wants; equal for pods of one shape."""

    def __init__(self, cpu: int, milli: int, count: int, models: frozenset[str]) -> None:
        self.cpu, self.milli, self.count, self.models = cpu, milli, count, models
        self.total = milli * count
        self.partial = count == 1 and milli < WHOLE
        self.kind = "part" if self.partial else count
        self.key = (cpu, milli, count, models)

    @classmethod
    def of(cls, pod: Pod) -> Wish:
        labels = pod.metadata.labels
        count = int(labels.get(COUNT, 0))
        milli = int(labels.get(MILLI, WHOLE)) if count else 0
        models = frozenset(filter(None, labels.get(MODEL, "").split(".")))
        texts = [c.resources.requests.get("cpu", "0") for c in pod.spec.containers]
        cpu = sum(_milli(str(text)) for text in texts) or 100
        return cls(cpu, milli, count, models)


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


class Devices:
    """What is left of every GPU, by row of the node table; follows the table's journal."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[int, tuple[int, ...], object]] = {}
        """By pod uid: thousandths, devices, kind of pod."""
        self._structure = -1
        self._seen = 0
        self.left: Array = np.zeros((0, MOST_DEVICES), dtype=np.int64)
        self.count: Array = np.zeros(0, dtype=np.int64)
        self.models: list[str] = []
        self.codes: Array = np.zeros(0, dtype=np.int64)
        """Models as numbers, in the order of `known`."""
        self.known: list[str] = []
        self.kinds: list[dict[object, int]] = []
        self.journal: list[int] = []
        """Rows in the order in which they changed; who keeps something starts where it stopped."""

    def sync(self, table: NodeTable) -> None:
        """Take over what changed since the last call."""
        if self._structure != table.node_changes.generation:
            self._rebuild(table)
        changed = table.changes.since(self._seen)
        self._seen = table.changes.generation
        rows = range(table.count) if changed is None else dict.fromkeys(changed)
        for row in rows:
            self._recount(table, row)
            self.journal.append(row)

    def _rebuild(self, table: NodeTable) -> None:
        self._structure, self._seen = table.node_changes.generation, -1
        labels = [node.metadata.labels for node in table.nodes[: table.count]]
        self.count = np.array([int(item.get(COUNT, 0)) for item in labels], dtype=np.int64)
        self.models = [item.get(MODEL, "") for item in labels]
        self.known = list(dict.fromkeys(self.models))
        codes = {model: code for code, model in enumerate(self.known)}
        self.codes = np.array([codes[model] for model in self.models], dtype=np.int64)
        self.left = np.zeros((table.count, MOST_DEVICES), dtype=np.int64)
        self.kinds = [{} for _ in labels]
        for row in range(table.count):
            self._recount(table, row)
        self.journal = []
        self._seen = table.changes.generation

    def _recount(self, table: NodeTable, row: int) -> None:
        left = self.left[row]
        left[:] = 0
        left[: self.count[row]] = WHOLE
        kinds = self.kinds[row] = {}
        for info in table.pods[row]:
            milli, devices, kind = self.given.get(info.pod.metadata.uid, (0, (), None))
            for device in devices:
                left[device] -= milli
            if devices:
                kinds[kind] = kinds.get(kind, 0) + 1


class View:
    """Some rows: what is left there."""

    def __init__(self, devices: Devices, table: NodeTable, rows: Array) -> None:
        self.devices, self.rows = devices, rows
        self.left = devices.left[rows]
        self.count = devices.count[rows]
        self.codes = devices.codes[rows]
        self.cpu = table.allocatable(CPU)[rows] - table.requested(CPU)[rows]
        self.total = self.left.sum(axis=1)

    def only(self, mask: Array) -> View:
        """The rows that a mask marks."""
        view = View.__new__(View)
        view.devices, view.rows = self.devices, self.rows[mask]
        view.left, view.count, view.cpu = self.left[mask], self.count[mask], self.cpu[mask]
        view.codes, view.total = self.codes[mask], self.total[mask]
        return view

    @property
    def kinds(self) -> list[dict[object, int]]:
        """How many pods of each kind the nodes have."""
        return [self.devices.kinds[row] for row in self.rows.tolist()]

    def access(self, models: frozenset[str]) -> Array:
        """Whether the nodes have one of these models."""
        found: Array = np.array([model in models for model in self.devices.known])[self.codes]
        return found


class Kept:
    """Scores of one shape, with how far in the journal they are."""

    def __init__(self, rows: int) -> None:
        self.scores: Array = np.zeros(rows, dtype=np.int64)
        self.fits: Array = np.zeros(rows, dtype=bool)
        self.until = -1
        self.journal: list[int] | None = None


class GpuPolicy:
    """A policy: `rate` scores rows, `choose` picks the device of a pod that wants a part of one."""

    def __init__(self, name: str, rate: Rate, choose: Choose, args: Any, handle: Handle) -> None:
        self.name = name
        self._handle = handle
        self._rate, self._choose = rate, choose
        self.rng = np.random.default_rng(int((args or {}).get("seed", 0)))
        self.typical = Typical((args or {}).get("typical") or [])
        self.devices = Devices()
        self._kept: dict[object, Kept] = {}

    def filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        table = nodes.table
        self.devices.sync(table)
        kept = self._up_to_date(Wish.of(pod), table)
        return Verdict(nodes.pick(kept.fits), Code.UNSCHEDULABLE, REASON)

    def score(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Array:
        kept = self._up_to_date(Wish.of(pod), nodes.table)
        return nodes.pick(kept.scores)

    def _up_to_date(self, wish: Wish, table: NodeTable) -> Kept:
        devices = self.devices
        kept = self._kept.get(wish.key)
        if kept is None or kept.journal is not devices.journal:
            kept = self._kept[wish.key] = Kept(table.count)
            kept.journal = devices.journal
            rows = np.arange(table.count)
        else:
            changed = dict.fromkeys(devices.journal[kept.until :])
            rows = np.fromiter(changed, dtype=np.int64, count=len(changed))
        kept.until = len(devices.journal)
        if len(rows):
            self._update(kept, wish, table, rows)
        return kept

    def _update(self, kept: Kept, wish: Wish, table: NodeTable, rows: Array) -> None:
        view = View(self.devices, table, rows)
        fits = view.access(wish.models) if wish.models else np.ones(len(rows), dtype=bool)
        if wish.count:
            fits = fits & ((view.left >= wish.milli).sum(axis=1) >= wish.count)
        kept.fits[rows] = fits
        # NodeResourcesFit speaks of CPU; here only what could be placed is worth a score.
        good = fits & (view.cpu >= wish.cpu)
        kept.scores[rows] = 0
        if good.any():
            kept.scores[rows[good]] = self._rate(self, view.only(good), wish)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        wish = Wish.of(pod)
        if not wish.count:
            return None
        table = self._handle.table
        row = table.row_of(node_name)
        assert row is not None
        left = self.devices.left[row]
        if wish.partial:
            devices: tuple[int, ...] = (self._choose(self, table, row, left, wish),)
        else:
            devices = tuple(int(d) for d in np.flatnonzero(left == WHOLE)[: wish.count])
        self.devices.given[pod.metadata.uid] = (wish.milli, devices, wish.kind)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.devices.given.pop(pod.metadata.uid, None)


# -- how rows are rated, and which device a pod that wants a part of one gets

Rate = Callable[[GpuPolicy, View, Wish], Array]
Choose = Callable[[GpuPolicy, NodeTable, int, Array, Wish], int]


def best_device(policy: GpuPolicy, table: NodeTable, row: int, left: Array, wish: Wish) -> int:
    """The fullest device that still has room."""
    return int(np.where(left >= wish.milli, left, WHOLE + 1).argmin())


def any_device(policy: GpuPolicy, table: NodeTable, row: int, left: Array, wish: Wish) -> int:
    return int(policy.rng.choice(np.flatnonzero(left >= wish.milli)))


def fgd_device(policy: GpuPolicy, table: NodeTable, row: int, left: Array, wish: Wish) -> int:
    """The device whose use fragments the node least."""
    view = View(policy.devices, table, np.array([row]))
    # The pod is on the node already, as far as CPU goes; what was kept is of the time before.
    view.cpu = view.cpu + wish.cpu
    scores = partial_scores(policy.typical, view, wish)
    return int(scores[0].argmax())


def rate_dot_product(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    """The less alike what is left and what is wanted, the better: Tetris turned round."""
    dot = view.cpu / MOST_CPU * (wish.cpu / MOST_CPU)
    dot = dot + view.total / MOST_GPU * (wish.total / MOST_GPU)
    return (100.0 * (1.0 - dot / 2)).astype(np.int64)


def rate_clustering(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    """Pods that want alike together, on nodes that are fuller."""
    if not wish.count:
        return np.zeros(len(view.cpu), dtype=np.int64)
    base = np.array([_cluster_base(kinds, wish.kind) for kinds in view.kinds], dtype=np.int64)
    return base + 25 * (8000 - view.total) // 8000


def _cluster_base(kinds: dict[object, int], kind: object) -> int:
    if kind in kinds:
        return 75 if len(kinds) == 1 else 50
    return 0 if kinds else 25


def rate_packing(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    """Used devices first, then free ones of used nodes, then free nodes."""
    if not wish.count:
        return np.zeros(len(view.cpu), dtype=np.int64)
    order = np.sort(np.where(_present(view), view.left, -1), axis=1)
    free = (view.left == WHOLE).sum(axis=1)
    usable = order >= wish.milli
    taken = usable & (np.cumsum(usable, axis=1) <= wish.count)
    new = (taken & (order == WHOLE)).sum(axis=1)
    ratio = np.where(taken, order * 100 // WHOLE, 0).sum(axis=1)
    shared = np.maximum(100 - ratio // 10, 50)
    return np.where(
        free == view.count,
        np.maximum(33 - free, free),
        np.where(new > 0, np.maximum(50 - new, 33), shared),
    )


def _present(view: View) -> Array:
    return _NUMBERS[None, :] < view.count[:, None]


def rate_best_fit(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    """The less is left afterwards, the better."""
    rest = (view.cpu - wish.cpu) / MOST_CPU * 0.5 + (view.total - wish.total) / MOST_GPU * 0.5
    return ((1.0 - rest) * 100.0).astype(np.int64)


def rate_fgd(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    """The less the expected fragmentation grows, the better."""
    typical = policy.typical
    if wish.partial:
        return partial_scores(typical, view, wish).max(axis=1)
    left = view.left.copy()
    if wish.count:
        whole = left == WHOLE
        left[whole & (np.cumsum(whole, axis=1) <= wish.count)] = 0
    before = typical.at_present(view)
    after = typical.fragmented(left, view.cpu - wish.cpu, view.codes)
    return _steepness(before - after)


def partial_scores(typical: Typical, view: View, wish: Wish) -> Array:
    """Scores by device (rows, devices); -1 where there is no room.

    Devices with as much left as an earlier one of their node, which would be chosen before them,
    are left out: most are whole.
    """
    scores = np.full(view.left.shape, -1, dtype=np.int64)
    first = (view.left[:, :, None] == view.left[:, None, :]).argmax(axis=2)  # with as much left
    rows, devices = np.nonzero((view.left >= wish.milli) & (first == _NUMBERS))
    left = view.left[rows]
    left[np.arange(len(rows)), devices] -= wish.milli
    before = typical.at_present(view)[rows]
    after = typical.fragmented(left, view.cpu[rows] - wish.cpu, view.codes[rows])
    scores[rows, devices] = _steepness(before - after)
    return scores


def _steepness(gain: Array) -> Array:
    return (1.0 / (1.0 + np.exp(-gain / 1000)) * 100.0).astype(np.int64)


class Typical:
    """The pods that a cluster expects, with their shares."""

    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self._cpu = np.array([int(pod["cpu"]) for pod in pods], dtype=np.int64)
        self._milli = np.array([int(pod["milli"]) for pod in pods], dtype=np.int64)
        self._count = np.array([int(pod["count"]) for pod in pods], dtype=np.int64)
        self._share = np.array([float(pod["share"]) for pod in pods])
        self._models = [frozenset(filter(None, str(p.get("model", "")).split("."))) for p in pods]
        self._journal: list[int] | None = None
        self._until = 0
        self._fresh: Array = np.zeros(0, dtype=bool)
        self._wasted: Array = np.zeros(0)
        self._numbers = np.arange(len(pods))
        self._causes: Array = np.zeros((0, 4, len(pods)), dtype=np.int64)
        """Why a device's rest is lost: by model, room (CPU twice, GPU once) and pod."""

    def at_present(self, view: View) -> Array:
        """What of these rows is fragmented, worked out once after each change of a row."""
        devices = view.devices
        if self._journal is not devices.journal:
            self._journal, self._until = devices.journal, 0
            self._fresh = np.zeros(len(devices.count), dtype=bool)
            self._wasted = np.zeros(len(devices.count))
            self._causes = np.stack([self._why(model) for model in devices.known])
        self._fresh[devices.journal[self._until :]] = False
        self._until = len(devices.journal)
        old = ~self._fresh[view.rows]
        if old.any():
            rows = view.rows[old]
            self._wasted[rows] = self.fragmented(view.left[old], view.cpu[old], view.codes[old])
            self._fresh[rows] = True
        return self._wasted[view.rows]

    def fragmented(self, left: Array, cpu: Array, codes: Array) -> Array:
        """Expected thousandths of GPUs, a row, that a pod drawn from the typical ones cannot use.

        What it could use counts only the devices that are too full for it. Rows are given by what
        their devices and CPU have left and by their models; `at_present` has to come first.
        """
        total = left.sum(axis=1)[:, None]
        room = left[:, :, None] >= self._milli
        gpus = room.sum(axis=1) >= self._count
        part = (left[:, :, None] * ~room).sum(axis=1)
        rooms = 2 * (cpu[:, None] >= self._cpu) + gpus
        causes = self._causes[codes[:, None], rooms, self._numbers]
        lost = np.where((causes == _NO_GPU) & gpus, part, total) * self._share
        # By cause and in the order of the typical pods, as the paper's program adds: sums that
        # are equal on paper then differ by the same last bits, which decide between whole scores.
        places = causes + _CAUSES * np.arange(len(left))[:, None]
        sums = np.bincount(places.ravel(), lost.ravel(), _CAUSES * len(left))
        wasted: Array = sums.reshape(-1, _CAUSES).cumsum(axis=1)[:, -1]
        return wasted

    def _why(self, model: str) -> Array:
        """The causes on nodes of a model: without room, with GPUs, with CPU, with both."""
        reach = np.array([not wanted or model in wanted for wanted in self._models], dtype=bool)
        wants = self._milli > 0
        near = [0, 2, _NO_GPU, _NO_GPU]  # with both, only devices that are too full are lost
        none = [4, 4, 3, 3]
        found = [np.where(wants, np.where(reach, n, 5), o) for n, o in zip(near, none, strict=True)]
        return np.stack(found)


class AnyNode(GpuPolicy):
    """One of the nodes that fit, by chance."""

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: Array
    ) -> Status | None:
        state.write("Random", int(self.rng.choice(np.flatnonzero(feasible))))
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Array:
        scores = np.zeros(len(nodes.rows), dtype=np.int64)
        scores[state.read("Random")] = 100
        return scores


def rate_nothing(policy: GpuPolicy, view: View, wish: Wish) -> Array:
    return np.zeros(len(view.cpu), dtype=np.int64)


class FirstName:
    """Decides between nodes that are equal otherwise: the first by name, as the paper's simulator.

    One plugin has only 101 scores, so it is enabled twice: `FirstName` with weight 101 and
    `FirstNameFiner` with weight 1 tell ten thousand nodes apart.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._fine = name != "FirstName"
        self._structure = -1
        self._scores: Array = np.zeros(0, dtype=np.int64)

    def score(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Array:
        table = nodes.table
        if self._structure != table.node_changes.generation:
            self._structure = table.node_changes.generation
            ranks = np.argsort(np.argsort(np.array(table.names())))
            place = ranks % 101 if self._fine else np.minimum(ranks // 101, 100)
            self._scores = 100 - place
        return nodes.pick(self._scores)


def _maker(name: str, rate: Rate, choose: Choose, kind: type[GpuPolicy] = GpuPolicy) -> Any:
    return lambda args, handle: kind(name, rate, choose, args, handle)


PLUGINS = {
    "Random": _maker("Random", rate_nothing, any_device, AnyNode),
    "DotProd": _maker("DotProd", rate_dot_product, best_device),
    "GpuClustering": _maker("GpuClustering", rate_clustering, best_device),
    "GpuPacking": _maker("GpuPacking", rate_packing, best_device),
    "BestFit": _maker("BestFit", rate_best_fit, best_device),
    "FGD": _maker("FGD", rate_fgd, fgd_device),
    "FirstName": lambda args, handle: FirstName("FirstName"),
    "FirstNameFiner": lambda args, handle: FirstName("FirstNameFiner"),
}
POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
