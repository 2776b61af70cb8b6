"""What the API server asks of those who run containers: logs, commands, a look at what is printed.

Somebody in the same process (the simulated kubelets) sets `Backend.containers`; without it these
requests are refused at once, with a sentence that says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import msgspec

from bayplan.api.labels import parse_int64
from bayplan.apiserver.errors import ApiError, bad_request
from bayplan.apiserver.request import Request, flag

NO_KUBELET = (
    "no kubelets run beside this API server: logs, exec, attach, port-forward and proxy are "
    "answered by one with --controllers"
)
Write = Callable[[int, bytes], Awaitable[None]]
"""Takes a stream (1: output, 2: errors) and bytes."""


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The query of a request for logs."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit: int | None = None
    since_seconds: int | None = None
    since_time: str = ""


class Containers(Protocol):
    """Whoever runs containers. All methods raise ApiError before anything else."""

    def log(self, pod: dict[str, Any], options: LogOptions) -> AsyncIterator[bytes]:
        """Return what a container has printed, and goes on to print."""
        ...

    async def execute(
        self,
        pod: dict[str, Any],
        container: str,
        command: list[str],
        given: Callable[[], Awaitable[bytes]] | None,
        write: Write,
    ) -> int:
        """Run a command in a container; `given` reads all of its input. Returns its exit code."""
        ...

    def attach(self, pod: dict[str, Any], container: str) -> AsyncIterator[bytes]:
        """Return what a container prints from now on."""
        ...

    def usage(self, resource: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return the metrics of pods or nodes; "" means all."""
        ...


def log_options(query: dict[str, str]) -> LogOptions:
    """Read the query of a request for logs. Raises a 400."""
    return LogOptions(
        container=query.get("container", ""),
        follow=flag(query, "follow"),
        previous=flag(query, "previous"),
        timestamps=flag(query, "timestamps"),
        tail=_count(query, "tailLines", 0),
        limit=_count(query, "limitBytes", 1),
        since_seconds=_count(query, "sinceSeconds", 1),
        since_time=query.get("sinceTime", ""),
    )


def _count(query: dict[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    count = parse_int64(text)
    if count is None or count < least:
        what = "greater than 0" if least else "greater than or equal to 0"
        raise ApiError(
            422,
            "Invalid",
            f'PodLogOptions "" is invalid: {name}: Invalid value: {text}: must be {what}',
        )
    return count


def container_of(pod: dict[str, Any], name: str) -> str:
    """Return the container that is meant. Raises a 400 when that is not clear."""
    spec = pod["spec"]
    meta = pod["metadata"]
    main = [c["name"] for c in spec.get("containers") or ()]
    every = [
        c["name"]
        for field in ("initContainers", "containers", "ephemeralContainers")
        for c in spec.get(field) or ()
    ]
    if name:
        if name not in every:
            raise bad_request(f"container {name} is not valid for pod {meta['name']}")
        return name
    if len(main) == 1:
        return str(main[0])
    default = (meta.get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in main:
        return str(default)
    first = [c["name"] for c in spec.get("initContainers") or ()]
    init = f" or one of the init containers: [{' '.join(first)}]" if first else ""
    raise bad_request(
        f"a container name must be specified for pod {meta['name']}, "
        f"choose one of: [{' '.join(main)}]{init}"
    )


def runner(containers: Containers | None, pod: dict[str, Any], request: Request) -> Containers:
    """Return who runs this pod's containers. Raises a 400 or a 503."""
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {request.name} does not have a host assigned")
    if containers is None:
        raise ApiError(503, "ServiceUnavailable", NO_KUBELET)
    return containers
