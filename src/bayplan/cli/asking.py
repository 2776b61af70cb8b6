"""Questions to a Bayplan scheduler that answers for itself, with its own plugins and extenders.

The API server of `bayplan up` answers questions under the configuration that its scheduler runs.
Where that is not what this command would assume (plugins from outside, extenders, a configuration
file), only the scheduler there can say what it would decide. Asked is the server of the kubeconfig,
and only if it says that it is Bayplan's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.client import ApiError, Connection, TransportError, connect, load_kubeconfig
from bayplan.errors import BayplanError
from bayplan.inspect import PREFIX
from bayplan.inspect.errors import InspectError
from bayplan.inspect.http_questions import Summary
from bayplan.inspect.sources.live import run_beside


class There:
    """A scheduler that answers."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self.namespace = namespace or connection.namespace

    def ask(self, question: str, kind: Any, **about: Any) -> Any:
        """The answer to a question, as the struct that it is."""
        given = {name: value for name, value in about.items() if value}
        try:
            body = run_beside(lambda: _post(self._connection, f"{PREFIX}{question}", given))
        except ApiError as problem:
            raise InspectError(_said(problem.message)) from problem
        return msgspec.json.decode(body, type=kind)


def scheduler_there(kubeconfig: str, context: str, namespace: str) -> There | None:
    """The scheduler of a cluster that only itself can speak for; None if there is no such."""
    connection = load_kubeconfig(kubeconfig or None, context=context)
    try:
        version = msgspec.json.decode(run_beside(lambda: _get(connection, "/version")))
        if "+bayplan" not in version.get("gitVersion", ""):
            return None
        found = run_beside(lambda: _get(connection, f"{PREFIX}cluster"))
        own = msgspec.json.decode(found, type=Summary).own
    except (ApiError, TransportError, msgspec.DecodeError, AttributeError):
        return None  # reading the cluster says what is wrong
    return There(connection, namespace) if own else None


def _said(text: str) -> str:
    """The sentence of an answer that is an error; one of another server stays as it is."""
    try:
        return str(msgspec.json.decode(text)["error"])
    except (msgspec.DecodeError, LookupError, TypeError):
        return text


async def _get(connection: Connection, path: str) -> bytes:
    client = connect(connection)
    try:
        return await client.request("GET", path)
    finally:
        await client.close()


async def _post(connection: Connection, path: str, body: dict[str, Any]) -> bytes:
    client = connect(connection)
    try:
        return await client.request("POST", path, body=body)
    except TransportError as problem:
        raise BayplanError(f"asking the scheduler: {problem}") from problem
    finally:
        await client.close()
