import subprocess
import sys

import pytest
from click.testing import CliRunner

from bayplan.api.yaml import load_all
from bayplan.cli.extender import command
from bayplan.errors import ConfigError
from bayplan.extender.scaffold import write
from bayplan.extender.serve import load
from bayplan.listening import parse_address


def test_the_new_extender_passes_its_own_tests(tmp_path):
    result = CliRunner().invoke(command, ["new", str(tmp_path / "mine")])

    assert 0 == result.exit_code, result.output
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "mine",
        capture_output=True,
        text=True,
    )
    assert 0 == tests.returncode, tests.stdout + tests.stderr
    assert "2 passed" in tests.stdout


def test_the_new_configuration_files_are_valid(tmp_path):
    write(tmp_path)

    [config] = load_all((tmp_path / "scheduler-extender.yaml").read_text())
    [pod] = load_all((tmp_path / "kube-scheduler.yaml").read_text())

    assert "KubeSchedulerConfiguration" == config["kind"]
    mounts = {mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["spec"]["volumes"]}


def test_nothing_is_overwritten(tmp_path):
    write(tmp_path)

    with pytest.raises(ConfigError, match=r"extender\.py"):
        write(tmp_path)


def test_a_target_is_loaded_by_file_or_refused_with_the_reason(tmp_path):
    write(tmp_path)

    assert "data-locality" == load(f"{tmp_path}/extender.py:app").name
    with pytest.raises(ConfigError, match='has no "nothing"'):
        load(f"{tmp_path}/extender.py:nothing")
    with pytest.raises(ConfigError, match="no_such_module"):
        load("no_such_module:app")


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:80", ("::1", 80)), (":80", ("127.0.0.1", 80))],
)
def test_addresses(text, address):
    assert address == parse_address(text)


def test_a_bad_address_says_what_is_expected():
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address("8080")
    with pytest.raises(ConfigError, match="the port is not from 0 to 65535"):
        parse_address("127.0.0.1:99999")


def test_the_directory_is_made_with_its_parents_and_may_be_there_already(tmp_path):
    first = write(tmp_path / "one" / "two")
    (tmp_path / "there").mkdir()
    second = write(tmp_path / "there")

    assert [p.name for p in first] == [p.name for p in second]
    assert all(path.is_file() for path in (*first, *second))


@pytest.mark.parametrize("named", ["module", "file"])
def test_what_is_here_comes_before_what_is_elsewhere(tmp_path, monkeypatch, named):
    module = f"an_extender_by_{named}"
    for place in ("here", "elsewhere"):
        text = f'from bayplan.extender import Extender\n\nother = Extender(name="{place}")\n'
        (tmp_path / place).mkdir()
        (tmp_path / place / f"{module}.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *sys.path])
    monkeypatch.chdir(tmp_path / "here" if named == "module" else tmp_path)

    found = load(f"{module}:other" if named == "module" else f"here/{module}.py:other")

    assert "here" == found.name


@pytest.mark.parametrize(("target", "name"), [("no_such_one", "app"), ("no_such_one:x", "x")])
def test_where_a_module_is_not_the_way_to_name_it_is_told(target, name, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ConfigError) as told:
        load(target)

    assert str(told.value).endswith(f"name the file: DIRECTORY/no_such_one.py:{name}")
