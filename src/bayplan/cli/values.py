"""Types of option values: what can be told from the words alone is told before anything runs.

A value stays the text that it is; its type only refuses what is none, with exit code 2, the
option's name and how it is written. An empty text passes where it is an option's default. What only
a cluster, a server or the inside of a file can tell is told by the command itself, with exit 1.

Checks import what they need when they run: a type costs nothing at start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from bayplan.errors import BayplanError, ConfigError

if TYPE_CHECKING:
    ParamType = click.ParamType[str]
else:
    ParamType = click.ParamType  # generic since click 8.5 only

NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""How Kubernetes writes names."""

Check = Callable[[str], object]
"""Raises BayplanError, or ValueError, for a text that is no such value."""
Words = Callable[[], Iterable[str]]


class Checked(ParamType):
    """A text that a function has looked at; `words` are proposed to who completes it."""

    def __init__(
        self,
        metavar: str,
        check: Check,
        *,
        words: Words = tuple,
        files: bool = False,
        empty: bool = True,
    ) -> None:
        self.name = metavar
        self._check, self._words, self._files, self._empty = check, words, files, empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value or not self._empty:
            try:
                self._check(value)
            except (BayplanError, ValueError) as problem:
                self.fail(str(problem), param, ctx)
        return value

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        return self.name if isinstance(param, click.Option) else None  # an argument has a name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        done, comma, start = incomplete.rpartition(",")
        words = [
            CompletionItem(f"{done}{comma}{word}")
            for word in self._words()
            if word.startswith(start)
        ]
        return [*words, CompletionItem(incomplete, type="file")] if self._files else words


