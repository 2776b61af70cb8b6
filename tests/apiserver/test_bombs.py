"""Small requests that would be dear: each is refused or done in the time of an ordinary one.

Some took minutes; that none holds the event loop is for test_steps.py.
"""

import asyncio
import json

import pytest

from bayplan.api import yaml
from bayplan.apiserver.crd.rules import Rules
from bayplan.errors import DecodeError
from tests import definitions
from tests.apiserver.api import CONFIGMAPS, PODS, configmap, pod
from tests.effort import at_most

JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
YAML = {"content-type": "application/yaml"}
DEFINITIONS = definitions.DEFINITIONS
THINGS = "/apis/example.com/v1/namespaces/default/things"
WORK = 150  # yardsticks


@pytest.fixture(autouse=True)
def quick():
    with at_most(WORK):
        yield


def definition(spec, plural="things", group="example.com", **metadata):
    properties = {"spec": {"type": "object", "properties": spec}}
    return definitions.definition(plural, group, properties=properties, metadata=metadata)


def thing(**spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": spec,
    }


async def test_copies_of_copies_have_a_budget(api):
    await api.ok("POST", CONFIGMAPS, configmap("x") | {"data": {"a": "x" * 1000}})
    bomb = [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(30)]

    answer = await api.call("PATCH", f"{CONFIGMAPS}/x", bomb, headers=JSON_PATCH)

    assert (422, "Invalid") == (answer.status, answer.body["reason"])


async def test_insertions_at_the_front_of_a_long_list_have_a_budget(api):
    numbers = {"type": "array", "items": {"type": "integer"}}
    await api.ok("POST", DEFINITIONS, definition({"list": numbers}))
    await api.ok("POST", THINGS, thing(list=[1] * 100_000))
    bomb = [{"op": "add", "path": "/spec/list/0", "value": 1}] * 10_000

    assert 422 == (await api.call("PATCH", f"{THINGS}/x", bomb, headers=JSON_PATCH)).status


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("^(a+)+$", "a" * 40 + "b"), ("(x+x+)+y", "x" * 5000), ("(a|aa)+$", "a" * 60 + "b")],
)
async def test_patterns_take_linear_time(api, pattern, value):
    await api.ok("POST", DEFINITIONS, definition({"a": {"type": "string", "pattern": pattern}}))

    answer = await api.call("POST", THINGS, thing(a=value))

    assert 422 == answer.status
    assert f"should match '{pattern}'" in answer.body["message"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(a", "missing closing ): `(a`"),
        ("a{1,2000}", "invalid repeat count: `{1,2000}`"),
        ("a**", "invalid nested repetition operator: `**`"),
    ],
)
async def test_a_pattern_that_is_none_is_refused_with_the_definition(api, pattern, words):
    made = definition({"a": {"type": "string", "pattern": pattern}})

    answer = await api.call("POST", DEFINITIONS, made)

    assert 422 == answer.status
    assert (
        "must be a valid regular expression, but isn't: error parsing regexp: " + words
        in (answer.body["message"])
    )


RULES = {
    "loops in loops": ("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", 300),
    "multiplied strings": ("('a' * 2000000000) == 'a'", 1),
    "growing numbers": ("9223372036854775807 + self[0] > 0", 1),
    "strings that double": (
        "['aaaaaaaaaa'].map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a)"
        ".map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a).map(a, a+a+a+a+a+a+a+a) == []",
        1,
    ),
    "comparing all with all": ("self.all(a, self == self.map(b, b))", 2000),
    "patterns": ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'.matches('^(a+)+$')", 1),
}


@pytest.mark.parametrize("name", RULES)
async def test_rules_have_a_budget(api, name):
    """Those that cannot be written any more run into the limit where they are stored."""
    rule, size = RULES[name]
    numbers = {"type": "array", "items": {"type": "integer"}}
    numbers["x-kubernetes-validations"] = [{"rule": rule}]

    causes = Rules(numbers).validate(list(range(1, size + 1)), None)

    assert causes


