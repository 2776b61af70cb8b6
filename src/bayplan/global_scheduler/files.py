"""Reads CONFIG_BASE: conf.yaml, the policy, region.yaml and the inventory files, with all problems.

Both generations of file names are known (`sites.json` or `site_infos.json`, `site_nodes.json` or
`site_resources.json`). `${PWD}` and other variables are expanded in paths. A change of
any file shows in `newest_change`; a broken one is reported and the caller keeps what it had.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from bayplan.api import yaml
from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler import inventory as inv
from bayplan.global_scheduler.fields import Fields, Json, Problem

T = TypeVar("T")

INVENTORY_FILES = (
    ("sites.json", "site_infos.json"),
    ("site_nodes.json", "site_resources.json"),
    ("flavors.json",),
    ("eip_pools.json",),
    ("volume_pools.json",),
    ("volume_types.json",),
    ("quotas.json",),
)
Change = tuple[tuple[str, int, int], ...]
OPTIONAL = frozenset({"eip_pools.json", "volume_pools.json", "volume_types.json", "quotas.json"})


class Conf(msgspec.Struct, frozen=True):
    """conf.yaml."""

    address: str = "0.0.0.0"
    port: int = 8443
    policy_file: str = ""
    kubeconfig: str = ""
    master: str = ""
    spot_fake: bool = False
    spot_regions: Mapping[str, str] = {}
    honour_reserved: bool = False
    ttl_seconds: float = 60.0
    pack_hosts: bool = False
    replace_lost_after: float = 0.0


class PolicyEntry(msgspec.Struct, frozen=True):
    """One plugin named by the policy file."""

    name: str
    weight: int = 1


class Policy(msgspec.Struct, frozen=True):
    """edgecloud_policy.yaml: which filters run, in order, and which scores with which weight."""

    predicates: tuple[PolicyEntry, ...] = ()
    priorities: tuple[PolicyEntry, ...] = ()


class Base(msgspec.Struct, frozen=True):
    """Everything that was read from a CONFIG_BASE directory."""

    conf: Conf
    policy: Policy
    inventory: inv.Inventory


def load(directory: Path) -> tuple[Base, list[Problem]]:
    """Read everything; the problems say whether it may be used."""
    _must_be_there(directory)
    problems: list[Problem] = []
    conf = read_conf(directory, problems)
    return (
        Base(
            conf=conf,
            policy=read_policy(directory, conf, problems),
            inventory=read_inventory(directory, conf, problems),
        ),
        problems,
    )


def must_load(directory: Path) -> Base:
    """Read everything, or raise one error that lists all problems."""
    base, problems = load(directory)
    if problems:
        raise ConfigError("; ".join(str(problem) for problem in problems[:20]))
    return base


def newest_change(directory: Path) -> Change:
    """A value that changes when any file of the directory does."""
    _must_be_there(directory)
    return tuple(
        sorted(
            (entry.name, entry.stat().st_mtime_ns, entry.stat().st_size)
            for entry in os.scandir(directory)
            if entry.is_file()
        )
    )


def last_change(path: str) -> tuple[str, int, int]:
    """A value that changes when a file does, or comes or goes."""
    try:
        stat = os.stat(path)
    except OSError:
        return path, 0, -1
    return path, stat.st_mtime_ns, stat.st_size


def _must_be_there(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigError(
            f"{directory} is not a directory; `bayplan global init {directory}` writes a sample"
        )


def document(path: Path, problems: list[Problem]) -> Fields | None:
    """What a file says; None, with a problem, when it cannot be read."""
    if path.exists() and not path.is_file():  # into a pipe nobody may ever write
        problems.append(Problem("", "cannot be read: it is not a file", path.name))
        return None
    try:
        data: Json = yaml.load(path.read_bytes())
    except OSError as cause:
        problems.append(Problem("", f"cannot be read: {cause.strerror}", path.name))
    except BayplanError as cause:
        problems.append(Problem("", str(cause), path.name))
    else:
        if data is not None:
            return Fields(data, problems, file=path.name)
        problems.append(Problem("", "is empty", path.name))  # perhaps it is just being written
    return None


def expand(text: str, directory: Path) -> str:
    """Expand variables in a path; ${PWD} is the directory above CONFIG_BASE, as in the demo."""
    variables = {**os.environ, "PWD": str(directory.resolve().parent)}
    for name, value in variables.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def read_conf(directory: Path, problems: list[Problem]) -> Conf:
    """conf.yaml."""
    fields = document(directory / "conf.yaml", problems)
    if fields is None:
        return Conf()
    port = fields.integer("port", default=8443, least=0)
    if port > 65535:
        fields.problem("port", f"must be below 65536, got {port}")
    if fields.raw("address") == "":
        fields.problem("address", "must not be empty; 0.0.0.0 means all interfaces")
    return Conf(
        address=fields.text("address", default="0.0.0.0"),
        port=port,
        policy_file=expand(fields.text("scheduler_policy_file", required=True), directory),
        kubeconfig=expand(fields.text("kubeconfig"), directory),
        master=fields.text("master"),
        spot_fake=fields.boolean("spot_fake"),
        spot_regions={
            entry.text("region", required=True): entry.text("spot_region", required=True)
            for entry in fields.items("spot_region_mapping")
        },
        honour_reserved=fields.boolean("honour_reserved_percentage"),
        replace_lost_after=fields.number("replace_lost_after_seconds", least=0.0),
        pack_hosts=fields.boolean("pack_hosts"),
        ttl_seconds=fields.number("reservation_ttl_seconds", default=60.0, least=0.001),
    )


def read_policy(directory: Path, conf: Conf, problems: list[Problem]) -> Policy:
    """The policy file that conf.yaml names; a path that does not exist is looked for beside it."""
    path = Path(conf.policy_file or "edgecloud_policy.yaml")
    if not path.is_absolute() or not path.exists():
        path = directory / path.name
    fields = document(path, problems)
    if fields is None:
        return Policy()
    return Policy(_entries(fields, "predicates"), _entries(fields, "priorities"))


def _entries(fields: Fields, name: str) -> tuple[PolicyEntry, ...]:
    entries: list[PolicyEntry] = []
    for item in fields.items(name):
        plugin = item.text("name", required=True)
        if any(entry.name == plugin for entry in entries):
            item.problem("name", f'"{plugin}" is listed twice')
        entries.append(PolicyEntry(plugin, item.integer("weight", least=0) or 1))
    return tuple(entries)


def read_inventory(directory: Path, conf: Conf, problems: list[Problem]) -> inv.Inventory:
    """The inventory files."""
    documents: dict[str, Fields | None] = {}
    for names in INVENTORY_FILES:
        found = next((name for name in names if (directory / name).exists()), names[0])
        if names[0] in OPTIONAL and not (directory / found).exists():
            documents[names[0]] = None
        else:
            documents[names[0]] = document(directory / found, problems)

    def each(name: str, *keys: str) -> Iterable[Fields]:
        fields = documents[name]
        return fields.items(*keys, required=True) if fields else ()

    return read_parts(each, conf)


def read_parts(each: Callable[..., Iterable[Fields]], conf: Conf) -> inv.Inventory:
    """An inventory from the entries that `each` finds, by file and key."""
    sites = _unique(
        ((f, inv.read_site(f)) for f in each("sites.json", "sites", "site_infos")), lambda s: s.id
    )
    flavors = _unique(
        ((f, inv.read_flavor(f)) for f in each("flavors.json", "flavors")),
        lambda flavor: f"{flavor.region}|{flavor.id}",
    )
    return inv.Inventory(
        sites=tuple(sites),
        hosts=tuple(
            host
            for f in each("site_nodes.json", "site_nodes", "site_resources")
            for host in inv.read_hosts(f, pack=conf.pack_hosts)
        ),
        flavors=tuple(flavors),
        eip_pools=tuple(
            pool for f in each("eip_pools.json", "eip_pools") for pool in inv.read_eip_pools(f)
        ),
        volume_pools=tuple(
            pool
            for f in each("volume_pools.json", "volume_pools")
            for pool in inv.read_volume_pools(f, honour_reserved=conf.honour_reserved)
        ),
        volume_types=frozenset(
            f.text("name", required=True) for f in each("volume_types.json", "volume_types")
        ),
        quotas=tuple(inv.read_quota(f) for f in each("quotas.json", "quotas")),
    )


def _unique(entries: Iterable[tuple[Fields, T]], key: Callable[[T], str]) -> Iterable[T]:
    seen: set[str] = set()
    for fields, entry in entries:
        identity = key(entry)
        if identity in seen:
            fields.problem("", f'"{identity}" is listed twice')
        seen.add(identity)
        yield entry
