"""The faults that scenarios inject into the scheduler's requests are what they claim to be."""

import json
import random

from bayplan.client import Response, TransportError
from bayplan.sim.faults import CODES, FaultyTransport


class Server:
    """Carries out every request that reaches it."""

    def __init__(self) -> None:
        self.carried_out: list[str] = []

    async def request(self, method, target, headers, body, timeout) -> Response:
        self.carried_out.append(target)
        return Response(201, {}, b"{}")


async def outcomes(count: int, rate: float = 1.0) -> tuple[Server, dict[str, list[str]]]:
    """Send requests and sort their targets by what the caller was told."""
    server = Server()
    transport = FaultyTransport(server, random.Random(1))
    transport.rate = rate
    told: dict[str, list[str]] = {}
    for number in range(count):
        try:
            answer = await transport.request("POST", f"/{number}", {}, b"{}", None)
        except TransportError as problem:
            told.setdefault(str(problem), []).append(f"/{number}")
        else:
            told.setdefault(str(answer.status), []).append(f"/{number}")
    return server, told


async def test_a_request_whose_answer_is_lost_was_carried_out_and_no_other():
    server, told = await outcomes(60)

    lost = told.pop("simulated: the answer was lost")
    assert lost
    assert lost == server.carried_out
    assert {"simulated: connection refused", *map(str, CODES)} == set(told)


async def test_without_a_rate_every_request_is_carried_out_once():
    server, told = await outcomes(20, rate=0.0)

    assert {"201": server.carried_out} == told


async def test_about_the_asked_share_fails_and_the_same_seed_fails_the_same():
    _, first = await outcomes(300, rate=0.2)
    _, second = await outcomes(300, rate=0.2)

    assert 300 * 0.7 < len(first["201"]) < 300 * 0.9
    assert first == second


async def test_an_answered_fault_is_a_status_that_names_itself():
    transport = FaultyTransport(Server(), random.Random(1))
    transport.rate = 1.0
    answer = None
    while answer is None:
        try:
            answer = await transport.request("GET", "/", {}, None, None)
        except TransportError:
            continue

    told = json.loads(answer.body)
    assert ("Status", answer.status) == (told["kind"], told["code"])
    assert "simulated fault" == told["message"]
