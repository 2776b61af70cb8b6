"""Commands that read a cluster, and a server that is not the one of the kubeconfig.

No token leaves before the server has shown who it is, whatever it says, and the error tells what to
do about it.
"""

import base64
import contextlib
import ipaddress
import json
import re
import socket
import ssl
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bayplan.api import yaml
from bayplan.cli.main import bayplan, main
from bayplan.cli.remembering import remembered
from bayplan.errors import BayplanError
from bayplan.testing.servers import Process, bayplan_command
from tests.cli.walking import CONFIG, commands

TOKEN = "a-token-that-must-not-leave"


def certificate(name, days):
    """One that signs itself, and its key, in PEM; of this name or address, until so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(own, own, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=9)).not_valid_after(
        now + timedelta(days=days)
    )
    made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private = key.private_bytes(serialization.Encoding.PEM, *form)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private


def write_kubeconfig(path, cluster):
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.dump(config))


HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("elsewhere.example")
# Its certificate, whether that is the one of the kubeconfig, what it does, and a word of the error.
SERVERS = {
    "nobody knows it": (HERE, 9, False, "certificate-authority"),
    "it is another": (ELSEWHERE, 9, True, "certificate"),
    "it is over": (HERE, -1, True, "expired"),
    "it speaks no TLS": (None, 9, False, "http"),
}
NAMED = {
    "snapshot": ["snapshot", "save", "out.snapshot"],
    "why": ["why", "default/p"],
    "ui": ["ui"],
}


@contextlib.contextmanager
def listening(context, answer=b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"):
    """Answer whoever comes in plain words, and keep all that is said."""
    heard, listener = [], socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                connection.settimeout(60)
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                heard.append(connection.recv(1 << 16))
                connection.sendall(answer)
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)


@pytest.mark.parametrize("command", NAMED)
@pytest.mark.parametrize("name", SERVERS)
def test_no_token_leaves_and_the_remedy_is_told(tmp_path, monkeypatch, name, command):
    monkeypatch.chdir(tmp_path)
    named, days, known, word = SERVERS[name]
    context, authority = None, b""
    if named is not None:
        signed, key = certificate(named, days)
        (tmp_path / "both.pem").write_bytes(signed + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both.pem")
        authority = signed if known else b""
    with listening(context) as (port, heard):
        cluster = {"server": f"https://127.0.0.1:{port}"}
        if authority:
            cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
        write_kubeconfig(tmp_path / "config", cluster)
        words = [*NAMED[command], "--kubeconfig", str(tmp_path / "config")]
        found = CliRunner().invoke(bayplan, words)

    assert isinstance(found.exception, BayplanError), found.output
    said = f"{found.exception} {found.output}"
    assert not [each for each in heard if TOKEN.encode() in each]
    assert TOKEN not in said
    assert word in said, said
    assert not (tmp_path / "out.snapshot").exists()


def http(status, body, kind="application/json"):
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


def refusal(code, reason):
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return http(f"{code} {reason}", json.dumps(status | {"message": f"nodes: {reason}"}))


# What a plain server says to whatever it is asked, and the words of the remedy.
ANSWERS = {
    "wrong token": (refusal(401, "Unauthorized"), "log in again"),
    "may not": (refusal(403, "Forbidden"), "grant it|ClusterRole"),
    "a login page": (http("200 OK", "<html>", "text/html"), "check .*address"),
    "another server": (http("404 Not Found", "no such page", "text/plain"), "check .*address"),
    "it fails": (refusal(503, "ServiceUnavailable"), "try again"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "check .*address"),
    "it hangs up": (b"", "is the API server running"),
}
# The commands that talk to an API server, the shortest way to have them ask it.
CLIENTS = {
    "capacity": ["cpu=1"],
    "diff": ["--to-config", "config.yaml"],
    "nodes add": [],
    "nodes remove": ["--all"],
    "pack": [],
    "scenario record": ["out.yaml"],
    "scenario run": ["first-pod"],
    "snapshot save": ["out.snapshot"],
    "ui": [],
    "whatif": ["--drain", "n1"],
    "why": ["p"],
}
PATIENT = {
    "extender serve": "an extender outlives its API server",
    "global serve": "so does the global scheduler, which tells it of a site",
    "inspect serve": "each answer tells what is wrong",
    "scheduler": "it takes kube-scheduler's place, which tries for ever",
}
FLAG = {"scenario run": "--against"}


def test_every_command_with_a_kubeconfig_is_in_the_table():
    asking = {
        " ".join(path)
        for path, command in commands()
        if {"--kubeconfig", "--against"} & {name for item in command.params for name in item.opts}
    }

    assert {*CLIENTS, *PATIENT} == asking | {"scheduler"}


def asked(tmp_path, monkeypatch, capsys, command, cluster):
    """Run a command as the shell does against a server; return its exit code and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    write_kubeconfig(tmp_path / "config", cluster)
    flag = FLAG.get(command, "--kubeconfig")
    words = ["bayplan", *command.split(), *CLIENTS[command], flag, "config"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("command", CLIENTS)
@pytest.mark.parametrize("name", ANSWERS)
def test_each_wrong_server_is_told_in_a_line_with_a_remedy(
    tmp_path, monkeypatch, capsys, name, command
):
    answer, remedy = ANSWERS[name]
    with listening(None, answer) as (port, _):
        cluster = {"server": f"http://127.0.0.1:{port}"}
        code, said = asked(tmp_path, monkeypatch, capsys, command, cluster)

    assert code in (1, 2), said
    assert said.startswith("error: ")
    assert said.count("\n") == 1, said
    assert re.search(remedy, said), said


@pytest.mark.parametrize("command", CLIENTS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_is_not_there_or_speaks_no_tls(
    tmp_path, monkeypatch, capsys, scheme, command
):
    with listening(None) as (port, _):
        cluster = {"server": f"{scheme}://127.0.0.1:{port if scheme == 'https' else 1}"}
        code, said = asked(tmp_path, monkeypatch, capsys, command, cluster)

    assert code in (1, 2), said
    assert said.count("\n") == 1, said
    assert ("it speaks no TLS" if scheme == "https" else "Connection refused") in said


OTHERS = {
    "global drain": ["site1", "--server"],
    "global drain --undo": ["site1", "--server"],
    "global rebalance": ["--server"],
    "global stranded": ["--server"],
    "global whatif": ["--lose", "site1", "--server"],
    "global why": ["an-id", "--server"],
    "backup": ["data", "copy", "--etcd-servers"],
}


@pytest.mark.parametrize("command", OTHERS)
@pytest.mark.parametrize("name", ["wrong token", "a login page", "another server", "no HTTP"])
def test_a_global_scheduler_or_etcd_that_is_none(tmp_path, monkeypatch, capsys, name, command):
    """`global drain` called a refusal a success."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()  # what `backup` reads must be there
    with listening(None, ANSWERS[name][0]) as (port, _):
        words = [*command.split(), *OTHERS[command], f"http://127.0.0.1:{port}"]
        monkeypatch.setattr(sys, "argv", ["bayplan", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    said = capsys.readouterr().err

    assert ended.value.code in (1, 2), said
    assert said.startswith("error: ")
    assert said.count("\n") == 1, said
    assert re.search("--token-file|--server names|check --etcd-servers|--etcd-…", said), said


def test_a_scheduler_outlives_a_web_page_in_its_api_servers_place(tmp_path):
    """A proxy may show one for a while: whoever schedules tries until it has gone."""
    with listening(None, ANSWERS["a login page"][0]) as (port, _):
        write_kubeconfig(tmp_path / "config", {"server": f"http://127.0.0.1:{port}"})
        words = ["scheduler", "--secure-port=0", "--leader-elect=false", "--kubeconfig", "config"]
        process = Process([*bayplan_command(), *words], tmp_path / "log", cwd=tmp_path)
        try:
            process.wait_until(lambda: "trying until it can" in process.last_words())

            assert process.running
        finally:
            process.stop()


def test_why_tells_that_the_scheduler_it_is_to_ask_refuses(tmp_path, monkeypatch):
    write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"})
    for name, word in (("wrong token", "401"), ("a login page", "web page"), ("no HTTP", "HTTP")):
        with listening(None, ANSWERS[name][0]) as (port, _):
            there = f"http://127.0.0.1:{port}"
            with pytest.raises(BayplanError, match=f"{word}.*check --scheduler"):
                remembered("default/p", str(tmp_path / "config"), "", there)
    with listening(None, refusal(404, "NotFound")) as (port, _):
        there = f"http://127.0.0.1:{port}"

        assert remembered("default/p", str(tmp_path / "config"), "", there) == ()
