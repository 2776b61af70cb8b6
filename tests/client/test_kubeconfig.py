"""Which server and user a kubeconfig names, in kubectl's order, and what wrong ones say."""

import asyncio
import base64
import json
import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from bayplan.client import KubeconfigError, auth, load_kubeconfig
from bayplan.client.auth import EXPIRY_MARGIN, Credential, Credentials, _exec_info
from bayplan.client.kubeconfig import Connection, ExecPlugin
from bayplan.client.tls import client_context


def document(name: str, user: dict | None = None, cluster: dict | None = None, **extra) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": user or {}}],
        **extra,
    }


def write(path: Path, tree: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(tree))
    return path


def test_explicit_file_wins_over_environment(tmp_path):
    chosen = write(tmp_path / "chosen", document("chosen"))
    other = write(tmp_path / "other", document("other"))

    found = load_kubeconfig(chosen, env={"KUBECONFIG": str(other), "HOME": str(tmp_path)})

    assert found.server == "https://chosen:6443"


def test_listed_files_are_merged_and_the_first_to_name_something_wins(tmp_path):
    first = write(tmp_path / "first", document("a", {"token": "one"}))
    tree = document("a", {"token": "two"})
    tree["contexts"].append({"name": "b", "context": {"cluster": "a", "user": "b"}})
    tree["users"].append({"name": "b", "user": {"token": "three"}})
    second = write(tmp_path / "second", {**tree, "current-context": "b"})
    env = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}:{second}"}

    assert load_kubeconfig(env=env).token == "one"
    assert load_kubeconfig(env=env, context="b").token == "three"


def test_home_is_used_when_nothing_is_listed(tmp_path):
    write(tmp_path / ".kube" / "config", document("home"))

    assert load_kubeconfig(env={"HOME": str(tmp_path)}).server == "https://home:6443"


def test_service_account_is_the_last_resort(tmp_path):
    for name, text in (("token", "t"), ("ca.crt", "x"), ("namespace", "apps\n")):
        (tmp_path / name).write_text(text)
    env = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}

    found = load_kubeconfig(env=env, service_account=tmp_path)

    assert found.server == "https://[::1]:443"
    assert found.namespace == "apps"
    assert found.token_file == str(tmp_path / "token")


def test_relative_paths_are_relative_to_the_file(tmp_path):
    user = {"client-certificate": "c.pem", "client-key": "/k.pem", "tokenFile": "sub/token"}
    file = write(tmp_path / "deep" / "config", document("a", user, {"certificate-authority": "ca"}))

    found = load_kubeconfig(file)

    assert found.ca_file == str(tmp_path / "deep" / "ca")
    assert found.cert_file == str(tmp_path / "deep" / "c.pem")
    assert found.key_file == "/k.pem"
    assert found.token_file == str(tmp_path / "deep" / "sub" / "token")


def test_a_token_of_digits_stays_text(tmp_path):
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document("a")).replace("user: {}", "user: {token: 0123}"))

    assert load_kubeconfig(file).token == "0123"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"current-context": "zz"}, 'context "zz" does not exist', id="no context"),
        pytest.param({"current-context": ""}, "current-context is not set", id="none chosen"),
        pytest.param({"clusters": []}, 'names cluster "a", which does not exist', id="no cluster"),
        pytest.param({"users": []}, 'names user "a", which does not exist', id="no user"),
        pytest.param({"clusters": [{"name": "a", "cluster": {}}]}, "has no server", id="no server"),
        pytest.param(
            {"clusters": [{"name": "a", "cluster": {"server": "ftp://x"}}]},
            "must begin with https://",
            id="odd scheme",
        ),
        pytest.param(
            {"clusters": [{"name": "a", "cluster": {"server": "https://u:secret@x:1/p"}}]},
            'server "x:1" must not be written behind a user name and password',
            id="password in the address",
        ),
        pytest.param(
            {"users": [{"name": "a", "user": {"auth-provider": {"name": "gcp"}}}]},
            "use an exec plugin",
            id="removed auth provider",
        ),
        pytest.param(
            {"users": [{"name": "a", "user": {"exec": {"command": "x", "apiVersion": "v9"}}}]},
            'exec apiVersion "v9" is not known; use client.authentication.k8s.io/v1$',
            id="exec version",
        ),
        pytest.param({"contexts": []}, "contexts there: none", id="no context"),
        pytest.param({"clusters": []}, "clusters there: none", id="no cluster"),
        pytest.param({"users": [{"name": "b"}]}, "users there: b", id="no such user"),
        pytest.param(
            {
                "clusters": [
                    {
                        "name": "a",
                        "cluster": {
                            "server": "https://a",
                            "insecure-skip-tls-verify": True,
                            "certificate-authority": "x",
                        },
                    }
                ]
            },
            "remove one of the two",
            id="insecure with authority",
        ),
        pytest.param(
            {"users": [{"name": "a", "user": {"exec": {"args": ["x"]}}}]},
            "exec has no command; set it",
            id="exec without a command",
        ),
        pytest.param(
            {"users": [{"name": "a", "user": {"client-key-data": "x"}}]},
            "client-key-data is not base64",
            id="no base64",
        ),
    ],
)
def test_wrong_files_say_what_to_change(tmp_path, change, text):
    file = write(tmp_path / "config", {**document("a"), **change})

    with pytest.raises(KubeconfigError, match=text):
        load_kubeconfig(file)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("https:///x", id="no host"),
        pytest.param("//other.example", id="no host, no scheme"),
        pytest.param("https://:6443", id="only a port"),
        pytest.param("https://[127.0.0.1]:6443", id="brackets around an IPv4 address"),
        pytest.param("https://[::1", id="a bracket that is not closed"),
        pytest.param("https://a:b", id="a port in words"),
        pytest.param("https://a:65536", id="a port that there is not"),
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path, server):
    file = write(tmp_path / "config", document("a"))

    with pytest.raises(KubeconfigError, match="is no address of a server"):
        load_kubeconfig(file, master=server)


