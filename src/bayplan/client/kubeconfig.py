"""Finds out which API server to talk to and as whom, in kubectl's order.

An explicit file is read alone and must exist. Otherwise the files of `$KUBECONFIG` are merged (the
first to name a cluster, user, context or current-context wins; missing files are skipped), else
`~/.kube/config`, else the pod's own service account. Relative paths inside a file are relative to
that file. All scalars are read as text, so a token of digits stays what it is.

The result, `Connection`, is plain data; reading certificate and token files, running exec plugins
and opening sockets happen in `auth`, `tls` and the transports.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from bayplan.api.decode import strip_nulls
from bayplan.client.errors import KubeconfigError
from bayplan.errors import reason

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NULL = "tag:yaml.org,2002:null"


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Reads every value as text, so that a token of digits stays one; but null is none."""


_Loader.add_implicit_resolver(_NULL, re.compile("^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_constructor(_NULL, lambda loader, node: None)

# YAML is untyped until it has been checked below.
Tree = dict[str, Any]


class ExecPlugin(msgspec.Struct, frozen=True):
    """A program that prints an ExecCredential."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False
    directory: str = ""


class Connection(msgspec.Struct, frozen=True):
    """An API server and a user, as a kubeconfig context names them."""

    server: str
    namespace: str = "default"
    ca_file: str = ""
    ca_data: bytes = b""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    compression: bool = True
    cert_file: str = ""
    cert_data: bytes = b""
    key_file: str = ""
    key_data: bytes = b""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec_plugin: ExecPlugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    source: str = ""


def load_kubeconfig(
    path: str | Path | None = None,
    *,
    context: str = "",
    master: str = "",
    env: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection that kubectl would use; raise KubeconfigError with the remedy.

    `master` overrides the server's address, and alone suffices for a server without users.
    """
    env = os.environ if env is None else env
    if path:
        file = Path(path)
        if not file.is_file():
            raise KubeconfigError(f'kubeconfig "{file}" does not exist; check --kubeconfig')
        return _from_tree(_read(file), context, master, str(file))
    listed = [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = env.get("HOME", "")
    files = listed or ([Path(home) / ".kube" / "config"] if home else [])
    trees = [_read(file) for file in files if file.is_file()]
    if trees:
        return _from_tree(_merge(trees), context, master, os.pathsep.join(map(str, files)))
    if master:
        return Connection(server=_checked_server(master, "--master", {}, {}), source="--master")
    found = in_cluster(env, service_account)
    if found is not None:
        return found
    if listed:
        names = os.pathsep.join(map(str, listed))
        raise KubeconfigError(f'KUBECONFIG names "{names}", which does not exist; correct it')
    raise KubeconfigError(
        "no API server given: pass --kubeconfig FILE, or set KUBECONFIG, or create ~/.kube/config "
        "(this is not a pod with a service account either); `bayplan up` starts a cluster"
    )


def in_cluster(
    env: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> Connection | None:
    """Return the connection of a pod's service account, or None outside a pod."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    token = service_account / "token"
    if not (host and port and token.is_file()):
        return None
    namespace_file = service_account / "namespace"
    namespace = env.get("POD_NAMESPACE", "")
    if not namespace and namespace_file.is_file():
        namespace = namespace_file.read_text().strip()
    ca = service_account / "ca.crt"
    shown = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{shown}:{port}",
        namespace=namespace or "default",
        ca_file=str(ca) if ca.is_file() else "",
        token_file=str(token),
        source="in-cluster",
    )


def _read(file: Path) -> Tree:
    try:
        tree = strip_nulls(yaml.load(file.read_text(), Loader=_Loader))
    except OSError as problem:
        raise KubeconfigError(f'reading kubeconfig "{file}": {reason(problem)}') from problem
    except UnicodeDecodeError as problem:
        raise KubeconfigError(f'reading kubeconfig "{file}": it is not text') from problem
    except yaml.YAMLError as problem:
        where = getattr(problem, "problem_mark", None)
        line = f" at line {where.line + 1}" if where else ""
        text = getattr(problem, "problem", None) or "not YAML"
        raise KubeconfigError(f'reading kubeconfig "{file}"{line}: {text}; fix the file') from None
    if not tree:
        return {}
    if not isinstance(tree, dict):
        raise KubeconfigError(
            f'reading kubeconfig "{file}": expected a mapping with clusters, users and contexts'
        )
    return _absolute(tree, file.parent.absolute())


def _absolute(tree: Tree, base: Path) -> Tree:
    """Make the paths of one file absolute, before files are merged."""
    for cluster in _named(tree, "clusters", "cluster").values():
        _resolve(cluster, "certificate-authority", base)
    for user in _named(tree, "users", "user").values():
        for key in ("client-certificate", "client-key", "tokenFile"):
            _resolve(user, key, base)
        plugin = user.get("exec")
        if isinstance(plugin, dict):
            plugin["-directory"] = str(base)
    return tree


def _resolve(entry: Tree, key: str, base: Path) -> None:
    if entry.get(key):
        entry[key] = str(base / entry[key])


def _named(tree: Tree, section: str, inner: str) -> dict[str, Tree]:
    """Return the entries of a named list; the first of a name wins."""
    found: dict[str, Tree] = {}
    items = tree.get(section)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(item.get(inner), dict):
            found.setdefault(str(item.get("name", "")), item[inner])
        elif isinstance(item, dict) and item.get("name"):
            found.setdefault(str(item["name"]), {})
    return found


def _merge(trees: list[Tree]) -> Tree:
    merged: Tree = {"current-context": ""}
    for section in ("clusters", "users", "contexts"):
        merged[section] = [item for tree in trees for item in _items(tree, section)]
    for tree in trees:
        merged["current-context"] = merged["current-context"] or tree.get("current-context") or ""
    return merged


def _items(tree: Tree, section: str) -> list[Tree]:
    items = tree.get(section)
    return items if isinstance(items, list) else []


def _from_tree(tree: Tree, context: str, master: str, source: str) -> Connection:
    contexts = _named(tree, "contexts", "context")
    chosen = context or tree.get("current-context") or ""
    if chosen and chosen not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise KubeconfigError(
            f'kubeconfig "{source}": context "{chosen}" does not exist; contexts there: {known}'
        )
    if not chosen:
        if master:
            server = _checked_server(master, "--master", {}, {})
            return Connection(server=server, source=source)
        if not contexts:
            raise KubeconfigError(f'kubeconfig "{source}" has no contexts; is it a kubeconfig?')
        raise KubeconfigError(
            f'kubeconfig "{source}": current-context is not set; '
            "run `kubectl config use-context NAME`"
        )
    where = contexts[chosen]
    cluster = _entry(tree, "clusters", "cluster", where.get("cluster", ""), chosen, source)
    user = _entry(tree, "users", "user", where["user"], chosen, source) if where.get("user") else {}
    server = master or cluster.get("server", "")
    if not server:
        raise KubeconfigError(
            f'kubeconfig "{source}": cluster "{where.get("cluster")}" has no server; '
            "set clusters[].cluster.server"
        )
    server = _checked_server(server, source, cluster, user)
    return _build(server, where, cluster, user, source)


def _entry(tree: Tree, section: str, inner: str, name: str, context: str, source: str) -> Tree:
    entries = _named(tree, section, inner)
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise KubeconfigError(
            f'kubeconfig "{source}": context "{context}" names {inner} "{name}", which does not '
            f"exist; {section} there: {known}"
        )
    return entries[name]


def _build(server: str, context: Tree, cluster: Tree, user: Tree, source: str) -> Connection:
    if user.get("auth-provider"):
        name = user["auth-provider"].get("name", "?")
        raise KubeconfigError(
            f'kubeconfig "{source}": auth-provider "{name}" is not supported (kubectl dropped '
            "them too); use an exec plugin, for example gke-gcloud-auth-plugin or kubelogin"
        )
    insecure = _flag(cluster, "insecure-skip-tls-verify")
    if insecure and (
        cluster.get("certificate-authority") or cluster.get("certificate-authority-data")
    ):
        raise KubeconfigError(
            f'kubeconfig "{source}": insecure-skip-tls-verify excludes certificate-authority; '
            "remove one of the two"
        )
    return Connection(
        server=server,
        namespace=context.get("namespace") or "default",
        ca_file=cluster.get("certificate-authority", ""),
        ca_data=_decoded(cluster, "certificate-authority-data", source),
        insecure=insecure,
        tls_server_name=cluster.get("tls-server-name", ""),
        proxy_url=cluster.get("proxy-url", ""),
        compression=not _flag(cluster, "disable-compression"),
        cert_file=user.get("client-certificate", ""),
        cert_data=_decoded(user, "client-certificate-data", source),
        key_file=user.get("client-key", ""),
        key_data=_decoded(user, "client-key-data", source),
        token=user.get("token", ""),
        token_file=user.get("tokenFile", ""),
        username=user.get("username", ""),
        password=user.get("password", ""),
        exec_plugin=_exec(user, source),
        impersonate=_impersonation(user),
        source=source,
    )


def _exec(user: Tree, source: str) -> ExecPlugin | None:
    plugin = user.get("exec")
    if not isinstance(plugin, dict):
        return None
    if not plugin.get("command"):
        raise KubeconfigError(f'kubeconfig "{source}": users[].user.exec has no command; set it')
    version = plugin.get("apiVersion", "")
    known = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
    if version not in known:
        raise KubeconfigError(
            f'kubeconfig "{source}": exec apiVersion "{version}" is not known; use {known[0]}'
        )
    return ExecPlugin(
        command=plugin["command"],
        args=tuple(str(arg) for arg in plugin.get("args") or ()),
        env=tuple((str(e.get("name")), str(e.get("value", ""))) for e in plugin.get("env") or ()),
        api_version=version,
        install_hint=plugin.get("installHint", "").strip(),
        provide_cluster_info=_flag(plugin, "provideClusterInfo"),
        directory=plugin.get("-directory", ""),
    )


def _impersonation(user: Tree) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if user.get("as"):
        headers.append(("impersonate-user", user["as"]))
    if user.get("as-uid"):
        headers.append(("impersonate-uid", user["as-uid"]))
    headers += [("impersonate-group", group) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"impersonate-extra-{key.lower()}", value) for value in values]
    return tuple(headers)


def _flag(entry: Tree, key: str) -> bool:
    return str(entry.get(key, "")).lower() == "true"


def _decoded(entry: Tree, key: str, source: str) -> bytes:
    text = entry.get(key, "")
    try:
        return base64.b64decode(text, validate=False) if text else b""
    except (binascii.Error, ValueError) as problem:
        raise KubeconfigError(f'kubeconfig "{source}": {key} is not base64: {problem}') from None


def content(path: str, what: str) -> bytes:
    """Return what is in a file that a kubeconfig names as `what`; nothing where it names none."""
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise KubeconfigError(
            f'reading {what} "{path}": {problem.strerror}; check {what} in the kubeconfig'
        ) from problem


# What a kubeconfig says of TLS or of a credential; with any of it a bare HOST:PORT means HTTPS.
_SECURE = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
_SECRET = (
    "client-certificate",
    "client-certificate-data",
    "token",
    "tokenFile",
    "exec",
    "username",
)


def _checked_server(server: str, source: str, cluster: Tree, user: Tree) -> str:
    if "://" not in server:
        secure = any(cluster.get(key) for key in _SECURE) or any(user.get(key) for key in _SECRET)
        secure = secure or server.endswith(":443")
        server = f"{'https' if secure else 'http'}://{server}"
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f'{source}: server "{server}" must begin with https:// or http://')
    if "@" in (place := server.split("/")[2]):  # which every message about it would print
        raise KubeconfigError(
            f'{source}: server "{place.rpartition("@")[2]}" must not be written behind a user name '
            "and password; write them into users[].user.username and password"
        )
    if not _is_address(server):
        raise KubeconfigError(
            f'{source}: server "{server}" is no address of a server; write https://HOST:PORT'
        )
    return server.rstrip("/")


def _is_address(server: str) -> bool:
    try:
        url = urlsplit(server)
        return bool(url.hostname) and url.port != 0
    except ValueError:  # of a port or brackets
        return False
