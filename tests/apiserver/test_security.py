"""Who may ask what, how much, and what is never told."""

import gzip

import pytest

from bayplan.api.user import User
from bayplan.apiserver.auth import load_tokens
from bayplan.errors import ConfigError
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod, shown

ROLES = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


def as_user(token):
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("path", "anonymous", "status"),
    [
        pytest.param("/healthz", True, 200, id="health is public"),
        pytest.param("/readyz", True, 200, id="readiness is public"),
        pytest.param("/version", True, 200, id="the version is public"),
        pytest.param("/healthz", False, 401, id="nothing is public without anonymous access"),
        pytest.param("/api/v1/pods", True, 401, id="objects are not"),
        pytest.param("/apis", True, 401, id="discovery is not"),
        pytest.param("/openapi/v2", True, 401, id="the API's description is not"),
    ],
)
async def test_without_a_token(path, anonymous, status):
    api = await Api.start(anonymous=anonymous)

    answer = await api.call("GET", path, headers={"authorization": None})

    assert status == answer.status
    await api.close()


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic YTpi", "Bearer", "bearer  ", ""])
async def test_a_wrong_credential_is_401_even_for_public_paths(api, header):
    for path in ("/healthz", "/api/v1/pods"):
        answer = await api.call("GET", path, headers={"authorization": header})

        assert 401 == answer.status
        assert "Unauthorized" == answer.body["reason"]


@pytest.fixture
async def rbac():
    """A server with RBAC, on which bob may read pods of default and carol everything named x."""
    api = await Api.start(rbac=True)
    for name in ("bob", "carol"):
        api.server.authenticator.add(f"{name}-token", User(name, ("crew",)))
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    named = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["x"]}
    for role, user, rule in (("reader", "bob", pods), ("named", "carol", named)):
        where = f"{ROLES}/namespaces/default"
        await api.ok("POST", f"{where}/roles", {"metadata": {"name": role}, "rules": [rule]})
        binding = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": ROLES.split("/")[2], "kind": "Role", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        }
        await api.ok("POST", f"{where}/rolebindings", binding)
    yield api
    await api.close()


@pytest.mark.parametrize(
    ("user", "method", "path", "status"),
    [
        pytest.param("bob", "GET", PODS, 200, id="granted"),
        pytest.param("bob", "GET", f"{PODS}/nothing", 404, id="granted, but not there"),
        pytest.param("bob", "DELETE", f"{PODS}/x", 403, id="a verb that is not granted"),
        pytest.param("bob", "GET", CONFIGMAPS, 403, id="a resource that is not granted"),
        pytest.param("bob", "GET", "/api/v1/pods", 403, id="all namespaces are more than one"),
        pytest.param("bob", "GET", "/api/v1/namespaces/other/pods", 403, id="another namespace"),
        pytest.param("bob", "GET", f"{PODS}/x/status", 403, id="a subresource is its own thing"),
        pytest.param("carol", "GET", f"{PODS}/x", 404, id="by name"),
        pytest.param("carol", "GET", f"{PODS}/y", 403, id="another name"),
        pytest.param("carol", "GET", PODS, 403, id="a list has no name"),
        pytest.param("bob", "GET", "/apis", 200, id="everyone may discover"),
        pytest.param("bob", "GET", "/metrics", 403, id="other paths need a grant"),
    ],
)
async def test_rbac_decides(rbac, user, method, path, status):
    answer = await rbac.call(method, path, headers=as_user(f"{user}-token"))

    assert status == answer.status, answer.body


OLD_WATCH = "/api/v1/watch/namespaces/default/configmaps"


@pytest.mark.parametrize("query", ["", "?fieldSelector=metadata.name%3Dx"])
async def test_an_old_watch_of_one_object_shows_no_other(rbac, query):
    for name in "yx":
        await rbac.ok("POST", CONFIGMAPS, configmap(name))

    stream = await rbac.watch(f"{OLD_WATCH}/x{query}", as_user("carol-token"))
    for name in "yx":
        await rbac.ok("DELETE", f"{CONFIGMAPS}/{name}")
    events = await stream.until(2)
    await stream.leave()

    assert [("ADDED", "x"), ("DELETED", "x")] == shown(events)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("y", 403, id="a name that is not granted"),
        pytest.param("x?fieldSelector=metadata.name%3Dy", 400, id="another name in the selector"),
        pytest.param("x?fieldSelector=metadata.name!%3Dx", 400, id="all other names"),
        pytest.param("x?fieldSelector=metadata.namespace%3Ddefault", 400, id="no name in it"),
    ],
)
async def test_an_old_watch_cannot_ask_for_another_object(rbac, path, status):
    stream = await rbac.watch(f"{OLD_WATCH}/{path}", as_user("carol-token"))
    await stream.leave()

    assert status == stream.status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/api/v1/watch/configmaps/x", 404, id="one object in all namespaces"),
        pytest.param("POST", OLD_WATCH, 405, id="create"),
        pytest.param("PUT", f"{OLD_WATCH}/x", 405, id="update"),
        pytest.param("DELETE", f"{OLD_WATCH}/x", 405, id="delete"),
        pytest.param("DELETE", OLD_WATCH, 405, id="delete all"),
    ],
)
async def test_nothing_but_a_watch_is_below_the_old_watch(api, method, path, status):
    body = configmap("x") if method in ("POST", "PUT") else None

    answer = await api.call(method, path, body)

    assert status == answer.status


