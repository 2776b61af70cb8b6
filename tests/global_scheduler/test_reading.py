"""What requests and inventories say: every value read, every bound kept, every problem named."""

import pytest

from bayplan.global_scheduler import inventory
from bayplan.global_scheduler.fields import EXACT, Fields
from bayplan.global_scheduler.inventory import EipPool, Flavor, Host, Quota, Site, Spot, VolumePool
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.stack import (
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

ID = "00000000-0000-0000-0000-000000000001"
NONE = object()


def one(reader, value, **more):
    """What a reader makes of a document, and the problems."""
    problems = []
    fields = Fields(value, problems)
    found = reader(fields, **more)
    return found, [str(problem) for problem in problems]


# --- fields ---


def said(method, value, **more):
    body = {} if value is NONE else {"X": value}
    return one(lambda fields: getattr(fields, method)("other", "x", **more), body)


@pytest.mark.parametrize(
    ("method", "value", "more", "found", "problem"),
    [
        ("text", "a", {}, "a", ""),
        ("text", "", {"default": "d"}, "", ""),
        ("text", "", {"required": True}, "", "x: must not be empty"),
        ("text", NONE, {"default": "d"}, "d", ""),
        ("text", NONE, {"required": True}, "", "other: is missing"),
        ("text", None, {"required": True}, "", "other: is missing"),
        ("text", True, {"default": "d"}, "d", "x: expected text, got a boolean"),
        ("text", 5, {}, "5", ""),
        ("text", 1.5, {}, "1.5", ""),
        ("text", [], {"default": "d"}, "d", "x: expected text, got a list"),
        ("text", {}, {}, "", "x: expected text, got an object"),
        ("integer", 5, {}, 5, ""),
        ("integer", NONE, {"default": 7}, 7, ""),
        ("integer", 3, {"least": 3}, 3, ""),
        ("integer", 2, {"least": 3, "default": 9}, 9, "x: must be at least 3, got 2"),
        ("integer", "4", {"least": 4}, 4, ""),
        ("integer", "", {"default": 7}, 7, ""),
        ("integer", 2.0, {}, 2, ""),
        ("integer", 2.5, {}, 2, "x: expected a whole number, got 2.5"),
        ("integer", EXACT - 1, {}, EXACT - 1, ""),
        ("integer", 1 - EXACT, {}, 1 - EXACT, ""),
        ("integer", EXACT, {"default": 7}, 7, f"x: must be below {EXACT}, got 9.0072e+15"),
        ("integer", -EXACT, {"default": 7}, 7, f"x: must be below {EXACT}, got -9.0072e+15"),
        ("integer", True, {"default": 7}, 7, "x: expected a number, got a boolean"),
        ("number", 1.5, {}, 1.5, ""),
        ("number", "1.5", {"least": 1.5}, 1.5, ""),
        ("number", NONE, {"default": 2.0}, 2.0, ""),
        ("number", "", {"default": 2.0}, 2.0, ""),
        ("number", 0, {"default": 2.0}, 0.0, ""),
        ("number", "much", {"default": 2.0}, 2.0, 'x: expected a number, got "much"'),
        ("number", [1], {}, 0.0, "x: expected a number, got a list"),
        ("number", {}, {"default": 2.0}, 2.0, "x: expected a number, got an object"),
        ("number", False, {"default": 2.0}, 2.0, "x: expected a number, got a boolean"),
        ("number", "nan", {"default": 2.0}, 2.0, 'x: expected a number, got "nan"'),
        ("number", "inf", {"default": 2.0}, 2.0, 'x: expected a number, got "inf"'),
        ("number", "-inf", {"default": 2.0}, 2.0, 'x: expected a number, got "-inf"'),
        ("number", 10**400, {"default": 2.0}, 2.0, "x: expected a number, got a number"),
        ("number", 0.5, {"least": 0.6, "default": 2.0}, 2.0, "x: must be at least 0.6, got 0.5"),
        ("boolean", True, {}, True, ""),
        ("boolean", False, {}, False, ""),
        ("boolean", NONE, {}, False, ""),
        ("boolean", "true", {}, False, 'x: expected true or false, got "true"'),
        ("boolean", 1, {}, False, "x: expected true or false, got a number"),
        ("texts", ["a", "b"], {}, ["a", "b"], ""),
        ("texts", NONE, {}, [], ""),
        ("texts", "a", {}, [], "x: expected a list, got text"),
        ("texts", ["a", 1, None], {}, ["a"], "x[1]: expected text, got a number"),
        ("mapping", {"K": 1}, {}, {"K": 1}, ""),
        ("mapping", NONE, {}, {}, ""),
        ("mapping", [], {}, {}, "x: expected an object, got a list"),
        ("has", 0, {}, True, ""),
        ("has", None, {}, False, ""),
        ("has", NONE, {}, False, ""),
        ("raw", 0, {}, 0, ""),
        ("raw", NONE, {}, None, ""),
    ],
)
def test_a_field_is_read_or_its_problem_told(method, value, more, found, problem):
    got, problems = said(method, value, **more)

    assert (found, type(found)) == (got, type(got))
    assert [problem] * bool(problem) == problems[:1]


@pytest.mark.parametrize(
    ("value", "more", "paths", "problems"),
    [
        ([{}, {"a": 1}], {}, ["x[0]", "x[1]"], []),
        ([{}, 5], {}, ["x[0]", "x[1]"], ["x[1]: expected an object, got a number"]),
        ([None], {}, ["x[0]"], []),
        (NONE, {}, [], []),
        (NONE, {"required": True}, [], ["other: is missing"]),
        ({}, {"required": True}, [], ["x: expected a list, got an object"]),
    ],
)
def test_objects_of_a_list_know_their_place(value, more, paths, problems):
    body = {} if value is NONE else {"x": value}

    found = one(lambda fields: [each.path for each in fields.items("other", "x", **more)], body)
    assert (paths, problems) == found


def test_of_two_spellings_the_first_name_asked_and_the_first_written_count():
    fields = Fields({"Name": "a", "name": "b", "alias": "c"}, [])

    assert ["a", "c", "a"] == [
        fields.text("name"),
        fields.text("alias", "name"),
        fields.text("nothing", "NAME"),
    ]
    assert {"name": "a", "alias": "c"} == fields.everything
    assert [True, False] == [bool(fields), bool(Fields({}, []))]


def test_a_problem_is_told_with_its_file_and_the_path_to_it():
    problems = []
    Fields({"a": {"b": {}}}, problems, file="f.json").object("a").object("b").text(
        "c", required=True
    )
    Fields([], problems, file="f.json")

    assert ["f.json: a.b.c: is missing", "f.json: expected an object, got a list"] == [
        str(each) for each in problems
    ]


# --- requests ---


def whole():
    """A request that says everything."""
    selector = {
        "geoLocation": {"country": "de", "area": "west", "province": "nrw", "city": "bonn"},
        "regions": [{"region": "r1", "availablityZone": ["z1", "z2"]}, {"region": "r2"}],
        "operator": "op",
        "node_id": "site-1",
        "strategy": {"localStrategy": "discrete", "regionStrategy": "alone"},
        "residency": {"countries": ["de"], "exceptCountries": ["fr"]},
        "latency": [{"to": "paris", "maxMs": 20}],
        "maxPrice": 0,
        "spread": {"min_sites": 1, "maxPerSite": 2},
        "stackAffinity": [{"key": "app", "operator": "in", "values": ["a", "b"]}],
        "stack_antiaffinity": [{"key": "app", "operator": "exists"}],
    }
    spot = {"maxPrice": "1.5", "spotDurationHours": 2, "interruptionPolicy": "delay"}
    resource = {
        "name": "vm",
        "count": 3,
        "resource_type": "bms",
        "flavors": [{"flavorID": "f1", "spot": spot}, {"flavor_id": "f2"}],
        "storage": {"SSD": 10},
        "need_eip": True,
        "maxPerHost": 1,
    }
    return {
        "id": ID,
        "resource_group": {"name": "g", "labels": {"app": "a"}, "resources": [resource]},
        "selector": selector,
        "replicas": 2,
        "domain_id": "d",
        "priority": -3,
        "preempt": True,
        "alternatives": [{"operator": "other"}],
        "starts_at": 10,
        "ends_at": "1970-01-01T00:00:20",
    }


def read(body):
    found, problems = read_allocation(
        {"allocation": body}, flavors={"f1", "f2"}, volume_types={"SSD"}, new_id=ID
    )
    return found, [str(each).removeprefix("allocation.") for each in problems]


def test_everything_in_a_request_is_read():
    spot = SpotRequest("1.5", 2, 1, "delay")
    resource = Resource(
        "vm", (FlavorChoice("f1", spot), FlavorChoice("f2")), 3, "bms", {"SSD": 10}, True, 1
    )
    selector = Selector(
        geo_location=Geo("de", "west", "nrw", "bonn"),
        regions=(RegionChoice("r1", ("z1", "z2")), RegionChoice("r2", ())),
        operator="op",
        site_id="site-1",
        strategy=Strategy("discrete", "alone"),
        residency=Residency(("de",), ("fr",)),
        latency=(Latency("paris", 20.0),),
        max_price=0.0,
        spread=Spread(min_sites=1, max_per_site=2),
        stack_affinity=(Requirement("app", "in", ("a", "b")),),
        stack_antiaffinity=(Requirement("app", "exists", ()),),
    )
    wanted = Allocation(
        id=ID,
        stack=Stack("g", (resource,), {"app": "a"}),
        selector=selector,
        replicas=2,
        domain="d",
        priority=-3,
        preempt=True,
        alternatives=(Selector(operator="other"),),
        starts_at=10.0,
        ends_at=20.0,
    )

    assert (wanted, []) == read(whole())


def test_a_request_may_say_little():
    body = {
        "resource_group": {
            "name": "g",
            "resources": [{"name": "vm", "flavors": [{"flavor_id": "f1"}]}],
        }
    }
    stack = Stack("g", (Resource("vm", (FlavorChoice("f1"),), 1, "vm"),), {})

    assert (Allocation(id=ID, stack=stack, selector=Selector(), replicas=1), []) == read(body)


def changed(path, value):
    """The whole request with one value put elsewhere, or taken away."""
    body = at = whole()
    *way, last = path
    for step in way:
        at = at[step]
    if value is NONE:
        del at[last]
    else:
        at[last] = value
    return body


@pytest.mark.parametrize(("resources", "replicas"), [(1, 100_000), (2, 50_000), (32, 3125)])
def test_every_resource_of_every_replica_counts(resources, replicas):
    body = changed(("replicas",), replicas)
    one = body["resource_group"]["resources"][0]
    body["resource_group"]["resources"] = [one | {"name": f"r{n}"} for n in range(resources)]
    assert [] == read(body)[1]

    [problem] = read(body | {"replicas": replicas + 1})[1]

    text = "must be from 1 to 100000" if resources == 1 else f"ask for {100_000 + resources} "
    assert problem.startswith(f"replicas: {text}")


RESOURCE = ("resource_group", "resources", 0)
VM = "resource_group.resources[0]"
NAMES = "must be at most 64 letters, digits or one of _ . -, got"
AFFINITY = "selector.stackAffinity[0]"


def wish(operator, *values):
    return [{"key": "app", "operator": operator, "values": list(values)}]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("id", ID[:-1], f'id: must be a lower-case UUID, got "{ID[:-1]}"'),
        ("id", ID[:-1] + "A", f'id: must be a lower-case UUID, got "{ID[:-1]}A"'),
        ("replicas", 0, "replicas: must be from 1 to 100000, got 0"),
        ("replicas", 1, ""),
        ("replicas", 100_000, ""),
        ("replicas", 100_001, "replicas: must be from 1 to 100000, got 100001"),
        ("resource_group", NONE, "resource_group: is missing"),
        ("ends_at", 10, "ends_at: must be after starts_at"),
        ("ends_at", 10.5, ""),
        ("ends_at", 0, ""),
        ("ends_at", NONE, ""),
        (
            "starts_at",
            "soon",
            'starts_at: expected a time such as 2026-01-31T12:00:00Z, got "soon"',
        ),
        ("starts_at", -1, "starts_at: must be at least 0, got -1"),
        (("resource_group", "name"), "", "resource_group.name: must not be empty"),
        (("resource_group", "name"), "n" * 64, ""),
        (("resource_group", "name"), "n" * 65, f'resource_group.name: {NAMES} "{"n" * 65}"'),
        (("resource_group", "name"), "n" * 70, f'resource_group.name: {NAMES} "{"n" * 65}"'),
        (("resource_group", "name"), "a b", f'resource_group.name: {NAMES} "a b"'),
        (("resource_group", "labels"), {"k": 1}, "resource_group.labels.k: expected text"),
        (("resource_group", "labels"), {"k": ""}, "resource_group.labels.k: must not be empty"),
        (("resource_group", "labels"), {"": "v"}, "resource_group.labels.: must not be empty"),
        (
            ("resource_group", "resources"),
            [],
            "resource_group.resources: must have at least one entry",
        ),
        ((*RESOURCE, "count"), 0, f"{VM}.count: must be from 1 to 1000000, got 0"),
        ((*RESOURCE, "count"), 1, ""),
        ((*RESOURCE, "count"), 1_000_000, ""),
        ((*RESOURCE, "count"), 1_000_001, f"{VM}.count: must be from 1 to 1000000, got 1000001"),
        ((*RESOURCE, "flavors"), [], f"{VM}.flavors: must have at least one entry"),
        ((*RESOURCE, "flavors"), [{}], f"{VM}.flavors[0].flavor_id: is missing"),
        (
            (*RESOURCE, "flavors"),
            [{"flavor_id": "f3"}],
            f'{VM}.flavors[0].flavor_id: "f3" is not offered in any region',
        ),
        (
            (*RESOURCE, "flavors", 0, "spot", "spotDurationHours"),
            -1,
            f"{VM}.flavors[0].spot.spotDurationHours: must be at least 0, got -1",
        ),
        (
            (*RESOURCE, "flavors", 0, "spot", "spotDurationCount"),
            0,
            f"{VM}.flavors[0].spot.spotDurationCount: must be at least 1, got 0",
        ),
        ((*RESOURCE, "maxPerHost"), -1, f"{VM}.maxPerHost: must be at least 0, got -1"),
        ((*RESOURCE, "storage"), {"SSD": 1}, ""),
        ((*RESOURCE, "storage"), {"SSD": 0}, f"{VM}.storage.SSD: must be above 0, got 0"),
        (
            (*RESOURCE, "storage"),
            {"X": 1},
            f"{VM}.storage.X: is not a known volume type; there are: SSD",
        ),
        (
            ("selector", "strategy", "localStrategy"),
            "far",
            'selector.strategy.location_strategy: "far" is not supported; '
            "use centralize or discrete",
        ),
        (
            ("selector", "strategy", "regionStrategy"),
            "far",
            'selector.strategy.region_strategy: "far" is not supported; use alone or leave it',
        ),
        (("selector", "latency"), [{"to": "x"}], "selector.latency[0].max_ms: is missing"),
        (("selector", "latency"), [{"max_ms": 1}], "selector.latency[0].to: is missing"),
        (("selector", "maxPrice"), -1, "selector.maxPrice: must be at least 0, got -1"),
        (("selector", "spread"), {"min_sites": 1}, ""),
        (("selector", "spread"), {"max_per_site": -1}, "selector.spread.max_per_site: must be at"),
        *(
            (("selector", "spread"), {name: 2}, f"selector.spread{problem}")
            for name, problem in (
                ("min_sites", ": contradicts the one site that node_id names"),
                ("min_zones", ": contradicts the one site that node_id names"),
                ("min_regions", ".min_regions: contradicts the region strategy alone"),
            )
        ),
        *(
            (("selector", "spread"), {name: 3}, f"selector.spread.{name}: is 3, but there are 2")
            for name in ("min_sites", "min_zones", "min_regions")
        ),
        (("alternatives", 0, "spread"), {"min_zones": 2}, ""),
        (
            ("alternatives", 0, "spread"),
            {"min_zones": 3},
            "alternatives[0].spread.min_zones: is 3, but there are 2 replicas",
        ),
        (
            ("selector", "stackAffinity"),
            [{"operator": "exists"}],
            f"{AFFINITY}.key: is missing",
        ),
        (("selector", "stackAffinity"), [{"key": "a"}], f"{AFFINITY}.operator: is missing"),
        (
            ("selector", "stackAffinity"),
            wish("like"),
            f'{AFFINITY}.operator: "like" is not supported; '
            "use one of: in notin = == != exists ! gt lt",
        ),
        *(
            (
                ("selector", "stackAffinity"),
                wish(operator, *"1" * count),
                ""
                if fits
                else f"{AFFINITY}.values: operator {operator} takes {wanted}, got {count}",
            )
            for operators, wanted, fitting in (
                (("in", "notin"), "at least one value", (1, 2)),
                (("=", "==", "!=", "gt", "lt"), "exactly one value", (1,)),
                (("exists", "!"), "no values", (0,)),
            )
            for operator in operators
            for count in range(3)
            for fits in [count in fitting]
        ),
        (("selector", "stackAffinity"), wish("gt", "-5"), ""),
        *(
            (
                ("selector", "stackAffinity"),
                wish(operator, "x"),
                f'{AFFINITY}.values: operator {operator} takes a whole number, got "x"',
            )
            for operator in ("gt", "lt")
        ),
    ],
)
def test_each_wrong_value_of_a_request_is_told(path, value, problem):
    """The first problem is; some bring others with them."""
    _, problems = read(changed((path,) if isinstance(path, str) else path, value))

    assert bool(problem) == bool(problems)
    assert problems == [] or problems[0].startswith(problem)


