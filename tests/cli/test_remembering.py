"""What a scheduler remembers of a pod is told in few lines."""

from bayplan.cli.remembering import _lines
from bayplan.engine.loop.explain import Explanation, Happening


def test_attempts_that_end_alike_are_one_line():
    alike = [Happening(60.0 * n, "failed, now backoff", "Insufficient cpu") for n in range(5)]
    other = Happening(600.0, "bound", "node-1")
    found = Explanation("default/p", "s", "bound to node-1", attempts=6, history=(*alike, other))

    assert [
        "bound to node-1, 6 attempts",
        "1970-01-01 00:04:00Z  failed, now backoff (5 times)  Insufficient cpu",
        "1970-01-01 00:10:00Z  bound  node-1",
    ] == _lines(found)
