"""RBAC: which subjects a binding means, and which requests a rule covers."""

import asyncio
import threading

import pytest

from bayplan.api.user import User
from bayplan.apiserver.authorization import Action, OnLoop, Rbac, binds, rule_allows

ROBOT = "system:serviceaccount:apps:robot"


@pytest.mark.parametrize(
    ("subject", "user", "bound"),
    [
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "apps"},
            ROBOT,
            True,
            id="the account of that namespace",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot"},
            "system:serviceaccount:here:robot",
            True,
            id="without a namespace, the binding's own",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot"},
            ROBOT,
            False,
            id="without a namespace, not another one",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
            ROBOT,
            False,
            id="an account of the same name elsewhere",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "bot", "namespace": "apps"},
            ROBOT,
            False,
            id="a name that the user's only ends with",
        ),
        pytest.param(
            {"kind": "ServiceAccount", "name": "robot", "namespace": "apps"},
            "system:serviceaccount:apps:robot:robot",
            False,
            id="a user whose name only begins so",
        ),
        pytest.param({"kind": "User", "name": "robot"}, ROBOT, False, id="a user of that name"),
        pytest.param({"kind": "User", "name": ROBOT}, ROBOT, True, id="the account as a user"),
        pytest.param({"kind": "Group", "name": "crew"}, "bob", True, id="a group of the user"),
        pytest.param({"kind": "Group", "name": "bob"}, "bob", False, id="a group called like him"),
        pytest.param({"kind": "Robot", "name": "bob"}, "bob", False, id="an unknown kind"),
    ],
)
def test_a_binding_means_its_subjects_and_nobody_else(subject, user, bound):
    binding = {"subjects": [subject]}

    assert bound is binds(binding, User(user, ("crew",)), "here")


def rule(verbs="get", groups="", resources="pods", **more):
    listed = {"verbs": verbs, "apiGroups": groups, "resources": resources}
    return {name: [value] for name, value in listed.items()} | more


def action(verb="get", resource="pods", **more):
    return Action(verb=verb, resource=resource, **more)


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        pytest.param(rule(), action(), True, id="exactly this"),
        pytest.param(rule(), action("list"), False, id="another verb"),
        pytest.param(rule("*"), action("list"), True, id="every verb"),
        pytest.param(rule(), action(group="apps"), False, id="another group"),
        pytest.param(rule(groups="*"), action(group="apps"), True, id="every group"),
        pytest.param(rule(), action(resource="nodes"), False, id="another resource"),
        pytest.param(rule(resources="*"), action(resource="nodes"), True, id="every resource"),
        pytest.param(rule(), action(subresource="log"), False, id="a part of it"),
        pytest.param(rule(resources="pods/log"), action(subresource="log"), True, id="that part"),
        pytest.param(rule(resources="pods/log"), action(), False, id="the whole for a part"),
        pytest.param(rule(resources="*/log"), action(subresource="log"), True, id="a part of all"),
        pytest.param(rule(resources="*/log"), action(subresource="exec"), False, id="another part"),
        pytest.param(rule(resources="*/"), action(), False, id="a part without a name"),
        pytest.param(rule(resourceNames=["a"]), action(name="a"), True, id="an object by name"),
        pytest.param(rule(resourceNames=["a"]), action(name="b"), False, id="another object"),
        pytest.param(rule(resourceNames=["a"]), action(), False, id="all for one"),
        pytest.param({"verbs": ["get"]}, action(), False, id="a rule of nothing"),
        pytest.param(rule(), Action(verb="get", path="/healthz"), False, id="a path by resources"),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            Action(verb="get", path="/healthz"),
            True,
            id="a path",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            Action(verb="get", path="/healthz/etcd"),
            False,
            id="below a path",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]},
            Action(verb="get", path="/healthz/etcd"),
            True,
            id="below a path with a star",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["*"]},
            Action(verb="get", path="/metrics"),
            True,
            id="every path",
        ),
        pytest.param(
            {"verbs": ["get"], "nonResourceURLs": ["*"]}, action(), False, id="objects by paths"
        ),
    ],
)
def test_a_rule_covers_what_it_says_and_nothing_else(given, asked, allowed):
    assert allowed is rule_allows(given, asked)


class Objects:
    """Roles and bindings as a reader gives them."""

    def __init__(self, **by_resource):
        self.found = by_resource

    def list(self, group, resource, namespace=""):
        items = self.found.get(resource, ())
        return [i for i in items if namespace in ("", i["metadata"].get("namespace", ""))]

    def get(self, group, resource, namespace, name):
        found = self.list(group, resource, namespace)
        return next((item for item in found if item["metadata"]["name"] == name), None)