LATENCY = {"to": "x", "max_ms": 1}


@pytest.mark.parametrize(
    ("path", "entry", "most"),
    [
        (("alternatives",), {}, 16),
        (("selector", "latency"), LATENCY, 16),
        (("selector", "stackAffinity"), {"key": "a", "operator": "exists"}, 16),
        (("selector", "stack_antiaffinity"), {"key": "a", "operator": "exists"}, 16),
        (("resource_group", "resources"), whole()["resource_group"]["resources"][0], 32),
        ((*RESOURCE, "flavors"), {"flavor_id": "f1"}, 64),
        (("selector", "regions"), {"region": "r"}, 1000),
        (("selector", "residency", "countries"), "de", 1000),
        (("selector", "residency", "exceptCountries"), "de", 1000),
        (("selector", "regions", 0, "availablityZone"), "z", 1000),
        (("selector", "stackAffinity", 0, "values"), "v", 1000),
    ],
)
def test_what_each_decision_goes_through_is_bounded(path, entry, most):
    """A few bytes each would hold up everybody for hours."""
    assert [] == read(changed(path, [entry] * most))[1]
    _, problems = read(changed(path, [entry] * (most + 1)))

    assert problems[0].endswith(f"must have at most {most} entries, got {most + 1}")


@pytest.mark.parametrize(
    ("path", "value"), [((*RESOURCE, "storage"), 1), (("resource_group", "labels"), "v")]
)
def test_mappings_are_bounded_too(path, value):
    _, problems = read(changed(path, {f"k{number}": value for number in range(1001)}))

    assert problems[0].endswith("must have at most 1000 entries, got 1001")


