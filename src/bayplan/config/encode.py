"""Turns a configuration back into the JSON data of a file."""

import base64
import enum
from typing import Any

import msgspec

from bayplan.api.duration import Duration
from bayplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration, PluginConfig

# Where Go leaves out the zero value (`omitempty`); everywhere else it is written.
_OMIT_EMPTY: tuple[object, ...] = (None, "", b"", (), {}, False, 0)
_ALWAYS = frozenset(
    {
        "ClientConnectionConfiguration",
        "DefaultPreemptionArgs",
        "InterPodAffinityArgs",
        "KubeSchedulerConfiguration",
        "LeaderElectionConfiguration",
        "UtilizationShapePoint",
    }
)
_MAY_GO = ("delayCacheUntilActive", "extenders")


def to_data(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The data of a file that, loaded, gives this configuration again."""
    body = _encode(config)
    assert isinstance(body, dict)
    return {"apiVersion": API_VERSION, "kind": KIND, **body}


def _encode(value: object) -> Any:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, PluginConfig):
        return _plugin_config(value)
    if isinstance(value, msgspec.Struct):
        always = type(value).__name__ in _ALWAYS
        pairs = (
            (field.encode_name, getattr(value, field.name))
            for field in msgspec.structs.fields(value)
        )
        return {
            name: _encode(item)
            for name, item in pairs
            if item is not None and (item not in _OMIT_EMPTY or (always and name not in _MAY_GO))
        }
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plugin_config(config: PluginConfig) -> dict[str, Any]:
    if config.args is None:
        return {"name": config.name}
    args = _encode(config.args)
    if isinstance(config.args, msgspec.Struct):
        args = {"apiVersion": API_VERSION, "kind": type(config.args).__name__, **args}
    return {"name": config.name, "args": args}
