"""The least domains of a dry run: exact where pods change in one domain, two of them elsewhere."""

import random

import numpy as np

from bayplan.plugins.pod_topology_spread.least import LeastTwo


def test_changes_in_one_domain_are_followed_exactly():
    for seed in range(200):
        rng = random.Random(seed)
        counts = np.array([rng.randrange(4) for _ in range(rng.randrange(1, 6))])
        present = np.array([True] + [rng.random() < 0.7 for _ in counts[1:]])
        two = LeastTwo.of(counts, present)
        changing = rng.choice(np.flatnonzero(present).tolist())
        for _ in range(8):
            counts[changing] += rng.choice([-1, 1])
            two.update(changing, int(counts[changing]))

            assert counts[present].min() == two.least, seed


def test_a_third_domain_is_noticed_only_when_it_changes():
    two = LeastTwo.of(np.array([0, 1, 2]), np.array([True, True, True]))
    two.update(0, 3)
    two.update(1, 4)
    assert 3 == two.least  # the third has two

    copy = two.clone()
    copy.update(2, 2)
    assert (2, 3) == (copy.least, two.least)