def test_so_many_problems_of_a_document_are_told():
    """An answer must not be a hundred times as long as what was asked."""
    problems = []
    for item in Fields({"x": [{}] * 5000}, problems).items("x"):
        item.text("name", required=True)

    assert [f"x[{number}].name: is missing" for number in range(1000)] == list(map(str, problems))


def test_a_request_without_an_allocation_says_so():
    _, problems = read_allocation({}, flavors=(), volume_types=(), new_id=ID)

    assert "allocation: is missing" == str(problems[0])


# --- inventories ---


def test_a_site_is_read():
    body = {
        "site_id": "s",
        "region": "r",
        "availability_zone": "z",
        "country": "c",
        "area": "a",
        "province": "p",
        "city": "t",
        "operator": {"name": "o"},
        "eip_type_name": "e",
        "cluster_name": "k",
        "site_attributes": [
            {"site_attr": "other", "site_attr_value": "x"},
            {"site_attr": "exclusive_domains", "site_attr_value": "d1, d2,"},
        ],
        "spot_resources": {"f": {"delay": {"infinite": 3, "finite": {"2": 4}}}},
        "latency_ms": {"paris": 5},
    }
    spot = {"f": {"delay": Spot(3, {"2": 4}), "immediate": Spot()}}
    wanted = Site(
        *("s", "r", "z", "Normal", "c", "a", "p", "t", "o", "e"),
        domains=frozenset({"d1", "d2"}),
        spot=spot,
        cluster="k",
        latency={"paris": 5.0},
    )

    assert (wanted, []) == one(inventory.read_site, body)
    least = {"id": "s", "region": "r", "az": "z", "operator": "o", "status": "Offline"}
    assert (Site("s", "r", "z", "Offline", operator="o"), []) == one(inventory.read_site, least)
    problems = ["id: is missing", "region: is missing", "az: is missing"]
    assert problems == one(inventory.read_site, {})[1]
    assert ["latency_ms.x: must be at least 0, got -1"] == one(
        inventory.read_site, least | {"latency_ms": {"x": -1}}
    )[1]