class ReadFile(click.Path):
    """A file (or `folder`) that is to be read and must be there."""

    def __init__(self, *, folder: bool = False, dash: bool = False, path: bool = False) -> None:
        kind: type[Path] | None = Path if path else None
        super().__init__(exists=True, dir_okay=folder, allow_dash=dash, path_type=kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":  # an option that is not given
            return value
        if str(value) == "-" and not self.allow_dash:
            self.fail("- is no file here; /dev/stdin is what is piped in", param, ctx)
        if str(value) != "-" and not os.path.exists(value):
            where = "" if os.path.isabs(value) else f"; it is looked for in {os.getcwd()}"
            self.fail(f'"{value}" does not exist{where}', param, ctx)
        return super().convert(value, param, ctx)


class WrittenFile(click.Path):
    """A file that is to be written: refused before the work whose result it is to hold."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if os.path.isdir(value):
            self.fail(f'"{value}" is a directory; name a file in it', param, ctx)
        above = next(place for place in Path(value).absolute().parents if place.exists())
        if not above.is_dir():
            self.fail(f'"{value}": "{above}" is no directory; name another place', param, ctx)
        return super().convert(value, param, ctx)


def token_in(file: str | Path | None) -> str:
    """The bearer token that a file holds; none would mean that anybody may ask."""
    if not file:
        return ""
    try:
        lines = Path(file).read_text(encoding="utf-8").split()
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1:
        raise ConfigError(f'reading --token-file "{file}": it must hold a token and nothing else')
    return lines[0]


class Gates(ParamType):
    """Feature gates of the version that `--emulated-version` (read first) tells, or of any."""

    name = "KEY=BOOL,..."

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        return self.name if isinstance(param, click.Option) else None  # an argument has a name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from bayplan.config import VERSIONS, parse_gates, parse_version

        given = (ctx.params if ctx is not None else {}).get("emulated_version")
        versions = [parse_version(given)] if given else list(VERSIONS)
        problems = []
        for version in versions:
            try:
                parse_gates(value or "", version)
                return value
            except BayplanError as problem:
                problems.append(str(problem))
        self.fail(f"{problems[-1]}; write NAME=true,OTHER=false", param, ctx)


def _address(text: str) -> None:
    from bayplan.listening import parse_address

    parse_address(text)


def _page_address(text: str) -> None:
    from bayplan.listening import page_address

    page_address(text)


def _version(text: str) -> None:
    from bayplan.config import parse_version

    parse_version(text)


def _versions() -> Iterable[str]:
    from bayplan.config import VERSIONS

    return VERSIONS


def _quantity(text: str) -> None:
    from bayplan.api.quantity import QuantityError, parse

    try:
        good = parse(text).nanos >= 0
    except QuantityError:
        good = False
    if not good:
        raise ValueError(f'"{text}" is no quantity; use for example 4, 500m or 16Gi')


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f'"{text}" must look like key=value')
    return key, value


def _duration(text: str) -> None:
    from bayplan.sim.objects import seconds

    seconds(text)


def _url(text: str, schemes: tuple[str, ...] = ("http", "https")) -> None:
    found = urlsplit(text)
    if found.scheme not in schemes or not found.hostname:
        raise ValueError(f'"{text}" is no URL; write for example {schemes[0]}://127.0.0.1:8888')
    _ = found.port  # raises ValueError


def _urls(text: str) -> None:
    for part in text.split(","):
        _url(part)


def _dask(text: str) -> None:
    """As Dask takes it: with the protocol or without."""
    _url(text if "://" in text else f"tcp://{text}", ("tcp", "tls", "ucx", "ws", "wss", "inproc"))


def _selector(text: str) -> None:
    from bayplan.api.labels import SelectorError, parse_selector

    try:
        parse_selector(text)
    except SelectorError as error:
        raise ValueError(f'"{text}" is no label selector: {error}') from error


def _plugin(text: str) -> None:
    """A module that can be found, or a file; neither is run yet."""
    if text.endswith(".py"):
        if not Path(text).is_file():
            raise ValueError(
                f'plugin file "{text}" does not exist; it is looked for in {os.getcwd()}'
            )
        return
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    top = text.partition(".")[0]
    if all(part.isidentifier() for part in text.split(".")) and (
        PathFinder.find_spec(top, [os.getcwd()]) or find_spec(top)
    ):
        return
    raise ValueError(f'"{text}" is no module that can be found and no file FILE.py')


def _plugins(text: str) -> None:
    for part in text.split(","):
        _plugin(part)


def _controllers(text: str) -> None:
    if text != "*":  # all of them: nothing to look up
        from bayplan.controllers.manager import select

        select(text)


def _controller_names() -> Iterable[str]:
    from bayplan.controllers.manager import CONTROLLERS

    return CONTROLLERS


def _admission(text: str) -> None:
    from bayplan.apiserver.admission.chain import disabled_plugins

    disabled_plugins(listed(text), ())


def _scenario(text: str) -> None:
    from bayplan.sim.library import names, path_of
    from bayplan.words import did_you_mean

    if not Path(text).exists() and path_of(text) is None:
        hint = did_you_mean(text, names(), 0.6)
        raise ValueError(f'"{text}" is no file and no scenario of `bayplan scenario list`{hint}')


def _scenarios() -> Iterable[str]:
    from bayplan.sim.library import names

    return names()


def listed(text: str) -> list[str]:
    """The words of `a,b`; empty ones do not count."""
    return [word for word in text.split(",") if word]


def one_of(metavar: str, words: Words) -> Checked:
    """One of some words that are known when it is asked for."""

    def check(text: str) -> None:
        known = list(words())
        if text not in known:
            from bayplan.words import did_you_mean

            hint = did_you_mean(text, known)
            raise ValueError(f'"{text}" is not known; use one of {", ".join(known)}{hint}')

    return Checked(metavar, check, words=words)


def nodes_or_selector(text: str) -> None:
    """Raise for what can name no node and select none."""
    if not NAME.fullmatch(text):
        try:
            _selector(text)
        except ValueError as problem:
            raise ValueError(f'"{text}" is neither a node nor a label selector') from problem


ADDRESS = Checked("HOST:PORT", _address, empty=False)
ADDRESS_OR_NONE = Checked("HOST:PORT", _address)
PAGE = Checked("HOST:PORT", _page_address, empty=False)
PAGE_OR_NONE = Checked("HOST:PORT", _page_address)
VERSION = Checked("1.36|1.37", _version, words=_versions)
GATES = Gates()
QUANTITY = Checked("QUANTITY", _quantity)
RESOURCE = Checked("NAME=QUANTITY", lambda text: _quantity(_pair(text)[1]))
LABEL = Checked("KEY=VALUE", _pair)
DURATION = Checked("DURATION", _duration)
URL = Checked("URL", _url)
URLS = Checked("URL,...", _urls)
DASK = Checked("ADDRESS", _dask)
SELECTOR = Checked("SELECTOR", _selector)
PLUGIN = Checked("MODULE|FILE.py", _plugin, files=True, empty=False)
PLUGINS = Checked("MODULE|FILE.py", _plugins, files=True, empty=False)
"""Several, as the scheduler's flag takes them."""
CONTROLLERS = Checked("NAME,...", _controllers, words=_controller_names)
ADMISSION = Checked("NAME,...", _admission)
SCENARIO = Checked("FILE|NAME", _scenario, words=_scenarios, files=True)
FILE = ReadFile()
FILE_OR_FOLDER = ReadFile(folder=True)
SECONDS = click.FloatRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)
COUNT = click.IntRange(min=0)

_F = TypeVar("_F", bound=Callable[..., Any])


def emulated_version(text: str) -> Callable[[_F], _F]:
    return click.option("--emulated-version", default="", type=VERSION, is_eager=True, help=text)


def feature_gates(text: str) -> Callable[[_F], _F]:
    return click.option("--feature-gates", default="", type=GATES, help=text)


# Options that `apiserver` and `up` share.
authorization_mode = click.option(
    "--authorization-mode",
    type=click.Choice(("AlwaysAllow", "RBAC")),
    help="Default: RBAC beyond loopback, AlwaysAllow on it.",
)
admission_plugins = click.option(
    "--enable-admission-plugins",
    default="",
    type=ADMISSION,
    help="Switched on besides the default ones.",
)


def etcd_files(function: _F) -> _F:
    """Let a command take the files that TLS to etcd needs."""
    for name, text in (
        ("--etcd-keyfile", "The key of --etcd-certfile."),
        ("--etcd-certfile", "Certificate to show to etcd."),
        ("--etcd-cafile", "Authority that signed etcd's certificate."),
    ):
        function = click.option(name, type=ReadFile(path=True), help=text)(function)
    return function