LONG = {"a": "9" * 5000, "b": "b" * 1_000_000, "c": "a" * 1000, "d": "a" * 1_000_000}
GROWING = {
    "a replacement": "self.c.replace('a', self.b) == ''",
    "a replacement nobody has room for": "self.d.replace('a', self.b) == ''",
    "a replacement of nothing": "self.d.replace('', self.b) == ''",
    "joined": "self.d.split('').join(self.b) == ''",
    "formatted again and again": "self.d.split('').map(a, '%s'.format([self.b])) == []",
    "a precision": "'%.999999999f'.format([1.0]) == ''",
    "a precision of many digits": "('%.' + self.a + 'f').format([1.0]) == ''",
    "an integer": "int(self.a) == 0",
    "an unsigned integer": "uint(self.a) == 0u",
    "a duration": "duration(self.a + 's') == duration('0s')",
    "a quantity": "isQuantity(self.a)",
    "a quantity as a number": "quantity('1e400').asApproximateFloat() < 0.0",
}


@pytest.mark.parametrize("name", GROWING)
def test_what_rules_make_of_long_texts_has_a_budget(name):
    """Each was a 500, hundreds of megabytes, or both."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}

    causes = Rules(texts | {"x-kubernetes-validations": [{"rule": GROWING[name]}]}).validate(
        LONG, None
    )

    assert causes


@pytest.mark.parametrize("name", ["loops in loops", "comparing all with all"])
async def test_rules_that_may_cost_too_much_cannot_be_written(api, name):
    numbers = {"type": "array", "items": {"type": "integer"}}
    numbers["x-kubernetes-validations"] = [{"rule": RULES[name][0]}]

    answer = await api.call("POST", DEFINITIONS, definition({"list": numbers}))

    assert 422 == answer.status
    assert "estimated rule cost exceeds budget by factor of more than 100x" in str(answer.body)


@pytest.mark.parametrize("text", ["(" * 4000 + "1" + ")" * 4000, "1" + "+1" * 4900 + " > 0"])
async def test_rules_that_are_nested_deeply_end_nothing(api, text):
    numbers = {"type": "integer", "x-kubernetes-validations": [{"rule": text}]}
    await api.call("POST", DEFINITIONS, definition({"a": numbers}))

    assert (await api.call("POST", THINGS, thing(a=1))).status < 500


def merge_bomb(levels=30):
    lines = ["a0: &a0 {k: v}"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n}")
        lines.append(f"  <<: [{', '.join([f'*a{n - 1}'] * 9)}]")
        lines.append(f"  k{n}: v")
    return "\n".join(lines).encode()


def alias_bomb(levels=10):
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


def long_alias_bomb():
    return b"a: &a " + b"x" * 100_000 + b"\nb: [" + b",".join([b"*a"] * 900) + b"]"


@pytest.mark.parametrize("bomb", [merge_bomb, alias_bomb, long_alias_bomb])
async def test_yaml_that_grows_is_refused(api, bomb):
    with pytest.raises(DecodeError, match="excessive aliasing"):
        yaml.load(bomb())

    assert 400 == (await api.call("POST", CONFIGMAPS, bomb(), headers=YAML)).status


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &a {x: 1, z: 2}\nb: {<<: *a, z: 3}", {"x": 1, "z": 3}),
        ("a: &a {x: 1}\nc: &c {x: 2, z: 4}\nb: {<<: [*a, *c]}", {"x": 1, "z": 4}),
    ],
)
def test_merge_keys_still_merge(text, expected):
    assert expected == yaml.load(text)["b"]


async def test_long_set_lists_and_map_lists_are_done_in_time(api):
    names = {"type": "string"}
    sets = {"type": "array", "items": names, "x-kubernetes-list-type": "set"}
    keyed = {"type": "object", "properties": {"name": names}, "required": ["name"]}
    maps = {"type": "array", "items": keyed, "x-kubernetes-list-type": "map"}
    maps["x-kubernetes-list-map-keys"] = ["name"]
    await api.ok("POST", DEFINITIONS, definition({"set": sets, "map": maps}))
    many = [f"n{n}" for n in range(5000)]
    obj = thing(set=many, map=[{"name": name} for name in many])

    await api.ok("POST", THINGS, obj)
    await api.ok("PATCH", f"{THINGS}/x", {"spec": {"set": many[::-1]}})
    applied = json.dumps(obj).encode()
    await api.ok("PATCH", f"{THINGS}/x?fieldManager=a&force=true", applied, headers=APPLY)


async def test_a_strategic_merge_of_many_variables_is_done_in_time(api):
    many = [{"name": f"N{n}", "value": "1"} for n in range(5000)]
    made = pod("p")
    made["spec"]["containers"][0]["env"] = many
    template = {"metadata": {"labels": {"a": "b"}}, "spec": made["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
    deployment["spec"]["template"] = template
    path = "/apis/apps/v1/namespaces/default/deployments"
    await api.ok("POST", path, deployment)
    container = {"name": "c", "env": [{"name": f"N{n}", "value": "2"} for n in range(4999, 0, -1)]}
    order = [{"name": item["name"]} for item in many]
    container["$setElementOrder/env"] = order[1:][::-1]
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}

    found = await api.ok("PATCH", f"{path}/d", patch, headers=STRATEGIC)

    assert 5000 == len(found["spec"]["template"]["spec"]["containers"][0]["env"])


@pytest.mark.parametrize("digits", [20, 400, 4000])
async def test_an_integer_without_end_breaks_no_later_read(api, digits):
    kept = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.ok("POST", DEFINITIONS, definition({"any": kept}))
    body = json.dumps(thing(any={"n": 0})).replace('"n": 0', '"n": 1' + "0" * digits).encode()

    made = await api.call("POST", THINGS, body)

    assert (201 if digits < 300 else 400) == made.status
    await api.ok("GET", THINGS)
    await api.ok("GET", PODS)


async def test_an_applied_autoscaler_of_another_shape_is_the_caller_s_fault(api):
    body = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": "x"}
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/x?fieldManager=m"
    media = {"content-type": "application/apply-patch+yaml"}

    answer = await api.call("PATCH", path, json.dumps(body).encode(), headers=media)

    assert 400 == answer.status


async def test_a_definition_that_somebody_else_holds_is_written_once(api):
    """It was written again and again, by a loop that left nobody a turn."""
    name = f"{DEFINITIONS}/things.example.com"
    await api.ok("POST", DEFINITIONS, definition({}, finalizers=["example.com/held"]))
    await api.ok("POST", THINGS, thing())
    await api.ok("DELETE", name)
    async with asyncio.timeout(60):
        while ["example.com/held"] != (await api.ok("GET", name))["metadata"]["finalizers"]:
            await asyncio.sleep(0.01)
    before = api.server.store.revision
    for _ in range(100):
        await asyncio.sleep(0)

    assert before == api.server.store.revision
    assert [] == (await api.ok("GET", THINGS))["items"], "its kind is served while it is there"
    assert 403 == (await api.call("POST", THINGS, thing())).status
    await api.ok("PATCH", name, {"metadata": {"finalizers": None}})
    assert 404 == (await api.call("GET", name)).status
    async with asyncio.timeout(60):
        while 404 != (await api.call("GET", THINGS)).status:
            await asyncio.sleep(0.01)


WORDS = {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("items", "value", "told"),
    [
        pytest.param({"anyOf": [{"maxLength": n} for n in range(3000)]}, "a", 422, id="anyOf"),
        pytest.param({"enum": [f"e{n}" for n in range(5000)]}, "e4999", 201, id="enum"),
        pytest.param({"enum": [f"e{n}" for n in range(80000)]}, "e79999", 422, id="long enum"),
    ],
)
async def test_alternatives_of_a_schema_have_a_budget(api, items, value, told):
    words = WORDS | {"items": {"type": "string"} | items}
    await api.ok("POST", DEFINITIONS, definition({"list": words}))

    answer = await api.call("POST", THINGS, thing(list=[value] * 4000))

    assert told == answer.status
    assert (told == 422) == ("too much to compare" in str(answer.body))


async def test_defaults_have_a_budget(api):
    """Ten thousand times fifty kilobytes were made of, and stored for, thirty."""
    inner = {"type": "object", "properties": {"a": {"type": "string", "default": "x" * 50_000}}}
    await api.ok("POST", DEFINITIONS, definition({"list": {"type": "array", "items": inner}}))

    assert 413 == (await api.call("POST", THINGS, thing(list=[{}] * 10_000))).status
    assert 201 == (await api.call("POST", THINGS, thing(list=[{}] * 10))).status


async def test_fields_that_are_not_there_cost_nothing(api):
    inner = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    await api.ok("POST", DEFINITIONS, definition({"list": {"type": "array", "items": inner}}))

    assert 201 == (await api.call("POST", THINGS, thing(list=[{}] * 10_000))).status