@pytest.mark.parametrize(
    ("status", "is_open"), [("Normal", True), ("Offline", False), ("Sellout", False), ("", True)]
)
def test_a_closed_site_takes_nothing(status, is_open):
    assert is_open is Site("s", "r", "z", status).open


HOST = {"edge_node_id": "h", "resource_type": "vm", "total_vcpus": 10, "total_mem": 20}


def test_hosts_are_read():
    body = {"region": "r", "availability_zone": "z", "site_id": "s"}
    more = {"cpu_allocation_ratio": 1.55, "used_vcpus": 1, "used_mem": 2}
    body["node_infos"] = [HOST | more, {"name": "i", "resource_type": "bms", "host_count": 4}]
    wanted = [
        Host("r", "z", "vm", 15, 20, 1, 2, "s", "h"),
        Host("r", "z", "bms", 0, 0, site="s", name="i", count=4),
    ]

    assert (wanted, []) == one(inventory.read_hosts, body)
    packed, _ = one(inventory.read_hosts, body, pack=True)
    assert [1, 4] == [host.count for host in packed]


def test_a_host_has_no_more_than_a_table_holds():
    hosts = [HOST | {"cpu_allocation_ratio": 1e300}]
    _, problems = one(
        inventory.read_hosts, {"region": "r", "availability_zone": "z", "hosts": hosts}
    )

    assert [f"hosts[0].total_vcpus: must be below {EXACT}, got 1e+301"] == problems


