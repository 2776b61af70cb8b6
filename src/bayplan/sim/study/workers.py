"""Where runs go: processes of this machine (joblib), or the workers of a Dask cluster.

Both hand a task and its source to `run_task` and yield what comes back, in any order. A worker
that dies takes nothing with it: its run is tried again, and one that kills its workers again and
again fails by name while the others go on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bayplan.errors import BayplanError
from bayplan.extras import needed
from bayplan.sim.study.plan import Source, Task
from bayplan.sim.study.run import Outcome, run_task

DEATHS = 2
"""How often a run may end its worker."""
Run = Callable[[Task, Source], Outcome]


def died(task: Task) -> Outcome:
    """The outcome of a run that ends its workers."""
    return Outcome(task.key, f"its worker died {DEATHS} times; out of memory?")


class Local:
    """Processes of this machine; one job is this very process."""

    def __init__(self, jobs: int = 0) -> None:
        self._joblib = needed("joblib", "sweep")
        loky = needed("joblib.externals.loky.process_executor", "sweep")
        self._dead: type[BaseException] = loky.TerminatedWorkerError
        self.jobs = jobs or os.cpu_count() or 1

    def run(
        self, tasks: Sequence[Task], sources: Mapping[str, Source], work: Run = run_task
    ) -> Iterator[Outcome]:
        left = {task.key: task for task in tasks}
        deaths: Counter[str] = Counter()
        suspects = 0
        while left:
            # Nobody knows which run ended a worker: those that may have are run one by one.
            batch = list(left.values())[:1] if suspects else list(left.values())
            try:
                for outcome in self._batch(batch, sources, work):
                    left.pop(outcome.key)
                    yield outcome
                suspects -= 1
            except self._dead:
                if not suspects:
                    suspects = 2 * self.jobs
                    continue
                task = batch[0]
                deaths[task.key] += 1
                if deaths[task.key] >= DEATHS:
                    suspects -= 1
                    del left[task.key]
                    yield died(task)

    def _batch(
        self, tasks: Sequence[Task], sources: Mapping[str, Source], work: Run
    ) -> Iterator[Outcome]:
        pool = self._joblib.Parallel(
            n_jobs=self.jobs,
            return_as="generator_unordered",
            backend="loky",
            pre_dispatch=2 * self.jobs,
            batch_size=1,
        )
        call = self._joblib.delayed(work)
        with _deaf_children():
            outcomes = pool(call(task, sources[task.source]) for task in tasks)
        yield from outcomes


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Whatever is started meanwhile ignores Ctrl-C: that is for this process, which ends them.

    One that comes meanwhile is kept until the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # it may not set handlers
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Dask:
    """The workers of a Dask cluster; each needs Bayplan and nothing else."""

    def __init__(self, address: str) -> None:
        distributed = needed("distributed", "dask")
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, ValueError) as problem:
            raise BayplanError(f"--dask {address}: {problem}") from problem
        self._distributed = distributed

    def run(
        self, tasks: Sequence[Task], sources: Mapping[str, Source], work: Run = run_task
    ) -> Iterator[Outcome]:
        left = {task.key: task for task in tasks}
        # A task of its own and not scattered: what a dead worker held is made again.
        shared = {n: self._client.submit(_given, s, pure=False) for n, s in sources.items()}
        said: dict[str, str] = {}
        for turn in range(DEATHS):
            keys = {f"bayplan-{turn}-{task.key}": task for task in left.values()}
            futures = [
                self._client.submit(work, task, shared[task.source], key=key, pure=False)
                for key, task in keys.items()
            ]
            for future in self._distributed.as_completed(futures):
                task = keys[future.key]
                try:
                    outcome = future.result()
                except self._distributed.scheduler.KilledWorker:
                    outcome = died(task)
                except Exception as problem:  # Dask's own; those of the run are in its outcome
                    said[task.key] = f"{type(problem).__name__}: {problem}"
                    continue
                del left[task.key]
                yield outcome
        for task in left.values():
            yield Outcome(task.key, said[task.key])

    def close(self) -> None:
        self._client.close()


def _given(source: Source) -> Source:
    return source
