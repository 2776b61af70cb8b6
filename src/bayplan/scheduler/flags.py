"""kube-scheduler's command line: every flag of v1.36 and of older manifests, and a few of our own.

Parsing follows pflag: `--flag value`, `--flag=value`, `-v=2`, `-v2`, a boolean alone or `=false`,
and underscores for dashes. A flag that means nothing here is accepted and named in a warning, so
that a manifest written for kube-scheduler starts unchanged; a flag that nobody knows is an error.

This module only reads text; `options` turns the values into a configuration.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bayplan.config import VERSIONS, parse_duration, parse_gates, parse_version
from bayplan.errors import ConfigError, DecodeError
from bayplan.framework.contract.extender import AHEAD

Kind = Literal["string", "bool", "int", "float", "duration", "list", "file"]


class Flag(msgspec.Struct, frozen=True):
    """One flag; `used` is False when it is accepted but has no meaning here."""

    name: str
    kind: Kind = "string"
    default: str = ""
    help: str = ""
    used: bool = True
    words: tuple[str, ...] = ()
    """The only values that there are."""


GROUPS: dict[str, tuple[Flag, ...]] = {
    "misc": (
        Flag("config", "file", help="configuration file (KubeSchedulerConfiguration)"),
        Flag("master", help="address of the API server; overrides the kubeconfig's"),
        Flag("write-config-to", help="write the complete configuration to a file and exit"),
        Flag("plugins", "list", help="modules or files with further plugins"),
        Flag(
            "extender-calls-ahead",
            default="promised",
            help="which extenders are asked about several pods at once: never, promised, always",
            words=AHEAD,
        ),
    ),
    "secure serving": (
        Flag("bind-address", default="0.0.0.0", help="address to serve on"),
        Flag("secure-port", "int", "10259", "port for HTTPS; 0 serves nothing"),
        Flag("port", "int", "0", "port for plain HTTP, as in old manifests; 0 serves nothing"),
        Flag("address", default="", help="address for plain HTTP (default: bind-address)"),
        Flag("cert-dir", help="directory for the generated certificate"),
        Flag("tls-cert-file", "file", help="certificate to serve with"),
        Flag("tls-private-key-file", "file", help="its key"),
        Flag(
            "tls-min-version",
            help="VersionTLS12 or VersionTLS13",
            words=("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
        ),
        Flag("tls-cipher-suites", "list", used=False),
        Flag("tls-curve-preferences", "list", used=False),
        Flag("tls-sni-cert-key", "list", used=False),
        Flag("permit-address-sharing", "bool", "false", used=False),
        Flag("permit-port-sharing", "bool", "false", used=False),
        Flag("http2-max-streams-per-connection", "int", "0", used=False),
        Flag("disable-http2-serving", "bool", "false", used=False),
    ),
    "authentication": (
        Flag("authentication-kubeconfig", "file", help="kubeconfig for TokenReviews"),
        Flag("authentication-skip-lookup", "bool", "false", used=False),
        Flag("authentication-token-webhook-cache-ttl", "duration", "10s", used=False),
        Flag("authentication-tolerate-lookup-failure", "bool", "true", used=False),
        Flag("client-ca-file", "file", help="CA of client certificates"),
        Flag("requestheader-allowed-names", "list", used=False),
        Flag("requestheader-client-ca-file", used=False),
        Flag("requestheader-extra-headers-prefix", "list", used=False),
        Flag("requestheader-group-headers", "list", used=False),
        Flag("requestheader-uid-headers", "list", used=False),
        Flag("requestheader-username-headers", "list", used=False),
        Flag("metrics-token-file", "file", help="a token that may read metrics without asking"),
    ),
    "authorization": (
        Flag("authorization-kubeconfig", "file", help="kubeconfig for SubjectAccessReviews"),
        Flag(
            "authorization-always-allow-paths",
            "list",
            "/healthz,/readyz,/livez",
            "paths that anyone may get",
        ),
        Flag("authorization-webhook-cache-authorized-ttl", "duration", "10s", used=False),
        Flag("authorization-webhook-cache-unauthorized-ttl", "duration", "10s", used=False),
    ),
    "leader election": (
        Flag("leader-elect", "bool", "true", "let one of several schedulers work"),
        Flag("leader-elect-lease-duration", "duration", "15s", "how long a lease lasts"),
        Flag("leader-elect-renew-deadline", "duration", "10s", "when a leader gives up renewing"),
        Flag("leader-elect-retry-period", "duration", "2s", "pause between tries"),
        Flag("leader-elect-resource-lock", default="leases", help="only leases exist"),
        Flag("leader-elect-resource-name", default="kube-scheduler", help="name of the Lease"),
        Flag("leader-elect-resource-namespace", default="kube-system", help="its namespace"),
        Flag("lock-object-name", used=False),
        Flag("lock-object-namespace", used=False),
    ),
    "feature gate": (
        Flag("feature-gates", "list", help="A=true,B=false"),
        Flag(
            "emulated-version", "list", help=f"decide as this version does: {', '.join(VERSIONS)}"
        ),
        Flag("min-compatibility-version", "list", used=False),
        Flag("version", "bool", "false", "print the version and exit"),
    ),
    "metrics": (
        Flag("show-hidden-metrics-for-version", used=False),
        Flag("disabled-metrics", "list", used=False),
        Flag("allow-metric-labels", "list", used=False),
        Flag("allow-metric-labels-manifest", used=False),
    ),
    "logs": (
        Flag("v", "int", "0", "how much to tell; 2 names every pod"),
        Flag("vmodule", "list", used=False),
        Flag("logging-format", default="text", help="text or json", words=("text", "json")),
        Flag("log-flush-frequency", "duration", "5s", used=False),
        Flag("log-json-info-buffer-size", used=False),
        Flag("log-json-split-stream", "bool", "false", used=False),
        Flag("log-text-info-buffer-size", used=False),
        Flag("log-text-split-stream", "bool", "false", used=False),
        Flag("logtostderr", "bool", "true", used=False),
        Flag("alsologtostderr", "bool", "false", used=False),
        Flag("stderrthreshold", used=False),
        Flag("log-dir", used=False),
        Flag("log-file", used=False),
        Flag("log-backtrace-at", used=False),
        Flag("skip-headers", "bool", "false", used=False),
    ),
    "deprecated": (
        Flag("kubeconfig", "file", help="kubeconfig; ignored with --config"),
        Flag("kube-api-qps", "float", "50", "requests a second; ignored with --config"),
        Flag("kube-api-burst", "int", "100", "requests at once; ignored with --config"),
        Flag("kube-api-content-type", used=False),
        Flag("profiling", "bool", "true", "ignored with --config"),
        Flag("contention-profiling", "bool", "true", "ignored with --config"),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            "duration",
            "5m",
            "after this time an unschedulable pod is tried again",
        ),
        Flag("scheduler-name", used=False),
        Flag("algorithm-provider", used=False),
        Flag("policy-config-file", "file", help="old Policy file; use --config", used=True),
        Flag("policy-configmap", help="ConfigMap with an old Policy; use --config", used=True),
        Flag("policy-configmap-namespace", default="kube-system", help="where that ConfigMap is"),
        Flag("use-legacy-policy-config", "bool", "false", used=False),
        Flag("hard-pod-affinity-symmetric-weight", "int", "1", used=False),
    ),
}

FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class Values:
    """What was given on a command line."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.help = False

    def text(self, name: str) -> str:
        """Return the value of a flag, or its default."""
        return self.given.get(name, FLAGS[name].default)

    def boolean(self, name: str) -> bool:
        return self.text(name) in _TRUE

    def integer(self, name: str) -> int:
        return int(self.text(name))

    def number(self, name: str) -> float:
        return float(self.text(name))

    def seconds(self, name: str) -> float:
        return parse_duration(self.text(name)).seconds

    def items(self, name: str) -> list[str]:
        return [part for part in self.text(name).split(",") if part]

    def without_meaning(self) -> list[str]:
        """Return the given flags that are accepted only for compatibility."""
        return [name for name in self.given if not FLAGS[name].used]