@pytest.mark.parametrize(
    ("hosts", "pack", "problems"),
    [
        ([HOST, HOST], False, []),
        ([HOST, HOST], True, ['node_infos[1].edge_node_id: "h" is listed twice']),
        ([HOST | {"edge_node_id": ""}], True, ["node_infos[0].edge_node_id: is missing"]),
        ([HOST | {"edge_node_id": ""}], False, []),
        ([{"name": "h"}], False, ["node_infos[0].resource_type: is missing"]),
        *(
            ([HOST | {name: -1}], False, [f"node_infos[0].{name}: must be at least 0, got -1"])
            for name in (
                "host_count",
                "cpu_allocation_ratio",
                "total_vcpus",
                "total_mem",
                "used_vcpus",
                "used_mem",
            )
        ),
    ],
)
def test_real_hosts_have_names_of_their_own(hosts, pack, problems):
    body = {"region": "r", "availability_zone": "z", "node_infos": hosts}

    assert problems == one(inventory.read_hosts, body, pack=pack)[1]


FLAVOR = {
    "region": "r",
    "id": "f",
    "vcpus": 1,
    "ram": 2,
    "os_extra_specs": {"resource_type": "vm"},
}


def test_a_flavor_is_read():
    specs = {
        "resource_type": "vm",
        "cond:operation:status": "abandon",
        "cond:operation:az": "z1(normal), z2(sellout),odd",
    }
    body = FLAVOR | {"region_flavor_id": "r|f", "os_extra_specs": specs, "price": 0}
    flags = {"z1": "normal", "z2": "sellout"}

    assert (Flavor("r", "f", 1, 2, "vm", True, flags, 0.0), []) == one(inventory.read_flavor, body)
    assert (Flavor("r", "f", 1, 2, "vm"), []) == one(inventory.read_flavor, FLAVOR)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"region_flavor_id": "r|g"}, 'region_flavor_id: must be "r|f", got "r|g"'),
        ({"vcpus": 0}, "vcpus: must be above 0: such a flavor has no capacity anywhere"),
        ({"ram": 0}, "ram: must be above 0: such a flavor has no capacity anywhere"),
        ({"id": None}, "id: is missing"),
        ({"region": None, "region_flavor_id": "r|g"}, "region: is missing"),
        ({"os_extra_specs": {}}, "os_extra_specs.resource_type: is missing"),
        ({"price": -1}, "price: must be at least 0, got -1"),
    ],
)
def test_each_wrong_value_of_a_flavor_is_told(change, problem):
    assert [problem] == one(inventory.read_flavor, FLAVOR | change)[1]


