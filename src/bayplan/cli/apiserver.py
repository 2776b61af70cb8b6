"""`bayplan apiserver`: serve the Kubernetes API from an embedded store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayplan.cli import values

NO_ETCD = "--store etcd needs --etcd-servers, for example http://127.0.0.1:2379"
FILE = values.WrittenFile()
READABLE = values.ReadFile(path=True)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for objects, the admin token and generated certificates.",
)
@click.option(
    "--bind",
    default="127.0.0.1:6443",
    show_default=True,
    type=values.ADDRESS,
    help="Address to listen on; port 0 takes a free one.",
)
@click.option(
    "--kubeconfig-out", type=FILE, help="Write a kubeconfig for kubectl here (mode 0600)."
)
@click.option(
    "--store",
    type=click.Choice(("memory", "sqlite", "etcd")),
    default="sqlite",
    show_default=True,
    help="Where objects are kept.",
)
@click.option(
    "--etcd-servers", default="", type=values.URLS, help="Comma-separated URLs, with --store etcd."
)
@values.etcd_files
@click.option("--token-file", type=READABLE, help='More users: a CSV of token,user,uid,"groups".')
@click.option(
    "--tls-cert-file", "tls_certificate", type=READABLE, help="Serve HTTPS with this certificate."
)
@click.option("--tls-private-key-file", "tls_key", type=READABLE, help="The certificate's key.")
@click.option(
    "--tls-generate/--no-tls",
    default=True,
    help="Serve HTTPS with a certificate made here (default), or plain HTTP only.",
)
@click.option(
    "--client-ca-file",
    "client_ca",
    type=READABLE,
    help="Clients may show certificates of this authority; the generated one by default.",
)
@values.authorization_mode
@click.option(
    "--anonymous-auth",
    type=click.BOOL,
    default=True,
    show_default=True,
    help="Let health and version be read without a token.",
)
@click.option(
    "--controllers",
    default="",
    type=values.CONTROLLERS,
    help="Comma-separated controllers to run, * for all; none by default.",
)
@click.option(
    "--check-bind-capacity",
    "check_capacity",
    is_flag=True,
    help="Refuse a binding that the node has no room for.",
)
@values.admission_plugins
@click.option(
    "--disable-admission-plugins",
    default="",
    type=values.ADMISSION,
    help="Comma-separated; switched off.",
)
@values.emulated_version("Serve the kinds of this version; the newest by default.")
@values.feature_gates("NAME=true|false,…: gates bring further kinds.")
@click.option(
    "--event-ttl",
    default=3600.0,
    type=values.SECONDS,
    show_default=True,
    help="Seconds after which events go; 0 keeps them for ever.",
)
@click.option(
    "--service-account-signing-key-file",
    "service_account_key",
    type=READABLE,
    help="EC P-256 key of service account tokens; made in --data by default.",
)
@click.option(
    "--service-account-issuer",
    default="https://kubernetes.default.svc.cluster.local",
    show_default=True,
    help="Issuer of service account tokens.",
)
@click.option(
    "--max-requests-inflight",
    default=400,
    type=values.COUNT,
    show_default=True,
    help="With the next, the seats that the requests of all priority levels share.",
)
@click.option(
    "--max-mutating-requests-inflight",
    default=200,
    type=values.COUNT,
    show_default=True,
    help="Is added to the one before.",
)
@click.option(
    "--max-request-bytes",
    default=3 * 1024 * 1024,
    type=click.IntRange(1),
    show_default=True,
    help="Larger bodies are answered with 413.",
)
def command(
    bind: str,
    controllers: str,
    etcd_servers: str,
    authorization_mode: str | None,
    enable_admission_plugins: str,
    disable_admission_plugins: str,
    emulated_version: str,
    feature_gates: str,
    **others: Any,
) -> None:
    """Serve the Kubernetes API on this machine, without etcd or Docker."""
    from bayplan.apiserver.serving import Settings
    from bayplan.cli.serve import run
    from bayplan.config import parse_gates, parse_version
    from bayplan.listening import parse_address

    if others["store"] == "etcd" and not etcd_servers:
        raise click.UsageError(NO_ETCD)
    host, port = parse_address(bind)
    settings = Settings(
        host=host,
        port=port,
        etcd_servers=values.listed(etcd_servers),
        authorization_mode=authorization_mode or "",
        enable_admission_plugins=values.listed(enable_admission_plugins),
        disable_admission_plugins=values.listed(disable_admission_plugins),
        gates=parse_gates(feature_gates, parse_version(emulated_version)),
        **others,  # are named as the settings
    )
    run(settings, controllers, click.echo)