def test_broken_yaml_names_the_line(tmp_path):
    file = tmp_path / "config"
    file.write_text("clusters:\n- name: a\n  cluster: {server: [\n")

    with pytest.raises(KubeconfigError, match=r"at line \d"):
        load_kubeconfig(file)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "has no contexts; is it a kubeconfig", id="empty"),
        pytest.param(b"kind: List\nitems: []\n", "is it a kubeconfig", id="something else"),
        pytest.param(b"- a\n", "expected a mapping with clusters", id="a list"),
        pytest.param(b"\xff\xfe\x00", "it is not text", id="no text"),
    ],
)
def test_a_file_that_is_no_kubeconfig_says_so(tmp_path, data, text):
    file = tmp_path / "config"
    file.write_bytes(data)

    with pytest.raises(KubeconfigError, match=text):
        load_kubeconfig(file)


@pytest.mark.parametrize("tree", [None, {"current-context": ""}], ids=["no file", "no context"])
def test_a_server_that_was_named_needs_no_file(tmp_path, tree):
    if tree is not None:
        write(tmp_path / ".kube" / "config", tree)
    env = {"HOME": str(tmp_path)}

    found = load_kubeconfig(env=env, master="http://a:1/", service_account=tmp_path)

    assert "http://a:1" == found.server


def test_an_entry_without_a_body_is_one_without_settings(tmp_path):
    users = [{"name": "a"}, {"name": "a", "user": {"token": "second"}}, "nonsense", {"user": None}]
    file = write(tmp_path / "config", {**document("a"), "users": users})

    assert "" == load_kubeconfig(file).token


def test_what_is_null_is_not_there_and_what_only_says_so_is(tmp_path):
    """Programs of clouds write `env: null` and the like."""
    file = tmp_path / "config"
    text = yaml.safe_dump(document("a", {"token": "TOKEN"}, {"tls-server-name": None}))
    file.write_text(text.replace("TOKEN", "'null'") + "preferences:\nextensions: ~\n")

    found = load_kubeconfig(file)

    assert ("null", "") == (found.token, found.tls_server_name)


def test_whom_to_act_for(tmp_path):
    user = {
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"Scopes": ["a", "b"]},
    }

    assert (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-scopes", "b"),
    ) == load_kubeconfig(write(tmp_path / "config", document("a", user))).impersonate


@pytest.mark.parametrize(
    ("more", "args", "env"),
    [
        pytest.param({}, (), (), id="nothing"),
        pytest.param({"args": None, "env": None}, (), (), id="nulls"),
        pytest.param(
            {"args": ["-x", 1], "env": [{"name": "A", "value": "b"}, {"name": "C"}]},
            ("-x", "1"),
            (("A", "b"), ("C", "")),
            id="both",
        ),
    ],
)
def test_how_a_plugin_is_run(tmp_path, more, args, env):
    version = "client.authentication.k8s.io/v1"
    plugin = {"command": "./c", "apiVersion": version, "installHint": " get it\n", **more}
    found = load_kubeconfig(write(tmp_path / "config", document("a", {"exec": plugin}))).exec_plugin

    assert ExecPlugin("./c", args, env, version, "get it", False, str(tmp_path)) == found


