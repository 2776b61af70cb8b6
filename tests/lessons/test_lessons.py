import pytest

from bayplan.errors import BayplanError
from bayplan.lessons.broken import BROKEN
from bayplan.lessons.runner import LESSONS, module_of, run
from tests.effort import at_most


@pytest.mark.parametrize("number", LESSONS)
def test_each_lesson_ends_as_it_says(number):
    told = []

    outcome = run(module_of(number), told.append)

    assert any("is bound to" in line or "not bound" in line for line in told)
    assert outcome.seconds >= 3


def test_all_lessons_together_take_seconds_of_a_processor():
    with at_most(1000):
        for number in LESSONS:
            run(module_of(number), lambda text: None)


@pytest.mark.parametrize("number", LESSONS)
def test_the_same_seed_gives_the_same_run(number):
    one, two = (run(module_of(number), lambda text: None, seed=7) for _ in range(2))

    assert one == two


def test_the_first_lesson_is_left_to_chance():
    def where(seed):
        told = []
        run(module_of(1), told.append, seed=seed)
        return told[-1]

    assert len({where(seed) for seed in range(8)}) > 1


@pytest.mark.parametrize("number", BROKEN)
def test_the_broken_variant_fails_and_the_lesson_does_not(number):
    broken = BROKEN[number]

    with pytest.raises((BayplanError, LookupError)):
        run(broken, lambda text: None)
    if number != 6:  # lesson 6 parks; what retries it comes in lesson 7
        run(module_of(number), lambda text: None, scenario=broken.scenario)
