"""`bayplan config validate` tells everything that is wrong with a file at once."""

from pathlib import Path

from click.testing import CliRunner, Result

from bayplan.cli.main import bayplan

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EVERY_KIND_OF_PROBLEM = """
parallelism: -1
podInitialBackofSeconds: 3
profiles:
- schedulerName: one
  plugins:
    score: {enabled: [{name: NodeAffinity, weight: 0}]}
    filter: {enabled: [{name: Missing}, {name: Absent}]}
- schedulerName: two
  plugins: {filter: {enabled: [{name: ImageLocality}]}}
extenders:
- {urlPrefix: "http://e", prioritizeVerb: p, weight: 0}
"""


def validate(folder: Path, text: str, *more: str) -> Result:
    file = folder / "ksc.yaml"
    file.write_text(HEAD + text)
    return CliRunner().invoke(bayplan, ["config", "validate", str(file), *more])


def test_all_problems_come_in_one_round(tmp_path: Path):
    result = validate(tmp_path, EVERY_KIND_OF_PROBLEM)

    assert result.exit_code == 1
    for text in (
        'unknown field "podInitialBackofSeconds"',
        "parallelism: Invalid value: -1",
        "extenders[0].weight: Invalid value: 0",
        'plugins "Absent", "Missing" are not registered',
        "ImageLocality",
        "score.enabled[0].weight: 0 means 1; to switch NodeAffinity off, list it in disabled",
        "has 5 problems",
    ):
        assert text in result.output, result.output


def test_a_weight_of_zero_alone_is_valid_as_upstream_but_told(tmp_path: Path):
    text = "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 0}]}}}]"

    result = validate(tmp_path, text)

    assert result.exit_code == 0
    assert "warning: profiles[0].plugins.score.enabled[0].weight: 0 means 1" in result.output


def test_a_plugin_that_cannot_be_loaded_is_told_with_its_line(tmp_path: Path):
    plugin = tmp_path / "mine.py"
    plugin.write_text("def helper():\n    return {}['x']\n\n\nhelper()\n")

    result = validate(tmp_path, "", f"--plugins={plugin}")

    assert "'x' (mine.py:2)" in str(result.exception)
