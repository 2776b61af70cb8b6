"""What a pod needs before its containers start: ConfigMaps, Secrets, fields of its own.

They become environment variables and the files of volumes. What is missing and not optional keeps
the pod waiting, with the words of a kubelet.
"""

from __future__ import annotations

import base64
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import NamedTuple, cast

import msgspec

from bayplan.api import quantity
from bayplan.client import Client, ClientError, NotFound
from bayplan.client.resources import CONFIG_MAPS, SECRETS
from bayplan.controllers.kubelet.files import Files, Volume
from bayplan.controllers.kubelet.nodes import host_address
from bayplan.controllers.objects import Json, Object

_KINDS = {"configMap": CONFIG_MAPS, "secret": SECRETS}
MAX_ARGUMENT, MAX_ARGUMENTS = 1 << 17, 1 << 21  # characters of one, and of all; as on Linux
_REFERENCE = re.compile(r"\$\$|\$\(([^()]+)\)")


class MissingError(Exception):
    """Something that the pod needs is not there; `reason` is the container's waiting reason."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class _Wanted(NamedTuple):
    kind: str
    name: str
    optional: bool
    volume: str  # "" for environment variables
    key: str = ""


class Inputs:
    """The data of ConfigMaps and Secrets that one pod refers to."""

    def __init__(self, pod: Object, node: Object, address: str, links: Mapping[str, str]) -> None:
        self._pod = pod
        self._links = links
        self._node = node
        self._host = host_address(node)
        self._address = address
        self._data: dict[tuple[str, str], dict[str, bytes]] = {}
        self.volumes: dict[str, Volume] = {}

    async def load(self, client: Client) -> None:
        """Ask the server for all that the pod refers to. Raises MissingError."""
        for want in wanted(self._pod):
            entry = (want.kind, want.name)
            if entry not in self._data:
                found = await self._read(client, want)
                if found is None:
                    continue
                self._data[entry] = found
            if want.key and want.key not in self._data[entry] and not want.optional:
                raise _no_key(self._pod, want)
        spec = self._pod.spec
        for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
            variables = self._fill(container, self._given())
            command(container, variables)
            self._check_paths(container, variables)

    def _check_paths(self, container: Json, variables: Mapping[str, str]) -> None:
        """Refuse parts of volumes whose names cannot be worked out, or lead elsewhere."""
        expressions = [m.get("subPathExpr") for m in container.get("volumeMounts") or []]
        for expression in filter(None, expressions):
            text = ""
            path = references(expression, variables)
            missing = {name for name in _names(expression) if not variables.get(name)}
            if missing:
                text = f"missing value for {', '.join(sorted(missing))}"
            elif path.startswith("/"):
                text = f"error SubPath `{path}` must not be an absolute path"
            elif ".." in path.split("/"):
                text = f"unable to provision SubPath `{path}`: must not contain '..'"
            if text:
                raise MissingError("CreateContainerConfigError", text)

    async def _read(self, client: Client, wanted: _Wanted) -> dict[str, bytes] | None:
        namespace = self._pod.metadata.namespace
        try:
            raw = await client.get(_KINDS[wanted.kind], wanted.name, namespace)
        except NotFound:
            if wanted.optional:
                return None
            raise _not_there(wanted) from None
        except ClientError as error:
            raise MissingError("ContainerCreating", str(error)) from error
        obj: Json = msgspec.json.decode(raw)
        if wanted.kind == "secret":
            return {k: base64.b64decode(v) for k, v in (obj.get("data") or {}).items()}
        found = {k: v.encode() for k, v in (obj.get("data") or {}).items()}
        return found | {k: base64.b64decode(v) for k, v in (obj.get("binaryData") or {}).items()}

    # -- environment

    def environment(self, container: Json) -> MutableMapping[str, str]:
        """Return a container's variables, with references to earlier ones replaced."""
        found = self._given()
        with suppress(MissingError):  # too many: `load` has said so, but of ephemeral containers
            self._fill(container, found)
        return found

    def _given(self) -> MutableMapping[str, str]:
        """Return what every container is told."""
        own = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME": self._pod.spec.get("hostname") or self._pod.metadata.name[:63],
        }
        return ChainMap(own, cast("dict[str, str]", self._links))  # shared

    def _fill(self, container: Json, found: MutableMapping[str, str]) -> MutableMapping[str, str]:
        """Add what is told this container alone. Raises MissingError for too much."""
        room = Room()
        for source in container.get("envFrom") or []:
            prefix = source.get("prefix", "")
            for kind in _KINDS:
                name = (source.get(f"{kind}Ref") or {}).get("name", "")
                for key, value in self._data.get((kind, name), {}).items():
                    found[prefix + key] = room.take(value.decode(errors="replace"))
        for item in container.get("env") or []:
            text = self._value(container, item)
            if text is not None:
                found[item["name"]] = room.take(references(text, found))
        return found

    def _value(self, container: Json, item: Json) -> str | None:
        source: Json = item.get("valueFrom") or {}
        if not source:
            return str(item.get("value", ""))
        for kind in _KINDS:
            if reference := source.get(f"{kind}KeyRef"):
                data = self._data.get((kind, reference.get("name", "")), {})
                value = data.get(reference.get("key", ""))
                return value.decode(errors="replace") if value is not None else None
        if field := source.get("fieldRef"):
            return self.field(field.get("fieldPath", ""))
        if field := source.get("resourceFieldRef"):
            return self.resource(field, container)
        return ""

    def field(self, path: str) -> str:
        """Return what the downward API tells of the pod."""
        meta, spec = self._pod.metadata, self._pod.spec
        if match := re.fullmatch(r"metadata\.(labels|annotations)(?:\['(.*)'\])?", path):
            texts = meta.labels if match[1] == "labels" else meta.annotations
            if match[2] is not None:
                return texts.get(match[2], "")
            return "\n".join(f"{k}={_quoted(v)}" for k, v in sorted(texts.items()))
        found: dict[str, str] = {
            "metadata.name": meta.name,
            "metadata.namespace": meta.namespace,
            "metadata.uid": meta.uid,
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "status.hostIP": self._host,
            "status.hostIPs": self._host,
            "status.podIP": self._address,
            "status.podIPs": self._address,
        }
        return found.get(path, "")

    def resource(self, field: Json, container: Json) -> str:
        """Return a container's request or limit, in units of the divisor, rounded up."""
        part, _, name = str(field.get("resource", "")).partition(".")
        for one in self._pod.spec.get("containers") or []:
            if field.get("containerName") in ("", None, one.get("name")) or one is container:
                container = one if field.get("containerName") == one.get("name") else container
        value = ((container.get("resources") or {}).get(part) or {}).get(name)
        if value is None and part == "limits":  # then all of the node is the limit
            value = (self._node.status.get("allocatable") or {}).get(name)
        divisor = quantity.nanos(field.get("divisor") or "0") or quantity.nanos("1")
        return str(-(-quantity.nanos(value or "0") // divisor))

    # -- files

    def files(
        self,
        container: Json,
        variables: Mapping[str, str],
        hosts: dict[tuple[str, str], Volume],
        own: Volume,
    ) -> Files:
        """Return what a container sees, given its environment; `hosts` are the folders of nodes."""
        mounts: list[tuple[str, Volume, str, bool]] = []
        volumes = {v.get("name"): v for v in self._pod.spec.get("volumes") or []}
        for mount in container.get("volumeMounts") or []:
            volume = volumes.get(mount.get("name"), {})
            content = self._volume(volume, hosts)
            sub = mount.get("subPath") or references(mount.get("subPathExpr", ""), variables)
            fixed = bool(mount.get("readOnly")) or bool({*_KINDS, "projected"} & set(volume))
            if sub.strip("/") and sub.strip("/") not in content:  # a kubelet makes the folder
                content.setdefault(f"{sub.strip('/')}/", b"")
            mounts.append((mount.get("mountPath", ""), content, sub.strip("/"), fixed))
        name = variables["HOSTNAME"]
        own.setdefault("tmp/", b"")
        own.setdefault("etc/hostname", f"{name}\n".encode())
        own.setdefault("etc/hosts", f"127.0.0.1\tlocalhost\n{self._address}\t{name}\n".encode())
        return Files(mounts, own)

    def _volume(self, volume: Json, hosts: dict[tuple[str, str], Volume]) -> Volume:
        name = volume.get("name", "")
        if host := volume.get("hostPath"):
            return hosts.setdefault((self._pod.spec.get("nodeName", ""), host.get("path", "")), {})
        if name not in self.volumes:
            self.volumes[name] = self._content(volume)
        return self.volumes[name]

    def _content(self, volume: Json) -> Volume:
        if source := volume.get("configMap"):
            return self._keys("configMap", source.get("name", ""), source.get("items"))
        if source := volume.get("secret"):
            return self._keys("secret", source.get("secretName", ""), source.get("items"))
        if source := volume.get("downwardAPI"):
            return self._downward(source.get("items"))
        found: Volume = {}
        for source in (volume.get("projected") or {}).get("sources") or []:
            for kind in _KINDS:
                if part := source.get(kind):
                    found |= self._keys(kind, part.get("name", ""), part.get("items"))
            if part := source.get("downwardAPI"):
                found |= self._downward(part.get("items"))
        return found

    def _keys(self, kind: str, name: str, items: list[Json] | None) -> Volume:
        data = self._data.get((kind, name), {})
        if items:
            return {i.get("path", ""): data[i["key"]] for i in items if i.get("key") in data}
        return dict(data)

    def _downward(self, items: list[Json] | None) -> Volume:
        found: Volume = {}
        containers = self._pod.spec.get("containers") or [{}]
        for item in items or []:
            if field := item.get("fieldRef"):
                text = self.field(field.get("fieldPath", ""))
            else:
                text = self.resource(item.get("resourceFieldRef") or {}, containers[0])
            found[item.get("path", "")] = text.encode()
        return found


class Room:
    """How much more a container can be told: as much as Linux takes when a program starts."""

    def __init__(self) -> None:
        self._left = MAX_ARGUMENTS

    def take(self, text: str) -> str:
        """Return the text if there is room for it. Raises MissingError."""
        self._left -= len(text)
        if self._left < 0 or len(text) > MAX_ARGUMENT:
            raise _too_long()
        return text


def _too_long() -> MissingError:
    return MissingError("CreateContainerError", "argument list too long")


def command(container: Json, variables: Mapping[str, str]) -> list[str]:
    """Return a container's command with its arguments. Raises MissingError for too long ones."""
    room = Room()
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [room.take(references(str(word), variables)) for word in words]


def references(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) as Kubernetes does in commands and values; $$ stands for one $.

    Raises MissingError where that makes more than any program is given.
    """
    length = 0

    def one(match: re.Match[str]) -> str:
        nonlocal length
        found = "$" if match[1] is None else variables.get(match[1], match[0])
        length += len(found)
        if length > MAX_ARGUMENT:
            raise _too_long()
        return found

    return _REFERENCE.sub(one, text) if "$" in text else text


def _names(text: str) -> Iterator[str]:
    return (found for found in _REFERENCE.findall(text) if found)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def wanted(pod: Object) -> Iterator[_Wanted]:
    for volume in pod.spec.get("volumes") or []:
        name = volume.get("name", "")
        yield from _volume_wants(name, volume, "secretName")
        sources = (volume.get("projected") or {}).get("sources") or []
        if not any("serviceAccountToken" in source for source in sources):
            for source in sources:
                yield from _volume_wants(name, source, "name")
    for container in (*(pod.spec.get("initContainers") or []), *(pod.spec.get("containers") or [])):
        for source in container.get("envFrom") or []:
            for kind in _KINDS:
                if part := source.get(f"{kind}Ref"):
                    yield _Wanted(kind, part.get("name", ""), bool(part.get("optional")), "")
        for item in container.get("env") or []:
            for kind in _KINDS:
                if part := (item.get("valueFrom") or {}).get(f"{kind}KeyRef"):
                    optional, key = bool(part.get("optional")), part.get("key", "")
                    yield _Wanted(kind, part.get("name", ""), optional, "", key)


def _volume_wants(name: str, source: Json, secret_name: str) -> Iterator[_Wanted]:
    for kind, field in (("configMap", "name"), ("secret", secret_name)):
        if part := source.get(kind):
            optional = bool(part.get("optional"))
            yield _Wanted(kind, part.get(field, ""), optional, name)
            for item in part.get("items") or []:
                yield _Wanted(kind, part.get(field, ""), optional, name, item.get("key", ""))


def _not_there(wanted: _Wanted) -> MissingError:
    text = f'{wanted.kind.lower()} "{wanted.name}" not found'
    if wanted.volume:
        text = f'MountVolume.SetUp failed for volume "{wanted.volume}" : {text}'
        return MissingError("ContainerCreating", text)
    return MissingError("CreateContainerConfigError", text)


def _no_key(pod: Object, wanted: _Wanted) -> MissingError:
    place = f"{pod.metadata.namespace}/{wanted.name}"
    if wanted.volume:
        text = (
            f'MountVolume.SetUp failed for volume "{wanted.volume}" : '
            f"references non-existent {wanted.kind.lower()} key: {wanted.key}"
        )
        return MissingError("ContainerCreating", text)
    kind = "ConfigMap" if wanted.kind == "configMap" else "Secret"
    return MissingError(
        "CreateContainerConfigError", f"couldn't find key {wanted.key} in {kind} {place}"
    )
