"""Reads the body of an allocation request and says everything that is wrong with it, by path.

Keys are taken in any case and unknown ones are ignored, as in the original. What the original left
to crash (no count, no resources, no flavors) is an error here or has a default.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from bayplan.global_scheduler.fields import Fields, Json, Problem
from bayplan.global_scheduler.stack import (
    ALONE,
    CENTRALIZE,
    DISCRETE,
    Allocation,
    FlavorChoice,
    Geo,
    Latency,
    RegionChoice,
    Requirement,
    Residency,
    Resource,
    Selector,
    SpotRequest,
    Spread,
    Stack,
    Strategy,
)
from bayplan.global_scheduler.strategy import ANYHOW

NAME = re.compile(r"[a-zA-Z0-9_.一-龥-]*")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NAME_LIMIT = 64
MAX_REPLICAS = 100_000
"""Of all resources that are placed together, each with its own."""
MAX_COUNT = 1_000_000
MAX_TOGETHER = 100
"""Allocations of one request."""
MAX_RESOURCES = 32
MAX_FLAVORS = 64
FEW, MANY = 16, 1000
"""Entries of lists that are tried or asked one by one, and of those that are only looked into."""
LOCATION_STRATEGIES = ("", CENTRALIZE, DISCRETE)
REGION_STRATEGIES = ("", ALONE)
VALUES_OF = {
    "in": (1, None),
    "notin": (1, None),
    "=": (1, 1),
    "==": (1, 1),
    "!=": (1, 1),
    "exists": (0, 0),
    "!": (0, 0),
    "gt": (1, 1),
    "lt": (1, 1),
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


SPREAD = {name: (name, _camel(name)) for name in Spread.__struct_fields__}


def read_allocation(
    body: Json, *, flavors: Collection[str], volume_types: Collection[str], new_id: str
) -> tuple[Allocation, list[Problem]]:
    """Read `{"allocation": …}`; use the result only if there is no problem."""
    problems: list[Problem] = []
    document = Fields(body, problems)
    if not document.has("allocation"):
        document.problem("allocation", "is missing")
    fields = document.object("allocation")
    identity = fields.text("id") or new_id
    if not UUID.fullmatch(identity):
        fields.problem("id", f'must be a lower-case UUID, got "{identity}"')
    replicas = read_number(fields, "replicas", MAX_REPLICAS)
    if not fields.has("resource_group"):
        fields.problem("resource_group", "is missing")
    wanted = fields.object("selector")
    selector = read_selector(wanted)
    _check_spread(wanted, selector, replicas)
    allocation = Allocation(
        id=identity,
        stack=read_stack(fields.object("resource_group"), flavors, volume_types),
        selector=selector,
        replicas=replicas,
        domain=fields.text("domain_id"),
        priority=fields.integer("priority"),
        preempt=fields.boolean("preempt"),
        alternatives=tuple(_alternatives(fields, replicas)),
        starts_at=_moment(fields, "starts_at"),
        ends_at=_moment(fields, "ends_at"),
    )
    check_size(fields, "replicas", [allocation])
    if allocation.ends_at and allocation.ends_at <= allocation.starts_at:
        fields.problem("ends_at", "must be after starts_at")
    return allocation, problems


def check_size(fields: Fields, name: str, wanted: Iterable[Allocation]) -> None:
    """What is placed together is bounded, as it is placed in one step."""
    placed = sum(one.replicas * len(one.stack.resources) for one in wanted)
    if placed > MAX_REPLICAS:
        text = f"ask for {placed} resources, each counted in every replica; at most {MAX_REPLICAS}"
        fields.problem(name, f"{text} are possible")


def read_number(fields: Fields, name: str, most: int) -> int:
    """How many replicas or machines: from one, which it is when nothing is said, up to a limit."""
    number = fields.integer(name, default=1)
    if not 1 <= number <= most:
        fields.problem(name, f"must be from 1 to {most}, got {number}")
        return 1
    return number


def _alternatives(fields: Fields, replicas: int) -> Iterator[Selector]:
    for item in fields.items("alternatives", most=FEW):
        selector = read_selector(item)
        _check_spread(item, selector, replicas)
        yield selector


def _moment(fields: Fields, name: str) -> float:
    """A time as text (RFC 3339) or seconds since 1970; 0 when it is absent."""
    value = fields.raw(name)
    if not isinstance(value, str):
        return fields.number(name, least=0.0)
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        fields.problem(name, f'expected a time such as 2026-01-31T12:00:00Z, got "{value}"')
        return 0.0


def _name(fields: Fields, key: str, value: str) -> str:
    if not value:
        fields.problem(key, "must not be empty")
    elif len(value) > NAME_LIMIT or not NAME.fullmatch(value):
        fields.problem(
            key,
            f"must be at most {NAME_LIMIT} letters, digits or one of _ . -, got "
            f'"{value[: NAME_LIMIT + 1]}"',
        )
    return value


def read_stack(fields: Fields, flavors: Collection[str], volume_types: Collection[str]) -> Stack:
    """The resource group of a request."""
    labels: dict[str, str] = {}
    for key, value in fields.mapping("labels", most=MANY).items():
        if not isinstance(value, str):
            fields.problem(f"labels.{key}", "expected text")
            continue
        _name(fields, f"labels.{key}", key)
        labels[key] = _name(fields, f"labels.{key}", value)
    items = fields.items("resources", most=MAX_RESOURCES)
    resources = [read_resource(item, flavors, volume_types) for item in items]
    if not fields.raw("resources"):
        fields.problem("resources", "must have at least one entry")
    return Stack(
        name=_name(fields, "name", fields.text("name")), resources=tuple(resources), labels=labels
    )


def read_resource(
    fields: Fields, flavors: Collection[str], volume_types: Collection[str]
) -> Resource:
    """One resource of a stack."""
    count = read_number(fields, "count", MAX_COUNT)
    choices = read_flavor_choices(fields, flavors)
    return Resource(
        name=_name(fields, "name", fields.text("name")),
        flavors=choices,
        count=count,
        resource_type=fields.text("resource_type", default="vm"),
        storage=_read_storage(fields, volume_types),
        need_eip=fields.boolean("need_eip"),
        max_per_host=fields.integer("max_per_host", "maxPerHost", least=0),
    )


def _read_storage(fields: Fields, volume_types: Collection[str]) -> dict[str, int]:
    storage: dict[str, int] = {}
    reader = fields.object("storage")
    for key in fields.mapping("storage", most=MANY):
        size = reader.integer(key)
        if key not in volume_types:
            known = ", ".join(sorted(volume_types)) or "none"
            fields.problem(f"storage.{key}", f"is not a known volume type; there are: {known}")
        elif size <= 0:
            fields.problem(f"storage.{key}", f"must be above 0, got {size}")
        else:
            storage[key] = size
    return storage


def read_flavor_choices(fields: Fields, flavors: Collection[str]) -> tuple[FlavorChoice, ...]:
    """The acceptable flavors, best first."""
    if not fields.raw("flavors"):
        fields.problem("flavors", "must have at least one entry")
    items = fields.items("flavors", most=MAX_FLAVORS)
    return tuple(_read_flavor_choice(item, flavors) for item in items)


def _read_flavor_choice(fields: Fields, flavors: Collection[str]) -> FlavorChoice:
    """One acceptable flavor."""
    flavor = fields.text("flavor_id", "flavorID", required=True)
    if flavor and flavor not in flavors:
        fields.problem("flavor_id", f'"{flavor}" is not offered in any region')
    if not fields.has("spot"):
        return FlavorChoice(flavor)
    spot = fields.object("spot")
    hours = spot.integer("spot_duration_hours", "spotDurationHours", least=0)
    return FlavorChoice(
        flavor,
        SpotRequest(
            max_price=spot.text("max_price", "maxPrice"),
            spot_duration_hours=hours,
            spot_duration_count=spot.integer(
                "spot_duration_count", "spotDurationCount", default=1, least=1
            ),
            interruption_policy=spot.text(
                "interruption_policy", "interruptionPolicy", default="immediate"
            ),
        ),
    )


def read_selector(fields: Fields) -> Selector:
    """Which sites may be chosen."""
    geo = fields.object("geo_location", "geoLocation")
    strategy = fields.object("strategy")
    location = strategy.text("location_strategy", "localStrategy")
    region = strategy.text("region_strategy", "regionStrategy")
    if location not in LOCATION_STRATEGIES:
        strategy.problem(
            "location_strategy", f'"{location}" is not supported; use centralize or discrete'
        )
    if region not in REGION_STRATEGIES:
        strategy.problem("region_strategy", f'"{region}" is not supported; use alone or leave it')
    residency = fields.object("residency")
    return Selector(
        geo_location=(
            Geo(geo.text("country"), geo.text("area"), geo.text("province"), geo.text("city"))
            if geo
            else Geo()
        ),
        regions=tuple(
            RegionChoice(
                entry.text("region"),
                # one generation of the original spells it `availablityZone`
                tuple(
                    entry.texts(
                        "availability_zone", "availabilityZone", "availablityZone", most=MANY
                    )
                ),
            )
            for entry in fields.items("regions", most=MANY)
        ),
        operator=fields.text("operator"),
        site_id=fields.text("site_id", "node_id", "siteID"),
        strategy=Strategy(location, region),
        residency=Residency(
            tuple(residency.texts("countries", most=MANY)),
            tuple(residency.texts("except_countries", "exceptCountries", most=MANY)),
        ),
        latency=tuple(_latency(item) for item in fields.items("latency", most=FEW)),
        max_price=(
            fields.number("max_price", "maxPrice", least=0.0)
            if fields.has("max_price", "maxPrice")
            else None
        ),
        spread=_read_spread(fields.object("spread")),
        stack_affinity=_requirements(fields, "stack_affinity", "stackAffinity"),
        stack_antiaffinity=_requirements(fields, "stack_antiaffinity", "stackAntiAffinity"),
    )


def _latency(fields: Fields) -> Latency:
    if not fields.has("max_ms", "maxMs"):
        fields.problem("max_ms", "is missing")
    return Latency(fields.text("to", required=True), fields.number("max_ms", "maxMs", least=0.0))


def _read_spread(fields: Fields) -> Spread:
    if not fields:
        return Spread()
    return Spread(**{name: fields.integer(*names, least=0) for name, names in SPREAD.items()})


def _check_spread(fields: Fields, selector: Selector, replicas: int) -> None:
    """What no inventory could satisfy is said at once."""
    apart = selector.spread
    if apart == ANYHOW:
        return
    for name in ("min_sites", "min_zones", "min_regions"):
        if getattr(apart, name) > replicas:
            wanted = getattr(apart, name)
            fields.problem(f"spread.{name}", f"is {wanted}, but there are {replicas} replicas")
    if selector.strategy.region_strategy == ALONE and apart.min_regions > 1:
        fields.problem("spread.min_regions", "contradicts the region strategy alone")
    if selector.site_id and max(apart.min_sites, apart.min_zones, apart.min_regions) > 1:
        fields.problem("spread", "contradicts the one site that node_id names")


def _requirements(fields: Fields, *names: str) -> tuple[Requirement, ...]:
    result = []
    for item in fields.items(*names, most=FEW):
        operator = item.text("operator", required=True)
        values = tuple(item.texts("values", most=MANY))
        if operator and operator not in VALUES_OF:
            known = " ".join(VALUES_OF)
            item.problem("operator", f'"{operator}" is not supported; use one of: {known}')
        elif operator:
            _check_values(item, operator, values)
        result.append(Requirement(item.text("key", required=True), operator, values))
    return tuple(result)


def _check_values(item: Fields, operator: str, values: tuple[str, ...]) -> None:
    least, most = VALUES_OF[operator]
    if len(values) < least or (most is not None and len(values) > most):
        wanted = "no values" if most == 0 else "exactly one value" if most else "at least one value"
        item.problem("values", f"operator {operator} takes {wanted}, got {len(values)}")
    elif operator in ("gt", "lt") and not re.fullmatch(r"-?\d+", values[0]):
        item.problem("values", f'operator {operator} takes a whole number, got "{values[0]}"')
