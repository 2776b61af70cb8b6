"""What a CONFIG_BASE directory may say, and how its problems are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bayplan.errors import ConfigError
from bayplan.global_scheduler.fields import Problem
from bayplan.global_scheduler.files import (
    Conf,
    Policy,
    PolicyEntry,
    must_load,
    newest_change,
    read_conf,
    read_policy,
)
from tests.global_scheduler.fuzz import SAMPLE


def conf(folder: Path, text: str) -> tuple[Conf, list[str]]:
    (folder / "conf.yaml").write_text(text)
    problems: list[Problem] = []
    return read_conf(folder, problems), [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("port: 65535", ""),
        ("port: 0", ""),
        ("port: 65536", "port: must be below 65536, got 65536"),
        ("port: -1", "port: must be"),
        ('address: ""', "address: must not be empty; 0.0.0.0 means all interfaces"),
        ("address: 127.0.0.1", ""),
        ("replace_lost_after_seconds: -1", "replace_lost_after_seconds: must be"),
        ("replace_lost_after_seconds: 0", ""),
        ("reservation_ttl_seconds: 0", "reservation_ttl_seconds: must be"),
        ("reservation_ttl_seconds: 0.001", ""),
        ("spot_region_mapping: [{region: r}]", "spot_region_mapping[0].spot_region: is missing"),
    ],
)
def test_what_conf_may_say(tmp_path: Path, line: str, problem: str) -> None:
    _, problems = conf(tmp_path, f"scheduler_policy_file: p.yaml\n{line}\n")

    assert len(problems) == bool(problem)
    assert all(problem in each for each in problems), problems


def test_what_conf_leaves_out_has_a_default(tmp_path: Path) -> None:
    found, problems = conf(tmp_path, "scheduler_policy_file: ${PWD}/p.yaml\nport: 1\n")

    assert [] == problems
    assert ("0.0.0.0", 1, 60.0) == (found.address, found.port, found.ttl_seconds)
    assert f"{tmp_path.parent}/p.yaml" == found.policy_file


def test_a_file_that_is_not_there_or_no_yaml_is_a_problem(tmp_path: Path) -> None:
    problems: list[Problem] = []
    assert (Conf(), Policy()) == (
        read_conf(tmp_path, problems),
        read_policy(tmp_path, Conf(), problems),
    )
    (tmp_path / "conf.yaml").write_text("a: [")
    read_conf(tmp_path, problems)

    told = [str(problem) for problem in problems]
    assert "conf.yaml: cannot be read: No such file or directory" in told[0]
    assert "edgecloud_policy.yaml: cannot be read: No such file or directory" in told[1]
    assert told[2].startswith("conf.yaml: yaml: line ")
    assert 3 == len(told)


EMPTY = {
    "conf.yaml": "# nothing yet\n",
    "edgecloud_policy.yaml": "",
    "sites.json": "",
    "site_nodes.json": " ",
    "flavors.json": "null",
    "quotas.json": "",
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_file_that_is_being_written_does_not_say_that_there_is_nothing(
    tmp_path: Path, name: str
) -> None:
    """Who empties a file before it is filled again takes no site, limit or filter away."""
    for source in SAMPLE.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    must_load(tmp_path)
    (tmp_path / name).write_text(EMPTY[name])

    with pytest.raises(ConfigError, match=f"^{name}: is empty"):
        must_load(tmp_path)


def test_a_policy_is_read_from_where_conf_says_or_beside_it(tmp_path: Path) -> None:
    text = "predicates: [{name: A}, {name: A}]\npriorities: [{name: B, weight: 3}, {name: C}]\n"
    (tmp_path / "p.yaml").write_text(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "p.yaml").write_text("priorities: [{name: D, weight: -1}]")
    problems: list[Problem] = []

    beside = read_policy(tmp_path, Conf(policy_file="/nowhere/p.yaml"), problems)
    there = read_policy(tmp_path, Conf(policy_file=str(tmp_path / "other" / "p.yaml")), problems)

    assert (PolicyEntry("B", 3), PolicyEntry("C", 1)) == beside.priorities
    assert ["D"] == [entry.name for entry in there.priorities]
    told = [str(problem) for problem in problems]
    assert 'predicates[1].name: "A" is listed twice' in told[0]
    assert "priorities[0].weight: must be" in told[1]


def test_all_problems_of_a_directory_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a directory; `bayplan global init .*` writes a"):
        must_load(tmp_path / "none")
    (tmp_path / "conf.yaml").write_text("port: -1\naddress: ''\n")
    with pytest.raises(ConfigError) as problem:
        must_load(tmp_path)

    told = str(problem.value).split("; ")
    assert any("port: must be" in each for each in told)
    assert any("edgecloud_policy.yaml: cannot be read" in each for each in told)


def test_a_directory_is_newer_when_a_file_of_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "folder").mkdir()
    before = newest_change(tmp_path)
    (tmp_path / "folder" / "b").write_text("2")
    same = newest_change(tmp_path)
    os.utime(tmp_path / "a", ns=(1, 1))
    touched = newest_change(tmp_path)
    (tmp_path / "a").write_text("22")

    assert before == same != touched != newest_change(tmp_path)
    with pytest.raises(ConfigError, match="is not a directory"):
        newest_change(tmp_path / "none")