@pytest.mark.parametrize("abandoned", [True, False])
@pytest.mark.parametrize(
    ("flag", "sold"), [("normal", True), ("sellout", False), ("abandon", False), (None, None)]
)
def test_a_zone_sells_what_it_says_and_else_what_the_region_sells(abandoned, flag, sold):
    flags = {} if flag is None else {"z": flag}
    flavor = Flavor("r", "f", 1, 1, "vm", abandoned=abandoned, zone_flags=flags)

    assert (not abandoned if sold is None else sold) is flavor.sold_in("z")


def test_pools_and_quotas_are_read():
    eips = {"region": "r", "common_pools": [{"name": "e", "size": 9, "used": 2}]}
    facts = {
        "volume_type": "SSD",
        "total_capacity_gb": "100",
        "max_over_subscription_ratio": 1.5,
        "reserved_percentage": 0.2,
        "provisioned_capacity_gb": 7,
    }
    pools = {"region": "r", "pools": [{"availability_zone": "z", "capabilities": facts}]}
    quota = {"domain_id": "d", "vcpus": 0, "eips": 3, "colour": 1}

    assert ([EipPool("r", "e", 9, 2)], []) == one(inventory.read_eip_pools, eips)
    for honour, total in ((False, 150), (True, 120)):
        found = one(inventory.read_volume_pools, pools, honour_reserved=honour)
        assert ([VolumePool("r", "z", "SSD", total, 7)], []) == found
    assert (Quota("d", {"vcpus": 0, "eips": 3}), []) == one(inventory.read_quota, quota)


