"""Extenders over TLS: whom a scheduler believes, who it says it is, and what wrong files say."""

import ssl

import pytest

from bayplan.api.duration import seconds
from bayplan.apiserver import tls
from bayplan.config.types import Extender as ExtenderConfig
from bayplan.config.types import ExtenderTLSConfig
from bayplan.errors import ConfigError
from bayplan.extender import Extender
from bayplan.extender.client import HttpExtender
from bayplan.extender.http import Caller, ssl_context
from bayplan.extender.serve import Listen, uvicorn_config
from bayplan.framework.contract.extender import ExtenderError
from bayplan.testing.builders import make_node, make_pod
from tests.extender.servers import serving
from tests.pki import client_pair

POD = make_pod("p").uid("u").build()
NODES = [make_node("a").build(), make_node("b").build()]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tls.generate(tmp_path_factory.mktemp("pki"), ["here.example"])


@pytest.fixture(scope="module")
def pair(files):
    return client_pair(files)


@pytest.fixture(scope="module")
def url(files):
    """An extender that everybody may ask."""
    with serving(keeps_one(), cert_file=str(files.certificate), key_file=str(files.key)) as where:
        yield where


@pytest.fixture(scope="module")
def strict(files):
    """An extender that asks for a certificate."""
    with serving(
        keeps_one(),
        cert_file=str(files.certificate),
        key_file=str(files.key),
        client_ca_file=str(files.authority),
    ) as where:
        yield where


def keeps_one():
    app = Extender()
    app.filter(lambda names: names[:1])
    return app


def kept(url, https=False, **settings):
    config = ExtenderConfig(
        url_prefix=url,
        filter_verb="filter",
        enable_https=https,
        node_cache_capable=True,
        tls_config=ExtenderTLSConfig(**settings) if settings else None,
        http_timeout=seconds(30),
    )
    caller = Caller()
    try:
        return HttpExtender(config, caller).filter(POD, NODES).node_names
    finally:
        caller.close()


@pytest.mark.parametrize("name", ["", "here.example"], ids=["its address", "its name"])
@pytest.mark.parametrize("given", ["data", "file"])
def test_an_extender_with_a_certificate_of_the_authority_is_believed(url, files, given, name):
    authority = files.authority
    trusted = (
        {"ca_data": authority.read_bytes()} if given == "data" else {"ca_file": str(authority)}
    )

    assert ("a",) == kept(url, server_name=name, **trusted)


def test_data_beats_a_file(url, files):
    assert ("a",) == kept(url, ca_data=files.authority.read_bytes(), ca_file="/no/such/file")


def test_another_name_is_not_believed(url, files):
    with pytest.raises(ExtenderError, match=r"[Hh]ostname mismatch"):
        kept(url, ca_data=files.authority.read_bytes(), server_name="other.example")


def test_without_its_authority_nobody_is_believed_unless_told_so(url):
    """As upstream: `enableHTTPS` without a CA does not verify."""
    with pytest.raises(ExtenderError, match="certificate verify failed"):
        kept(url)
    assert ("a",) == kept(url, https=True)
    assert ("a",) == kept(url, insecure=True)


@pytest.mark.parametrize("given", ["data", "files", "one file"])
def test_who_asks_shows_a_certificate(strict, pair, given, tmp_path):
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_bytes(pair[0] + (pair[1] if given == "one file" else b""))
    key.write_bytes(pair[1])
    shown = {"cert_data": pair[0], "key_data": pair[1]}
    if given != "data":
        shown = {"cert_file": str(cert), "key_file": str(key) if given == "files" else ""}

    assert ("a",) == kept(strict, insecure=True, **shown)


def test_who_shows_none_is_turned_away(strict):
    with pytest.raises(ExtenderError, match="failed filter"):
        kept(strict, insecure=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"ca_data": b"\xff"},
        {"ca_data": b"no certificate"},
        {"ca_file": "/no/such/file"},
        {"cert_file": "/no/such/file"},
        {"cert_data": b"no certificate", "key_data": b"no key"},
    ],
    ids=["no text", "no authority", "no file", "no own file", "no pair"],
)
def test_what_cannot_be_used_names_the_extender(settings):
    config = ExtenderConfig(url_prefix="https://a", tls_config=ExtenderTLSConfig(**settings))

    with pytest.raises(ConfigError, match='tlsConfig of extender "https://a": '):
        ssl_context(config)


@pytest.mark.parametrize(
    ("https", "settings", "verified"),
    [
        (False, {}, True),
        (True, {}, False),
        (False, {"insecure": True}, False),
        (True, {"ca_data": "given"}, True),
        (True, {"ca_data": "given", "insecure": True}, False),
    ],
)
def test_who_is_verified(files, https, settings, verified):
    if settings.get("ca_data"):
        settings = settings | {"ca_data": files.authority.read_bytes()}
    made = ssl_context(
        ExtenderConfig(
            url_prefix="https://a", enable_https=https, tls_config=ExtenderTLSConfig(**settings)
        )
    )

    assert (verified, verified) == (made.check_hostname, made.verify_mode is ssl.CERT_REQUIRED)


def test_a_server_needs_a_certificate_to_ask_for_others(files):
    with pytest.raises(ConfigError, match="a client CA needs TLS"):
        uvicorn_config(keeps_one(), Listen(client_ca_file=str(files.authority)))
    with pytest.raises(ConfigError, match='loading certificate "/no/such/file"'):
        uvicorn_config(keeps_one(), Listen(cert_file="/no/such/file"))
