"""Health, metrics and configuration over HTTP and HTTPS, and who may read them."""

import json
import ssl

import aiohttp
import pytest

from bayplan.client import AsgiTransport, Client
from bayplan.errors import ConfigError
from bayplan.inspect import PREFIX as INSPECT
from bayplan.inspect import Cluster
from bayplan.inspect.http import Questions
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.certificates import self_signed, server_context
from bayplan.scheduler.delegated import Gatekeeper
from bayplan.scheduler.serving import Endpoints, Server, configz_page, metrics_page


async def reviews(scope, receive, send):
    """An API server that knows the token `good` of alice, who may get metrics and questions."""
    spec = json.loads((await receive())["body"])["spec"]
    if scope["path"].endswith("tokenreviews"):
        known = spec["token"] == "good"
        status = {"authenticated": known, "user": {"username": "alice" if known else ""}}
    else:
        asked = spec["nonResourceAttributes"]
        may = asked["path"] in ("/metrics", f"{INSPECT}cluster") and asked["verb"] == "get"
        status = {"allowed": may}
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"status": status}).encode()})


async def empty():
    return Cluster.from_objects([])


@pytest.fixture
async def serving():
    problems: dict[str, str | None] = {"leaderElection": None}
    metrics = SchedulerMetrics(process=False)
    metrics.attempt("scheduled", "default-scheduler", 0.003)
    checks = {"ping": lambda: None, "leaderElection": lambda: problems["leaderElection"]}
    endpoints = Endpoints(
        healthz=checks,
        livez={"ping": lambda: None},
        readyz=checks,
        pages={
            "/metrics": metrics_page(metrics.exposition),
            "/configz": configz_page(lambda: {"parallelism": 16}),
        },
        inspect=Questions(empty).answer,
    )
    client = Client(AsgiTransport(reviews))
    server = Server(endpoints, Gatekeeper(client, client, local_token="local"))
    secure = await server.listen("127.0.0.1", 0, server_context())
    plain = await server.listen("127.0.0.1", 0, None)
    async with aiohttp.ClientSession() as session:

        async def get(path, token="", port=secure, method="GET"):
            scheme = "https" if port == secure else "http"
            headers = {"authorization": f"Bearer {token}"} if token else {}
            url = f"{scheme}://127.0.0.1:{port}{path}"
            async with session.request(method, url, headers=headers, ssl=False) as answer:
                return answer.status, await answer.text()

        get.plain, get.problems = plain, problems
        yield get
    await server.close()


async def test_health_needs_no_token(serving):
    for path in ("/healthz", "/livez", "/readyz"):
        assert (200, "ok") == await serving(path)


async def test_verbose_health_lists_the_checks(serving):
    _, text = await serving("/healthz?verbose")

    assert text == "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n"


async def test_a_failing_check_is_named_and_can_be_excluded(serving):
    serving.problems["leaderElection"] = "no renewal for 40 s"

    code, text = await serving("/readyz")

    assert code == 500
    assert "[-]leaderElection failed: no renewal for 40 s" in text
    assert (200, "ok") == await serving("/readyz?exclude=leaderElection")
    assert (200, "ok") == await serving("/livez")


@pytest.mark.parametrize(
    ("path", "token", "code"),
    [
        ("/metrics", "", 401),
        ("/metrics", "bad", 401),
        ("/metrics", "good", 200),
        ("/metrics", "local", 200),
        ("/configz", "good", 403),
        ("/configz", "local", 200),
        ("/nothing", "local", 404),
    ],
)
async def test_pages_ask_who_reads_them(serving, path, token, code):
    assert code == (await serving(path, token))[0]


async def test_questions_by_post_need_the_verb_post(serving):
    assert (await serving(f"{INSPECT}cluster", "good"))[0] == 200
    code, text = await serving(f"{INSPECT}cluster", "good", method="POST")

    assert (code, text) == (403, f'forbidden: cannot post "{INSPECT}cluster"\n')
    assert (await serving(f"{INSPECT}cluster", "local", method="POST"))[0] == 200


async def test_metrics_carry_upstreams_names(serving):
    _, text = await serving("/metrics", "local")

    wanted = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0'
    assert wanted in text
    assert "_created" not in text


async def test_configz_shows_the_configuration(serving):
    _, text = await serving("/configz", "local")

    assert {"componentconfig": {"parallelism": 16}} == json.loads(text)


async def test_plain_http_serves_health_and_metrics_only(serving):
    assert (200, "ok") == await serving("/healthz", port=serving.plain)
    assert (await serving("/metrics", port=serving.plain))[0] == 200
    assert (await serving("/configz", "local", port=serving.plain))[0] == 404


async def test_a_port_in_use_names_the_flag():
    server = Server(Endpoints({}, {}, {}, {}), Gatekeeper(None, None))
    port = await server.listen("127.0.0.1", 0, None)
    with pytest.raises(ConfigError, match="choose another --port"):
        await server.listen("127.0.0.1", port, None)
    await server.close()


def test_given_certificates_are_loaded_and_generated_ones_are_kept(tmp_path):
    certificate, key = self_signed("host")
    (tmp_path / "c").write_bytes(certificate)
    (tmp_path / "k").write_bytes(key)

    assert isinstance(server_context(str(tmp_path / "c"), str(tmp_path / "k")), ssl.SSLContext)
    server_context(cert_dir=str(tmp_path / "dir"))
    first = (tmp_path / "dir" / "kube-scheduler.crt").read_bytes()
    server_context(cert_dir=str(tmp_path / "dir"))
    assert first == (tmp_path / "dir" / "kube-scheduler.crt").read_bytes()
    assert (tmp_path / "dir" / "kube-scheduler.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"cert_file": "x"}, "--tls-private-key-file is missing"),
        ({"key_file": "x"}, "--tls-cert-file is missing"),
        ({"cert_file": "/no/c", "key_file": "/no/k"}, 'tls-cert-file "/no/c" does not exist'),
        ({"min_version": "3"}, "use one of VersionTLS10"),
        ({"client_ca_file": "/no"}, "--client-ca-file"),
    ],
)
def test_wrong_certificates_name_the_flag(arguments, text):
    with pytest.raises(ConfigError, match=text):
        server_context(**arguments)


def test_a_broken_certificate_names_the_flags(tmp_path):
    (tmp_path / "c").write_text("nonsense")

    with pytest.raises(ConfigError, match="--tls-cert-file"):
        server_context(str(tmp_path / "c"), str(tmp_path / "c"))


async def test_health_checks_are_counted(serving):
    await serving("/livez")

    status, text = await serving("/metrics/slis", "local")

    assert status == 200
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1.0' in text
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1.0' in text
