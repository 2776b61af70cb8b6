"""Runs PreScore, Score and NormalizeScore of a profile.

Scores are int64 arrays over all rows; rows that did not pass the filters hold whatever the plugin
left there and are never looked at. After normalising, scores of feasible rows must lie in 0..100.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayplan.cluster.arrays import BoolArray, IntArray
from bayplan.errors import RAISED, PluginError
from bayplan.framework.contract.points import MAX_SCORE, MIN_SCORE
from bayplan.framework.contract.state import CycleState
from bayplan.framework.contract.status import Code, Status
from bayplan.framework.runtime.filtering import wrap
from bayplan.framework.runtime.profile import Profile, failed_score

_SMALL = (1 << 15) - 1


def call_pre_score(
    profile: Profile, plugin: Any, state: CycleState, pod: Any, nodes: Any, feasible: BoolArray
) -> Status | None:
    """Call one PreScore; a Status other than None is an error. Skip is noted in the state."""
    try:
        status: Status | None = plugin.pre_score(state, pod, nodes, feasible)
    except RAISED as problem:
        status = profile.problem(plugin.name, "pre_score", problem)
    if status is None or status.code is Code.SUCCESS:
        return None
    if status.code is Code.SKIP:
        state.skip_score.add(plugin.name)
        return None
    return wrap(f'running PreScore plugin "{plugin.name}"', status, plugin.name)


def call_score(
    profile: Profile,
    plugin: Any,
    state: CycleState,
    pod: Any,
    nodes: Any,
    feasible: BoolArray | None = None,
) -> IntArray | Status:
    """Call one score plugin over a table; a Status is an error."""
    try:
        if hasattr(plugin, "score"):
            scores = plugin.score(state, pod, nodes)
        else:
            scores = _loop(plugin, state, pod, nodes, feasible)
        _check(scores, nodes.count, plugin.name, "score")
    except RAISED as problem:
        return failed_score(plugin.name, profile.problem(plugin.name, "score", problem).message)
    if getattr(plugin, "compact_scores", False):
        small: IntArray = scores
        return small
    result: IntArray = scores.astype(np.int64, copy=False)
    return result


def call_normalize(
    profile: Profile,
    plugin: Any,
    state: CycleState,
    pod: Any,
    scores: IntArray,
    feasible: BoolArray,
) -> IntArray | Status:
    """Normalise one plugin's scores, if it does that, and check their range."""
    result = scores
    if hasattr(plugin, "normalize"):
        try:
            result = plugin.normalize(state, pod, scores, feasible)
            _check(result, len(scores), plugin.name, "normalize")
        except RAISED as problem:
            status = profile.problem(plugin.name, "normalize", problem)
            return failed_score(plugin.name, status.message)
    return range_problem(plugin.name, result, feasible) or result


def range_problem(name: str, scores: IntArray, feasible: BoolArray) -> Status | None:
    """An Error status if a feasible row's score is outside 0..100."""
    if len(scores) == 0:
        return None
    if scores.max() <= MAX_SCORE and (scores.dtype.kind == "u" or scores.min() >= MIN_SCORE):
        return None
    inside = scores[feasible]
    wrong = inside[(inside < MIN_SCORE) | (inside > MAX_SCORE)]
    return None if len(wrong) == 0 else bad_score(name, int(wrong[0]))


def bad_score(name: str, score: int) -> Status:
    text = (
        f'applying score defaultWeights on Score plugins: plugin "{name}" returns an invalid score '
        f"{score}, it should in the range of [{MIN_SCORE}, {MAX_SCORE}] after normalizing"
    )
    return Status(Code.ERROR, error=PluginError(text), plugin=name)


def compact(scores: IntArray) -> IntArray:
    """The same scores in 16 bits if they fit.

    For plugins with `compact_scores = True`, whose own `normalize` takes any integer type.
    """
    # Seen as unsigned, negative scores are far above the limit too.
    small = not len(scores) or bool(scores.view(np.uint64).max() <= _SMALL)
    if small or (scores.min() >= -_SMALL and scores.max() <= _SMALL):
        return scores.astype(np.int16)
    return scores


def among(scores: IntArray, rows: BoolArray) -> IntArray:
    """The scores of some rows; without a copy if it is all of them."""
    return scores if np.count_nonzero(rows) == len(rows) else scores[rows]


def default_normalize(scores: IntArray, feasible: BoolArray, *, reverse: bool = False) -> IntArray:
    """Scale to 0..100 by the largest feasible score; reversed, the largest becomes 0."""
    top = int(scores.max(initial=0))
    if top:
        top = int(among(scores, feasible).max(initial=0))
    if top == 0:
        return np.full(len(scores), MAX_SCORE, dtype=np.int64) if reverse else scores.copy()
    scaled: IntArray = scores * MAX_SCORE // top
    return MAX_SCORE - scaled if reverse else scaled


def _check(scores: object, rows: int, plugin: str, method: str) -> None:
    if not isinstance(scores, np.ndarray) or scores.shape != (rows,):
        shape = getattr(scores, "shape", type(scores).__name__)
        raise PluginError(
            f'plugin "{plugin}" returned {shape} from {method} for a table of {rows} rows; '
            "it must be one int64 a row"
        )
    if scores.dtype.kind not in "iu":
        raise PluginError(
            f'plugin "{plugin}" returned {scores.dtype} from {method}; scores must be integers'
        )


def _loop(
    plugin: Any, state: CycleState, pod: Any, nodes: Any, feasible: BoolArray | None
) -> IntArray:
    """Give a scalar score the table form; rows that did not pass are left out."""
    scores = np.zeros(nodes.count, dtype=np.int64)
    places = range(nodes.count) if feasible is None else np.flatnonzero(feasible).tolist()
    for place in places:
        scores[place] = plugin.score_node(state, pod, nodes.info(place))
    return scores