def parse(arguments: Sequence[str]) -> Values:
    """Read a command line; raise ConfigError that names the flag."""
    values, rest = Values(), list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            values.help = True
            continue
        if not word.startswith("-") or word == "-":
            raise ConfigError(f'unexpected argument "{word}"; the scheduler takes flags only')
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and not word.startswith("--") and name[:1] == "v" and name[1:].isdigit():
            name, equals, value = "v", "=", name[1:]
        flag = _known(name.replace("_", "-"), word)
        if not equals:
            value = _next(flag, rest)
        _check(flag, value)
        if flag.kind == "list" and flag.name in values.given:
            value = f"{values.given[flag.name]},{value}"
        values.given[flag.name] = value
    _check_together(values)
    return values


def _known(name: str, word: str) -> Flag:
    flag = FLAGS.get(name)
    if flag is None:
        close = difflib.get_close_matches(name, FLAGS, 1)
        hint = f"; did you mean --{close[0]}?" if close else "; see --help for all flags"
        raise ConfigError(f"unknown flag {word.partition('=')[0]}{hint}")
    return flag


def _next(flag: Flag, rest: list[str]) -> str:
    if flag.kind == "bool":
        return "true"
    if not rest:
        raise ConfigError(f"flag --{flag.name} needs a value: --{flag.name}={flag.kind.upper()}")
    return rest.pop(0)