def named(name, kind="", **more):
    namespace = {"namespace": more.pop("namespace")} if "namespace" in more else {}
    return {"kind": kind, "metadata": {"name": name, **namespace, **more.pop("meta", {})}, **more}


def to_bob(kind, role, **more):
    subjects = [{"kind": "User", "name": "bob"}]
    name = {"kind": role[0], "name": role[1]}
    return named("b", kind, subjects=subjects, roleRef=name, **more)


BOB, MASTER = User("bob", ()), User("root", ("system:masters",))


def test_the_answer_names_the_binding_and_the_role():
    binding = to_bob("RoleBinding", ("Role", "reader"), namespace="here")
    rbac = Rbac(
        Objects(rolebindings=[binding], roles=[named("reader", namespace="here", rules=[rule()])])
    )

    assert (
        True,
        'RBAC: allowed by RoleBinding "b/here" of Role "reader" to User "bob"',
    ) == rbac.allows(BOB, action(namespace="here"))
    assert (False, "") == rbac.allows(BOB, action(namespace="elsewhere"))
    assert (False, "") == rbac.allows(BOB, action())
    assert (True, "") == rbac.allows(MASTER, action())
    assert [rule()] == rbac.rules(BOB, "here")
    assert [] == rbac.rules(BOB, "")


def test_a_role_of_the_cluster_counts_everywhere_or_where_it_is_bound():
    roles = [named("reader", rules=[rule()])]
    to_all = to_bob("ClusterRoleBinding", ("ClusterRole", "reader"))
    to_one = to_bob("RoleBinding", ("ClusterRole", "reader"), namespace="here")
    everywhere = Rbac(Objects(clusterrolebindings=[to_all], clusterroles=roles))
    there = Rbac(Objects(rolebindings=[to_one], clusterroles=roles))

    assert everywhere.allows(BOB, action(namespace="any"))[0]
    assert 'ClusterRoleBinding "b" of ClusterRole "reader"' in everywhere.allows(BOB, action())[1]
    assert there.allows(BOB, action(namespace="here"))[0]
    assert not there.allows(BOB, action())[0]


@pytest.mark.parametrize(
    "role", [("Role", "gone"), ("ClusterRole", "gone")], ids=["role", "cluster"]
)
def test_a_binding_to_a_role_that_is_gone_grants_nothing(role):
    binding = to_bob("RoleBinding", role, namespace="here")
    rbac = Rbac(Objects(rolebindings=[binding]))

    assert (False, "") == rbac.allows(BOB, action(namespace="here"))
    assert rbac.rules_of({"kind": role[0], "name": "gone"}, "here") is None


def test_a_role_without_rules_has_none():
    rbac = Rbac(Objects(roles=[named("idle", namespace="here")], clusterroles=[named("idle")]))

    assert [] == rbac.rules_of({"kind": "Role", "name": "idle"}, "here")
    assert [] == rbac.rules_of({"kind": "ClusterRole", "name": "idle"}, "")


def test_a_role_gathers_the_rules_of_those_that_its_selectors_match():
    bad, good = {"matchExpressions": [{"operator": "?"}]}, {"matchLabels": {"to": "all"}}
    gathering = named(
        "all",
        aggregationRule={"clusterRoleSelectors": [bad, good]},
        meta={"labels": {"to": "all"}},
        rules=[rule("list")],
    )
    part = named("part", rules=[rule()], meta={"labels": {"to": "all"}})
    other = named("other", rules=[rule("delete")])
    rbac = Rbac(Objects(clusterroles=[gathering, part, other, named("bare")]))

    assert [rule("list"), rule()] == rbac.rules_of({"kind": "ClusterRole", "name": "all"}, "")


async def test_decisions_are_made_on_the_loop_whoever_asks():
    """The caches behind a decision belong to it: no other thread may read them."""
    threads = []

    class Noting:
        rules = rules_of = None

        def allows(self, user, action):
            threads.append(threading.get_ident())
            return action.verb == "get", "why"

    asked = OnLoop(Noting())
    here = asked.allows(User("a"), Action("get"))
    there = await asyncio.to_thread(asked.allows, User("a"), Action("list"))

    assert ((True, "why"), (False, "why")) == (here, there)
    assert [threading.get_ident()] * 2 == threads
