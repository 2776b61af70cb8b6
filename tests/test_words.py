"""Numbers with their nouns, and what a misspelt name may mean."""

import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan, main
from bayplan.inspect import Cluster, UnknownObject
from bayplan.testing import make_node
from bayplan.words import did_you_mean, plural


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (1200, "1,200 pods")]
)
def test_one_is_no_plural(count, text):
    assert text == plural(count, "pod")


def test_what_is_near_is_named_and_what_is_far_is_not():
    assert "; did you mean first-pod?" == did_you_mean("firstpod", ["first-pod", "drain"])
    assert "" == did_you_mean("zzz", ["first-pod", "drain"])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("extender nwe", "did you mean new?"),
        ("extender chekc http://127.0.0.1:1", "did you mean check?"),
        ("scenario run firstpod", "did you mean first-pod"),
        ("nodes add --shape medum", "did you mean medium"),
        (
            "extender no_such_extender:app",
            "go to its directory, or name the file: DIRECTORY/no_such_extender.py:app",
        ),
        ("nodes add two", "'two' is not a valid whole number"),
        ("up --nodes two", "'two' is not a valid whole number"),
    ],
)
def test_a_misspelt_name_or_a_wrong_value_is_told_what_would_do(words, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(bayplan, words.split())

    assert found.exit_code
    assert hint in found.output + str(found.exception)


def test_the_report_of_a_scenario_counts_one_as_one():
    found = CliRunner().invoke(bayplan, ["scenario", "run", "first-pod"])

    assert "1 pod, 1 bound, 0 still pending; 1 node; " in found.output


def test_a_surplus_word_that_is_an_option_is_told_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bayplan", "whatif", "drain", "worker-1"])
    with pytest.raises(SystemExit) as left:
        main()

    assert 2 == left.value.code
    assert "(drain worker-1). Did you mean --drain?" in capsys.readouterr().err


def test_who_asks_about_a_deployment_as_a_pod_is_told_how_to_ask():
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": []}}},
    }
    cluster = Cluster.from_objects([make_node("n").body(), web])

    with pytest.raises(UnknownObject, match='"web" is no pod but a deployment: ask about'):
        cluster.why("web")