def test_missing_file_and_missing_everything(tmp_path):
    with pytest.raises(KubeconfigError, match="check --kubeconfig"):
        load_kubeconfig(tmp_path / "nope")
    with pytest.raises(KubeconfigError, match='KUBECONFIG names "/no/a:/no/b", which'):
        load_kubeconfig(env={"KUBECONFIG": "/no/a:/no/b"}, service_account=tmp_path)
    with pytest.raises(KubeconfigError, match="pass --kubeconfig FILE"):
        load_kubeconfig(env={"HOME": str(tmp_path)}, service_account=tmp_path)


def test_wrong_certificates_name_the_field(tmp_path):
    bad = base64.b64encode(b"not a certificate").decode()
    file = write(tmp_path / "c", document("a", cluster={"certificate-authority-data": bad}))
    with pytest.raises(KubeconfigError, match="set it to the CA"):
        client_context(load_kubeconfig(file))
    file = write(tmp_path / "d", document("a", {"client-certificate": "gone.pem"}))
    with pytest.raises(KubeconfigError, match="check client-certificate"):
        client_context(load_kubeconfig(file))


async def test_token_file_is_read_again_after_a_minute(tmp_path):
    file = tmp_path / "token"
    file.write_text("one\n")
    clock = [0.0]
    credentials = Credentials(Connection("https://a", token_file=str(file)), now=lambda: clock[0])

    first = await credentials.get()
    file.write_text("two")
    clock[0] = 59.0
    second = await credentials.get()
    clock[0] = 60.0
    third = await credentials.get()

    tokens = [credential.headers["authorization"] for credential in (first, second, third)]
    assert ["Bearer one", "Bearer one", "Bearer two"] == tokens


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "check tokenFile in the kubeconfig"), (" \n", "is empty; write a token into it")],
)
async def test_a_token_file_without_a_token_says_so(tmp_path, content, text):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)

    with pytest.raises(KubeconfigError, match=text):
        await Credentials(Connection("https://a", token_file=str(file))).get()


async def test_only_what_can_change_is_fetched_again(tmp_path):
    fixed = Credentials(Connection("https://a", token="t"))
    from_file = Credentials(Connection("https://a", token_file=str(tmp_path / "token")))

    assert (False, True) == (await fixed.refresh(), await from_file.refresh())


async def test_basic_auth():
    credential = await Credentials(Connection("https://a", username="u", password="p")).get()

    assert credential.headers == {"authorization": "Basic dTpw"}


def plugin_script(folder: Path, answer: str) -> ExecPlugin:
    script = folder / "plugin"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"open({str(folder / 'runs')!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
        f"print({answer!r}.replace('TOKEN', os.environ['WHO'] + sys.argv[1]))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(
        "./plugin",
        args=("-arg",),
        env=(("WHO", "me"),),
        directory=str(folder),
        provide_cluster_info=True,
    )


def exec_credential(**fields: str) -> str:
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": fields,
        }
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        ({"tls_server_name": "n"}, {"tls-server-name": "n"}),
        ({"insecure": True}, {"insecure-skip-tls-verify": True}),
        ({"ca_data": b"ca"}, {"certificate-authority-data": "Y2E="}),
        ({"proxy_url": "http://p"}, {"proxy-url": "http://p"}),
    ],
    ids=["address", "name", "insecure", "authority", "proxy"],
)
def test_an_exec_plugin_is_told_of_its_cluster_where_it_asks(fields, told):
    connection = Connection("https://a", **fields)

    def spec(asks):
        return json.loads(_exec_info(ExecPlugin("x", provide_cluster_info=asks), connection))[
            "spec"
        ]

    assert {"interactive": False} == spec(False)
    assert {"interactive": False, "cluster": {"server": "https://a", **told}} == spec(True)


@pytest.mark.parametrize("zone", ["Z", "", "+00:00"])
async def test_a_plugin_is_asked_again_a_moment_before_what_it_gave_expires(tmp_path, zone):
    answer = exec_credential(token="TOKEN", expirationTimestamp=f"2030-01-01T00:00:00{zone}")
    connection = Connection("https://a", exec_plugin=plugin_script(tmp_path, answer))
    expires = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    clock = [0.0]
    credentials = Credentials(connection, now=lambda: clock[0])

    runs = []
    for before in (100, EXPIRY_MARGIN + 1, EXPIRY_MARGIN - 1):
        clock[0] = expires - before
        await credentials.get()
        runs.append(len((tmp_path / "runs").read_text().splitlines()))

    assert [1, 1, 2] == runs