async def test_a_denial_says_who_wanted_what(rbac):
    answer = await rbac.call("GET", CONFIGMAPS, headers=as_user("bob-token"))

    expected = (
        'configmaps is forbidden: User "bob" cannot list resource "configmaps" '
        'in API group "" in the namespace "default"'
    )
    assert expected == answer.body["message"]


async def test_access_reviews_agree_with_what_happens(rbac):
    for verb, allowed in (("list", True), ("delete", False)):
        asked = {"verb": verb, "resource": "pods", "namespace": "default"}
        body = {"spec": {"resourceAttributes": asked, "user": "bob"}}
        found = await rbac.ok("POST", f"{REVIEWS}/subjectaccessreviews", body)

        assert allowed == found["status"]["allowed"]


async def test_groups_and_cluster_roles_grant_everywhere(rbac):
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    await rbac.ok("POST", f"{ROLES}/clusterroles", {"metadata": {"name": "cm"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "cm"},
        "roleRef": {"apiGroup": ROLES.split("/")[2], "kind": "ClusterRole", "name": "cm"},
        "subjects": [{"kind": "Group", "name": "crew", "apiGroup": ROLES.split("/")[2]}],
    }
    await rbac.ok("POST", f"{ROLES}/clusterrolebindings", binding)

    answer = await rbac.call("GET", "/api/v1/configmaps", headers=as_user("carol-token"))

    assert 200 == answer.status


async def test_a_scheduler_has_a_role_to_start_with(rbac):
    rbac.server.authenticator.add("s", User("system:kube-scheduler"))
    await rbac.ok("POST", PODS, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}

    bound = await rbac.call("POST", f"{PODS}/p/binding", binding, headers=as_user("s"))
    made = await rbac.call("POST", PODS, pod("q"), headers=as_user("s"))

    assert (201, 403) == (bound.status, made.status)


async def test_a_service_account_token_is_known_until_the_end(api):
    await api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "b"}})
    path = "/api/v1/namespaces/default/serviceaccounts/b/token"
    issued = await api.ok("POST", path, {"spec": {}})

    body = {"kind": "SelfSubjectReview"}
    reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    mine = await api.ok("POST", reviews, body, headers=as_user(issued["status"]["token"]))

    assert "system:serviceaccount:default:b" == mine["status"]["userInfo"]["username"]


async def test_a_body_above_the_limit_is_413(api):
    body = configmap("big") | {"data": {"a": "x" * (4 * 1024 * 1024)}}

    answer = await api.call("POST", CONFIGMAPS, body)

    assert (413, "RequestEntityTooLarge") == (answer.status, answer.body["reason"])


async def test_a_small_body_that_unpacks_to_a_big_one_is_413(api):
    bomb = gzip.compress(b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * (50 << 20) + b'"}}')

    answer = await api.call("POST", CONFIGMAPS, bomb, headers={"content-encoding": "gzip"})

    assert 413 == answer.status


async def test_gzip_both_ways(api):
    body = gzip.compress(b'{"metadata":{"name":"x"},"data":{"a":"' + b"x" * 300_000 + b'"}}')
    await api.ok("POST", CONFIGMAPS, body, headers={"content-encoding": "gzip"})

    answer = await api.call("GET", f"{CONFIGMAPS}/x", headers={"accept-encoding": "gzip"})

    assert "gzip" == answer.headers["content-encoding"]
    assert len(answer.raw) < 10_000
    assert b'"x"' in gzip.decompress(answer.raw)


async def test_too_many_requests_at_once_are_429():
    api = await Api.start(max_writes=0)

    answer = await api.call("POST", PODS, pod("p"))

    assert (429, "1") == (answer.status, answer.headers["retry-after"])
    assert 200 == (await api.call("GET", PODS)).status, "reads have their own limit"
    await api.close()


def test_a_token_file_is_read_as_kube_apiserver_does(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('t1,ann,1,"a,b"\n# comment\n\nt2,ben,2\n', "utf-8")

    assert [("t1", User("ann", ("a", "b"), "1")), ("t2", User("ben", (), "2"))] == load_tokens(path)


@pytest.mark.parametrize("line", ["only-a-token", "token,user", ",user,uid"])
def test_a_broken_token_file_names_the_line(tmp_path, line):
    path = tmp_path / "tokens.csv"
    path.write_text(f"t,u,1\n{line}\n", "utf-8")

    with pytest.raises(ConfigError, match="line 2"):
        load_tokens(path)


def test_a_token_file_that_is_not_text_is_named(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"\x89PNG\r\n")

    with pytest.raises(ConfigError, match=r'tokens\.csv": it is not text'):
        load_tokens(path)
