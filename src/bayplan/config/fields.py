"""Problems of a configuration, worded as Kubernetes' field errors.

Each helper returns one text that begins with the path of the field, such as
`profiles[0].schedulerName: Required value`. Validators return lists of them; `InvalidConfig`
carries the whole list, so that a user sees every problem at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bayplan.api.duration import Duration
from bayplan.errors import ConfigError

if TYPE_CHECKING:
    from bayplan.config.types import KubeSchedulerConfiguration

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_NAME_HINT = (
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_HINT = (
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_DNS_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character"
)


class InvalidConfig(ConfigError):
    """A configuration with one or more problems; `problems` lists them all."""

    def __init__(
        self,
        problems: Sequence[str],
        source: str = "",
        config: KubeSchedulerConfiguration | None = None,
    ) -> None:
        """`source` names the file, where there is one; `config` is what could be read of it."""
        self.config = config
        self.warnings: tuple[str, ...] = ()
        self.problems = tuple(dict.fromkeys(problems))
        text = self.problems[0] if len(self.problems) == 1 else f"[{', '.join(self.problems)}]"
        super().__init__(f'loading configuration "{source}": {text}' if source else text)


def show(value: object) -> str:
    """A bad value as Go prints it in a field error."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Duration):
        return f'"{value}"'
    return json.dumps(
        msgspec.to_builtins(value, enc_hook=str), ensure_ascii=False, separators=(",", ":")
    )


def invalid(path: str, value: object, detail: str) -> str:
    return f"{path}: Invalid value: {show(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {show(value)}"


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: object, supported: Iterable[str]) -> str:
    known = ", ".join(f'"{name}"' for name in supported)
    return f"{path}: Unsupported value: {show(value)}: supported values: {known}"


def label_name_problems(name: str) -> list[str]:
    """What is wrong with a label key or resource name (`prefix/name`), if anything."""
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_NAME_RULE} {_NAME_HINT} with an optional DNS subdomain prefix "
            "and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in dns_problems(prefix)]
    if not rest:
        problems.append("name part must be non-empty")
    elif len(rest.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, rest):
        problems.append(f"name part {_NAME_RULE} {_NAME_HINT}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """What is wrong with a label's value, if anything."""
    problems = []
    if len(value.encode()) > 63:
        problems.append("must be no more than 63 bytes")
    if value and not re.fullmatch(_NAME, value):
        problems.append(f"{_LABEL_RULE} {_LABEL_HINT}")
    return problems


def dns_problems(name: str) -> list[str]:
    """What is wrong with a DNS subdomain, if anything."""
    problems = []
    if len(name) > 253:
        problems.append("must be no more than 253 bytes")
    if not re.fullmatch(_DNS, name):
        problems.append(f"{_DNS_RULE} (e.g. 'example.com', regex used for validation is '{_DNS}')")
    return problems
