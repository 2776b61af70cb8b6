"""Scores by domain: the winner found by leaders is the one found by looking at every row."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.cluster.label_column import Domains
from bayplan.engine.answers.domains import LOWEST, DomainLeaders, DomainShare

DOMAINS = 3
ROW = st.tuples(
    st.integers(0, DOMAINS - 1),  # its domain
    st.integers(0, 3),  # its total
    st.booleans(),  # whether it is a candidate
    st.none() | st.integers(0, 3),  # a score of its own
)


def share_of(rows, worth):
    codes = np.array([domain for domain, *_ in rows], dtype=np.int64)
    mask = np.array([candidate for _, _, candidate, _ in rows])
    own = {at: score for at, (*_, score) in enumerate(rows) if score is not None}
    domains = Domains(codes, np.bincount(codes, minlength=DOMAINS).tolist())
    counts = np.bincount(codes[mask], minlength=DOMAINS).tolist()
    return DomainShare(domains, worth, own, mask, counts), mask


@settings(max_examples=100, deadline=None, database=None)
@given(
    st.lists(ROW, min_size=1, max_size=8).filter(lambda rows: any(row[2] for row in rows)),
    st.lists(st.integers(0, 3), min_size=DOMAINS, max_size=DOMAINS),
    st.integers(0, 2),
)
@example([(0, 0, True, None), (1, 3, True, 0)], [0, 0, 0], 1)  # a domain of which all are apart
@example([(0, 2, True, None), (0, 3, True, 0), (1, 0, True, None)], [0, 3, 0], 1)
def test_the_winner_is_that_of_all_rows(rows, worth, weight):
    share, mask = share_of(rows, worth)
    totals = np.where(mask, [total for _, total, *_ in rows], LOWEST)
    keys = np.arange(len(rows))[::-1].copy()
    walk = np.array(sorted(np.flatnonzero(mask), key=keys.item), dtype=np.int64)

    best = DomainLeaders(share.domains, walk).best(share, weight, totals, keys)

    def rank(row):
        domain, total, _, score = rows[row]
        return total + weight * (worth[domain] if score is None else score), -keys.item(row)

    assert max(np.flatnonzero(mask).tolist(), key=rank) == best


def test_domains_without_a_candidate_of_their_own_are_not_scored():
    """The second has one that stands apart, the third none at all."""
    rows = [(0, 0, True, None), (1, 0, True, 9), (2, 0, False, None), (0, 0, False, 8)]
    share, _ = share_of(rows, [5, 6, 7])

    assert ([0], {1: 9}, [5, 9]) == (share.present, share.own, share.scores())
    share.normalize([50, 90])
    assert [50, 90] == [share.at(0), share.at(1)]
    assert [50, 90, 0, 50] == share.record().array().tolist()
    assert not share.own_below(1000, 1), "the best of the second may be one nobody looked at"


def test_whether_rows_apart_can_win():
    share, _ = share_of([(0, 0, True, None), (0, 0, True, 9)], [5, 6, 7])

    assert (True, False) == (share.own_below(10, 1), share.own_below(9, 1))
    assert not share.own_below(1000, -1)
