"""`bayplan apiserver`: serve the Kubernetes API from an embedded store."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli import values

NO_ETCD = "--store etcd needs --etcd-servers, for example http://127.0.0.1:2379"
FILE = click.Path(path_type=Path, dir_okay=False)
READABLE = values.ReadFile(path=True)


def _words(given: object) -> list[str]:
    return [word for word in str(given).split(",") if word]


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
@click.option("--etcd-cafile", type=READABLE, help="Authority that signed etcd's certificate.")
@click.option("--etcd-certfile", type=READABLE, help="Certificate to show to etcd.")
@click.option("--etcd-keyfile", type=READABLE, help="The key of --etcd-certfile.")
@click.option("--token-file", type=READABLE, help='More users: a CSV of token,user,uid,"groups".')
@click.option("--tls-cert-file", type=READABLE, help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", type=READABLE, help="The certificate's key.")
@click.option(
    "--tls-generate/--no-tls",
    default=True,
    help="Serve HTTPS with a certificate made here (default), or plain HTTP only.",
)
@click.option(
    "--client-ca-file",
    type=READABLE,
    help="Clients may show certificates of this authority; the generated one by default.",
)
@click.option(
    "--authorization-mode",
    type=click.Choice(("AlwaysAllow", "RBAC")),
    help="Default: RBAC beyond loopback, AlwaysAllow on it.",
)
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
    is_flag=True,
    help="Refuse a binding that the node has no room for.",
)
@click.option(
    "--enable-admission-plugins",
    default="",
    type=values.ADMISSION,
    help="Switched on besides the default ones.",
)
@click.option(
    "--disable-admission-plugins",
    default="",
    type=values.ADMISSION,
    help="Comma-separated; switched off.",
)
@click.option(
    "--emulated-version",
    default="",
    type=values.VERSION,
    is_eager=True,
    help="Serve the kinds of this version; the newest by default.",
)
@click.option(
    "--feature-gates",
    default="",
    type=values.GATES,
    help="NAME=true|false,…: gates bring further kinds.",
)
@click.option(
    "--event-ttl",
    default=3600.0,
    type=values.SECONDS,
    show_default=True,
    help="Seconds after which events go; 0 keeps them for ever.",
)
@click.option(
    "--service-account-signing-key-file",
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
def command(bind: str, controllers: str, etcd_servers: str, **options: object) -> None:
    """Serve the Kubernetes API on this machine, without etcd or Docker."""
    from bayplan.apiserver.serving import Settings
    from bayplan.cli.serve import run
    from bayplan.config import parse_gates, parse_version
    from bayplan.listening import parse_address

    if options["store"] == "etcd" and not etcd_servers:
        raise click.UsageError(NO_ETCD)
    host, port = parse_address(bind)
    version = parse_version(str(options["emulated_version"]))
    settings = Settings(
        host=host,
        port=port,
        etcd_servers=[url for url in etcd_servers.split(",") if url],
        etcd_cafile=options["etcd_cafile"],  # type: ignore[arg-type]
        etcd_certfile=options["etcd_certfile"],  # type: ignore[arg-type]
        etcd_keyfile=options["etcd_keyfile"],  # type: ignore[arg-type]
        data=options["data"],  # type: ignore[arg-type]
        store=str(options["store"]),
        kubeconfig_out=options["kubeconfig_out"],  # type: ignore[arg-type]
        token_file=options["token_file"],  # type: ignore[arg-type]
        tls_certificate=options["tls_cert_file"],  # type: ignore[arg-type]
        tls_key=options["tls_private_key_file"],  # type: ignore[arg-type]
        client_ca=options["client_ca_file"],  # type: ignore[arg-type]
        tls_generate=bool(options["tls_generate"]),
        authorization_mode=str(options["authorization_mode"] or ""),
        anonymous_auth=bool(options["anonymous_auth"]),
        check_capacity=bool(options["check_bind_capacity"]),
        max_requests_inflight=int(str(options["max_requests_inflight"])),
        max_mutating_requests_inflight=int(str(options["max_mutating_requests_inflight"])),
        max_request_bytes=int(str(options["max_request_bytes"])),
        service_account_key=options["service_account_signing_key_file"],  # type: ignore[arg-type]
        service_account_issuer=str(options["service_account_issuer"]),
        event_ttl=float(str(options["event_ttl"])),
        enable_admission_plugins=_words(options["enable_admission_plugins"]),
        disable_admission_plugins=_words(options["disable_admission_plugins"]),
        gates=parse_gates(str(options["feature_gates"]), version),
    )
    run(settings, controllers, click.echo)