@pytest.mark.parametrize(
    ("change", "total", "used", "problem"),
    [
        ({}, 100, 0, ""),
        ({"max_over_subscription_ratio": 0}, 100, 0, ""),
        ({"max_over_subscription_ratio": -1}, 100, 0, ""),
        ({"max_over_subscription_ratio": 0.5}, 50, 0, ""),
        ({"reserved_percentage": 1}, 0, 0, ""),
        ({"reserved_percentage": 3}, 0, 0, ""),
        ({"reserved_percentage": -1}, 100, 0, "reserved_percentage: must be at least 0, got -1"),
        ({"total_capacity_gb": -1}, 0, 0, "total_capacity_gb: must be at least 0, got -1"),
        ({"provisioned_capacity_gb": 0}, 100, 0, ""),
        ({"provisioned_capacity_gb": -1}, 100, 0, "provisioned_capacity_gb: must be at least 0"),
        ({"total_capacity_gb": EXACT - 1}, EXACT - 1, 0, ""),
        ({"total_capacity_gb": EXACT}, 0, 0, f"total_capacity_gb: must be below {EXACT}, got 9"),
        (
            {"total_capacity_gb": 1e308, "max_over_subscription_ratio": 10},
            0,
            0,
            f"total_capacity_gb: must be below {EXACT}, got inf",
        ),
        ({"provisioned_capacity_gb": 1e99}, 100, 0, "provisioned_capacity_gb: must be below"),
    ],
)
def test_bounds_of_a_volume_pool(change, total, used, problem):
    facts = {"volume_type": "SSD", "total_capacity_gb": 100, **change}
    body = {"region": "r", "pools": [{"availability_zone": "z", "capabilities": facts}]}
    (pool,), problems = one(inventory.read_volume_pools, body, honour_reserved=True)

    assert (total, used) == (pool.total, pool.used)
    assert bool(problem) == len(problems)
    assert problem in "".join(problems)
