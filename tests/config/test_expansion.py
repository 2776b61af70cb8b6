"""Merging of a profile with the defaults, and the expansion of multiPoint."""

import pytest

from bayplan.config import Plugin, PluginSet, expand, load
from bayplan.config.defaults import merge_plugin_set
from bayplan.errors import ConfigError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POINTS = {
    "Sort": {"queueSort"},
    "Bind": {"bind"},
    "A": {"filter", "score"},
    "B": {"filter", "score"},
    "C": {"filter", "score"},
    "D": {"filter"},
}
BASE = "{name: '*'}"


def profile(plugins):
    text = f"""
profiles:
- plugins:
    multiPoint:
      disabled: [{{name: '*'}}]
      enabled: [{{name: Sort}}, {{name: Bind}}, {plugins.pop("multiPoint", "")}]
"""
    for point, value in plugins.items():
        text += f"    {point}: {value}\n"
    return load(HEAD + text).config.profiles[0]


def names(plugins):
    return [plugin.name for plugin in plugins]


@pytest.mark.parametrize(
    ("custom", "enabled"),
    [
        pytest.param(PluginSet(), ["A", "B", "C"], id="nothing said"),
        pytest.param(
            PluginSet(disabled=(Plugin(name="B"),)), ["A", "C"], id="one default disabled"
        ),
        pytest.param(
            PluginSet(disabled=(Plugin(name="*"),), enabled=(Plugin(name="X"),)),
            ["X"],
            id="all defaults disabled",
        ),
        pytest.param(
            PluginSet(enabled=(Plugin(name="X"), Plugin(name="B", weight=9))),
            ["A", "B", "C", "X"],
            id="a default is re-configured in place, others follow",
        ),
        pytest.param(
            PluginSet(disabled=(Plugin(name="A"),), enabled=(Plugin(name="A"),)),
            ["B", "C", "A"],
            id="disabled and enabled again moves to the end",
        ),
    ],
)
def test_merge_with_the_defaults(custom, enabled):
    default = PluginSet(enabled=tuple(Plugin(name=name) for name in "ABC"))

    assert names(merge_plugin_set(default, custom).enabled) == enabled


def test_overrides_run_first_then_multipoint_then_the_rest():
    its = profile(
        {
            "multiPoint": "{name: A}, {name: B, weight: 4}, {name: C}",
            "filter": "{enabled: [{name: D}, {name: C}]}",
            "score": "{enabled: [{name: C, weight: 7}], disabled: [{name: A}]}",
        }
    )

    expanded = expand(its, POINTS)

    assert expanded.points["filter"] == ("C", "A", "B", "D")
    assert expanded.points["score"] == ("C", "B")
    assert expanded.score_weights == {"C": 7, "A": 1, "B": 4}


def test_star_at_a_point_keeps_only_what_is_named_there():
    its = profile(
        {
            "multiPoint": "{name: A}, {name: B}",
            "filter": "{enabled: [{name: D}], disabled: [{name: '*'}]}",
        }
    )

    expanded = expand(its, POINTS)

    assert expanded.points["filter"] == ("D",)
    assert expanded.points["score"] == ("A", "B")


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"multiPoint": "{name: Nope}"}, 'plugin "Nope" does not exist'),
        (
            {"score": "{enabled: [{name: D}]}"},
            'plugin "D" does not extend ScorePlugin plugin',
        ),
        (
            {"filter": "{enabled: [{name: A}, {name: A}]}"},
            'plugin "A" already registered as "FilterPlugin"',
        ),
        (
            {"multiPoint": "{name: A}, {name: A}"},
            'plugin "A" already registered as "FilterPlugin"',
        ),
        (
            {"queueSort": "{disabled: [{name: Sort}]}"},
            "only one queue sort plugin required for profile with scheduler name "
            '"default-scheduler", but got 0',
        ),
        (
            {"bind": "{disabled: [{name: '*'}]}"},
            "at least one bind plugin is needed",
        ),
    ],
)
def test_impossible_profile_is_refused(plugins, message):
    with pytest.raises(ConfigError) as caught:
        expand(profile(plugins), POINTS)

    assert message in str(caught.value)