def _check(flag: Flag, value: str) -> None:
    try:
        if flag.kind in ("int", "float"):
            _check_number(flag, value)
        elif flag.kind == "duration":
            parse_duration(value)
        elif flag.kind == "bool" and value not in (*_TRUE, *_FALSE):
            raise ValueError("use true or false")
        elif flag.words and value not in flag.words:
            raise ValueError(f"use {' or '.join(flag.words)}")
    except (ValueError, DecodeError) as problem:
        raise ConfigError(
            f'invalid value "{value}" for flag --{flag.name} ({flag.kind}): {problem}'
        ) from None


def _check_number(flag: Flag, value: str) -> None:
    try:
        number = int(value) if flag.kind == "int" else float(value)
    except ValueError:
        kind = "whole number" if flag.kind == "int" else "number"
        raise ValueError(f"it is no {kind}") from None
    if flag.name.endswith("port") and not 0 <= number <= 65535:
        raise ValueError("a port is between 0 and 65535")


def _check_together(values: Values) -> None:
    """Gates hang on the version."""
    name = "emulated-version"
    try:
        version = parse_version(values.text(name))
        name = "feature-gates"
        parse_gates(values.text(name), version)
    except ConfigError as problem:
        text = values.text(name)
        raise ConfigError(f'invalid value "{text}" for flag --{name}: {problem}') from None


def check_files(values: Values) -> None:
    """Raise ConfigError for a file that is to be read and is not there."""
    unread = ("kubeconfig", "policy-config-file") if values.text("config") else ()
    for name, text in values.given.items():
        if FLAGS[name].kind != "file" or not text or name in unread:
            continue
        wrong = "it is a folder" if Path(text).is_dir() else "it does not exist"
        if Path(text).is_dir() or not Path(text).exists():
            raise ConfigError(f'invalid value "{text}" for flag --{name} (file): {wrong}')


WIDTH, TEXT_AT = 78, 38  # as wide as the help of other commands; where the texts begin
INDENT = " " * TEXT_AT


def usage() -> str:
    """Return the text of --help."""
    lines = [
        "Usage: bayplan scheduler [FLAGS]",
        "",
        "Schedule pods; takes kube-scheduler's place and understands its flags.",
    ]
    for title, group in GROUPS.items():
        used = [flag for flag in group if flag.used]
        lines += ["", f"{title.capitalize()} flags:"] if used else []
        for flag in used:
            default = f" (default {flag.default})" if flag.default else ""
            head, text = f"  {_written(flag)}", f"{flag.help}{default}"
            if len(head) >= TEXT_AT:
                lines.append(head)
                head = ""
            first = head.ljust(TEXT_AT)
            lines += _wrapped(text, first, INDENT)
    idle = ", ".join(_written(flag) for flag in FLAGS.values() if not flag.used)
    lines += ["", "Accepted for compatibility, without meaning here:"]
    lines += _wrapped(idle, "  ", "  ")
    return "\n".join(lines)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def _written(flag: Flag) -> str:
    return f"{'-' if len(flag.name) == 1 else '--'}{flag.name}"
