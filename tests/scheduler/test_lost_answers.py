"""A binding whose answer was lost is only given up when the API server says that it did not happen.

Found by a seed of a random run: one odd answer to the question made the scheduler forget a pod that
was bound, and give its room to others.
"""

import json

import pytest

from bayplan.engine.loop.actions import Bind
from bayplan.engine.loop.inputs import BindDone
from tests.scheduler.test_performer import path, perform, pod


class Server:
    """Binds without saying so, and answers questions about the pod with the given codes first."""

    def __init__(self, codes, node="n"):
        self.codes, self.node = list(codes), node

    async def __call__(self, scope, receive, send):
        await receive()
        code, body = 200, {"metadata": {"name": "a", "uid": "uid-a"}}
        body["spec"] = {"nodeName": self.node}
        if scope["path"] == path("a", "/binding"):
            code, body = 503, {"kind": "Status", "code": 503, "message": "lost"}
        elif self.codes:
            code = self.codes.pop(0)
            body = {"kind": "Status", "code": code, "message": "odd"}
        await send({"type": "http.response.start", "status": code, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


@pytest.mark.parametrize("code", [401, 403, 409, 429, 500, 503])
def test_an_odd_answer_does_not_mean_that_the_pod_is_free(code):
    reports = perform(Server([code, code]), [Bind(pod("a"), "n")])

    assert [BindDone("uid-a")] == reports


def test_a_pod_that_is_gone_was_not_bound():
    (report,) = perform(Server([404]), [Bind(pod("a"), "n")])

    assert report.error


def test_a_pod_on_another_node_was_not_bound_by_us():
    (report,) = perform(Server([], node="other"), [Bind(pod("a"), "n")])

    assert report.error
