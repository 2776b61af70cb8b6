"""The image: every step of deploy/Dockerfile is done, without an engine, and its result runs.

The steps run on this machine with /opt and /src below a temporary folder, and the `python` of the
tests stands for the base image's. What was built then belongs to nobody who may write, and runs
as the image's user where these tests may change users.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bayplan.cli.nodes import add_nodes, default_nodes
from bayplan.client import connect, load_kubeconfig
from bayplan.client.resources import PODS
from bayplan.testing.servers import start_embedded

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]


def instructions() -> list[list[tuple[str, str]]]:
    """The stages of the Dockerfile, each a list of instruction and words."""
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, rest.strip()))
    return stages


@pytest.fixture(scope="module")
def image():
    """Do the steps; return the folder of the last stage, its environment, user and command."""
    base = Path(tempfile.mkdtemp(prefix="bayplan-image-"))
    base.chmod(0o755)  # pytest's own folders are private; the image's user must get in
    build, last = instructions()
    python = interpreter(base)
    built = Stage(base / "build", python)
    for word, rest in build:
        built.step(word, rest)
    final = Stage(base / "last", python, built)
    for word, rest in last:
        final.step(word, rest)
    subprocess.run(["chmod", "-R", "a+rX,a-w", final.root], check=True)
    yield final
    subprocess.run(["chmod", "-R", "u+w", base], check=True)
    shutil.rmtree(base)


def interpreter(base: Path) -> Path:
    """The folder of a `python` that every user may run: ours, or a copy where it is private."""
    prefix = Path(sys.base_prefix)
    if prefix == Path("/usr") or all(place.stat().st_mode & 0o001 for place in prefix.parents):
        return prefix / "bin"
    ignore = shutil.ignore_patterns("site-packages", "test", "idlelib", "__pycache__", "*.a")
    shutil.copytree(prefix, base / "python", symlinks=True, ignore=ignore)
    return base / "python" / "bin"


class Stage:
    """One stage under way; an instruction that is not known fails."""

    def __init__(self, root: Path, python: Path, before: "Stage | None" = None) -> None:
        self.root, self.before = root, before
        self.work = root
        self.environment = {
            "PATH": f"{python}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": f"{python.parent}/lib",  # a copy must not load another's library
        }
        self.user, self.command = "", []
        root.mkdir()

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.work / path

    def step(self, word: str, rest: str) -> None:
        getattr(self, f"do_{word.lower()}")(rest)

    def do_from(self, rest: str) -> None:
        assert re.fullmatch(r"python:3\.\d+-slim( AS build)?", rest)

    def do_label(self, rest: str) -> None:
        assert "org.opencontainers.image.title" in rest

    def do_expose(self, rest: str) -> None:
        assert rest == "10259"

    def do_workdir(self, rest: str) -> None:
        self.work = self.place(rest)
        self.work.mkdir(parents=True)

    def do_copy(self, rest: str) -> None:
        *sources, target = rest.split()
        origin = ROOT
        if sources[0] == "--from=build":
            assert self.before is not None
            origin, sources = self.before.root, [sources[1].lstrip("/")]
        for source in sources:
            found, into = origin / source, self.place(target)
            if found.is_dir():
                ignore = shutil.ignore_patterns("__pycache__") if origin == ROOT else None
                shutil.copytree(found, into, symlinks=True, ignore=ignore)
                _move(into, origin, self.root)
            else:
                shutil.copy(found, into)

    def do_run(self, rest: str) -> None:
        command = rest.replace("/opt/bayplan", str(self.root / "opt" / "bayplan"))
        environment = os.environ | self.environment
        environment.pop("PYTHONPATH", None)
        subprocess.run(["sh", "-ec", command], cwd=self.work, env=environment, check=True)

    def do_env(self, rest: str) -> None:
        for pair in shlex.split(rest.replace("$PATH", self.environment["PATH"])):
            name, _, value = pair.partition("=")
            self.environment[name] = value.replace("/opt/bayplan", f"{self.root}/opt/bayplan")

    def do_user(self, rest: str) -> None:
        self.user = rest

    def do_entrypoint(self, rest: str) -> None:
        self.command = [word.strip('"') for word in rest.strip("[]").split(", ")]

    def do_cmd(self, rest: str) -> None:
        self.command += [word.strip('"') for word in rest.strip("[]").split(", ")]

    def start(self, *arguments: str) -> subprocess.Popen:
        identity = {}
        if os.geteuid() == 0:
            user, group = map(int, self.user.split(":"))
            identity = {"user": user, "group": group, "extra_groups": []}
        return subprocess.Popen(
            [*self.command, *arguments],
            env=self.environment,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **identity,
        )


def _move(folder: Path, origin: Path, root: Path) -> None:
    """Scripts name the interpreter by its place, which in an image does not change."""
    for script in (folder / "bin").glob("*") if (folder / "bin").is_dir() else ():
        if script.is_file() and not script.is_symlink():
            script.write_bytes(script.read_bytes().replace(bytes(origin), bytes(root)))


def test_the_image_runs_the_scheduler_without_root_and_without_writing(image):
    assert image.user == "65532:65532"
    assert image.command == ["bayplan", "scheduler"]
    before = set(image.root.rglob("*"))

    process = image.start("--help")
    told, _ = process.communicate(timeout=60)

    assert (0, True) == (process.returncode, "--leader-elect" in told), told
    assert before == set(image.root.rglob("*"))
    installed = image.root / "opt/bayplan/bin"
    assert (installed / "kubectl-why").exists()


async def test_a_pod_is_bound_by_what_is_in_the_image(image):
    with start_embedded() as cluster:
        cluster.folder.chmod(0o755)
        cluster.kubeconfig.chmod(0o644)
        client = connect(load_kubeconfig(cluster.kubeconfig))
        await add_nodes(client, default_nodes(1))
        container = {"name": "app", "image": "registry.example/app"}
        pod = {"metadata": {"name": "one"}, "spec": {"containers": [container]}}
        await client.create(PODS, pod, namespace="default")
        flags = ["--leader-elect=false", "--secure-port=0"]
        process = image.start(f"--kubeconfig={cluster.kubeconfig}", *flags)
        bound = False
        async for lines in client.watch(PODS, namespace="default", timeout_seconds=60):
            bound = any(b'"nodeName"' in line for line in lines)
            if bound or process.poll() is not None:
                break
        process.terminate()
        told, _ = process.communicate(timeout=60)
        await client.close()

    assert bound, told
