"""The command line of kube-scheduler: its forms, what is warned about, what is refused."""

import pytest
from click.testing import CliRunner

from bayplan import __version__
from bayplan.cli.main import bayplan
from bayplan.config import InvalidConfig
from bayplan.errors import BayplanError, ConfigError
from bayplan.scheduler.flags import FLAGS, parse, usage
from bayplan.scheduler.options import load_options


@pytest.mark.parametrize(
    ("words", "name", "want"),
    [
        (["--config", "f"], "config", "f"),
        (["--config=f"], "config", "f"),
        (["-config=f"], "config", "f"),
        (["--leader-elect"], "leader-elect", "true"),
        (["--leader-elect=false"], "leader-elect", "false"),
        (["--leader-elect", "--v=1"], "leader-elect", "true"),
        (["-v", "3"], "v", "3"),
        (["-v=3"], "v", "3"),
        (["-v3"], "v", "3"),
        (["--secure_port=0"], "secure-port", "0"),
        (["--plugins=a", "--plugins=b"], "plugins", "a,b"),
        ([], "secure-port", "10259"),
    ],
)
def test_forms_of_flags(words, name, want):
    assert want == parse(words).text(name)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--leader-elekt"], "did you mean --leader-elect"),
        (["--zzzzzz=1"], "unknown flag --zzzzzz; see --help"),
        (["--secure-port=x"], 'invalid value "x" for flag --secure-port'),
        (["--leader-elect=maybe"], "use true or false"),
        (["--leader-elect-lease-duration=5"], "--leader-elect-lease-duration"),
        (["--config"], "needs a value"),
        (["run"], "takes flags only"),
    ],
)
def test_wrong_flags_say_what_to_change(words, text):
    with pytest.raises(ConfigError, match=text):
        parse(words)


def test_flags_without_meaning_are_accepted_with_a_warning():
    options = load_options(parse(["--disable-http2-serving", "--vmodule=a=1", "--v=2"]))

    assert [
        "--disable-http2-serving has no meaning here and is ignored",
        "--vmodule has no meaning here and is ignored",
    ] == list(options.warnings)


def test_every_flag_has_a_help_line():
    text = usage()

    assert all(f"-{name}" in text for name in FLAGS)


def test_file_beats_deprecated_flags_and_election_flags_beat_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: /from/file, qps: 7}\n"
        "leaderElection: {leaderElect: true, resourceName: mine}\n"
    )
    words = [
        "--config",
        str(file),
        "--kubeconfig=/flag",
        "--kube-api-qps=9",
        "--leader-elect=false",
    ]

    options = load_options(parse(words))

    assert options.config.client_connection.kubeconfig == "/from/file"
    assert options.config.client_connection.qps == 7
    assert options.config.leader_election.leader_elect is False
    assert options.config.leader_election.resource_name == "mine"
    assert any("--kubeconfig is ignored" in text for text in options.warnings)


def test_flags_alone_make_a_configuration():
    words = ["--kubeconfig=/k", "--kube-api-qps=500", "--leader-elect-lease-duration=30s"]

    config = load_options(parse(words)).config

    assert config.client_connection.kubeconfig == "/k"
    assert config.client_connection.qps == 500
    assert config.leader_election.lease_duration.seconds == 30


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--config=/does/not/exist"], "/does/not/exist"),
        (["--logging-format=xml"], "use text or json"),
        (["--extender-calls-ahead=8"], "use never or promised or always"),
        (["--feature-gates=Nope=true"], "unrecognized feature gate"),
        (["--leader-elect-lease-duration=5s"], "(?i)leaseDuration|renewDeadline"),
    ],
)
def test_wrong_options_say_what_to_change(words, text):
    with pytest.raises((BayplanError, InvalidConfig), match=text):
        load_options(parse(words))


def test_version_is_told_and_nothing_started():
    told = CliRunner().invoke(bayplan, ["scheduler", "--version", "--config=not-there.yaml"])

    assert (0, f"bayplan, version {__version__}") == (told.exit_code, told.output.split(";")[0])