async def test_exec_plugin_runs_once_until_it_expires_or_is_refused(tmp_path):
    answer = exec_credential(token="TOKEN", expirationTimestamp="2030-01-01T00:00:00Z")
    connection = Connection("https://a", exec_plugin=plugin_script(tmp_path, answer))
    clock = [0.0]
    credentials = Credentials(connection, now=lambda: clock[0])

    first = await credentials.get()
    await credentials.get()
    assert len((tmp_path / "runs").read_text().splitlines()) == 1
    clock[0] = 4e9
    await credentials.get()
    assert await credentials.refresh()
    await credentials.get()

    runs = (tmp_path / "runs").read_text().splitlines()
    assert first.headers == {"authorization": "Bearer me-arg"}
    assert len(runs) == 3
    assert json.loads(runs[0])["spec"] == {"interactive": False, "cluster": {"server": "https://a"}}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("hello", "did not print an ExecCredential", id="no JSON"),
        pytest.param(exec_credential(), "neither a token nor", id="empty status"),
        pytest.param('{"kind": "X"}', "expected client.authentication", id="another kind"),
    ],
)
async def test_exec_plugins_that_answer_nonsense(tmp_path, answer, text):
    connection = Connection("https://a", exec_plugin=plugin_script(tmp_path, answer))

    with pytest.raises(KubeconfigError, match=text):
        await Credentials(connection).get()


async def test_an_exec_plugin_is_told_all_of_its_cluster(tmp_path):
    authority = tmp_path / "ca"
    authority.write_bytes(b"pem")
    connection = Connection(
        "https://a",
        exec_plugin=plugin_script(tmp_path, exec_credential(token="TOKEN")),
        tls_server_name="name",
        ca_file=str(authority),
        proxy_url="http://proxy",
    )

    await Credentials(connection).get()

    info = json.loads((tmp_path / "runs").read_text())
    assert {
        "server": "https://a",
        "tls-server-name": "name",
        "certificate-authority-data": "cGVt",
        "proxy-url": "http://proxy",
    } == info["spec"]["cluster"]


async def test_an_exec_plugin_that_is_to_be_told_of_a_missing_file_names_it(tmp_path):
    plugin = plugin_script(tmp_path, exec_credential(token="TOKEN"))
    connection = Connection("https://a", exec_plugin=plugin, ca_file="/no/such/file")

    with pytest.raises(KubeconfigError, match=r'"/no/such/file": No such file.*; check cert'):
        await Credentials(connection).get()


async def test_an_exec_plugin_may_give_a_certificate(tmp_path):
    answer = exec_credential(clientCertificateData="cert", clientKeyData="key")
    connection = Connection("https://a", exec_plugin=plugin_script(tmp_path, answer))

    assert Credential({}, b"cert", b"key") == await Credentials(connection).get()


@pytest.mark.parametrize(
    ("script", "text"),
    [
        pytest.param("#!/bin/sh\nexit 3\n", "failed with exit code 3", id="it fails"),
        pytest.param("#!/no/such/program\n", "running exec plugin", id="it cannot be run"),
        pytest.param("#!/bin/sh\nexec sleep 60\n", "did not finish within 0 s", id="it hangs"),
    ],
)
async def test_exec_plugins_that_do_not_work(tmp_path, monkeypatch, script, text):
    monkeypatch.setattr(auth, "EXEC_TIMEOUT", 0.2 if "sleep" in script else 60.0)
    plugin = plugin_script(tmp_path, "")
    (tmp_path / "plugin").write_text(script)

    with pytest.raises(KubeconfigError, match=text):
        await Credentials(Connection("https://a", exec_plugin=plugin)).get()


async def test_missing_exec_plugin_shows_the_install_hint():
    plugin = ExecPlugin("no-such-plugin-anywhere", install_hint="brew install it")

    with pytest.raises(KubeconfigError, match="brew install it"):
        await Credentials(Connection("https://a", exec_plugin=plugin)).get()


@pytest.mark.parametrize("turns", [0, 1, 2, 5, None], ids=str)
async def test_an_exec_plugin_nobody_waits_for_is_ended(tmp_path, turns):
    """None: when it runs already, which it tells by a file."""
    script, mark = tmp_path / "plugin", tmp_path / "pid"
    script.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"open({str(mark) + '.new'!r}, 'w').write(str(os.getpid()))\n"
        f"os.rename({str(mark) + '.new'!r}, {str(mark)!r})\n"
        "os.read(os.open(sys.argv[1], os.O_RDONLY), 1)\n"
    )
    script.chmod(0o700)
    os.mkfifo(tmp_path / "never")
    plugin = ExecPlugin(str(script), args=(str(tmp_path / "never"),), directory=str(tmp_path))
    asking = asyncio.create_task(Credentials(Connection("https://a", exec_plugin=plugin)).get())
    for _ in range(turns or 0):
        await asyncio.sleep(0)
    while turns is None and not mark.exists():
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert [] == [words for words in children() if str(script) in words]


def children() -> list[str]:
    """The command lines of programs that this process has started."""
    numbers = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{number}/cmdline").read_text() for number in numbers]
