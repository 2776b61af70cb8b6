"""Reads and writes YAML as Kubernetes' Go programs do.

kubectl, kube-scheduler and the API server turn YAML into JSON by the rules of Go's yaml v2:
`y n yes no on off` are booleans, dates stay strings, `12:30:45` is a string and `1e3` a number, a
float without fraction is an integer in JSON, keys that are not strings become strings, and a key
given twice is an error. PyYAML's C loader does the parsing; only the resolver is ours. A document
whose aliases would blow up when written out is refused, as Go does.

It does not keep comments or the order of anchors, and it does not know kinds: what comes out is
plain JSON data.
"""

import base64
import binascii
import math
import re
from collections.abc import Hashable, Iterator
from typing import Any, cast

import yaml

from bayplan.api.json import DEEPEST, TOO_DEEP
from bayplan.errors import DecodeError

_TAG = "tag:yaml.org,2002:"
_BOOLS = {
    word: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for base in words
    for word in (base, base.capitalize(), base.upper())
}
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|[1-9][0-9]*|0)$")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")
# Go quotes these on output so that other parsers do not read them as times or base-60 numbers.
_TIME_LIKE = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?$|[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?$")
_UINT64 = 1 << 64
_INT64 = 1 << 63
# As in Go: up to the first number of values, 99 in 100 may come from aliases; from the second on,
# ten in 100. Beyond Go, written out a document may not be larger than this many characters.
_ALIASED_LOW, _ALIASED_HIGH = 400_000, 4_000_000
_MAX_CHARACTERS = 16 << 20
_MAX_MERGED = 100_000  # pairs that merge keys bring in

EXCESSIVE = "yaml: document contains excessive aliasing"
ITSELF = "yaml: an anchor's value contains itself"

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def _number(text: str) -> int | float | None:
    """The number that Go reads in a plain scalar, or None when it is a string."""
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) < 100 and _INT.match(plain):  # no longer one has 64 bits
        body = plain.lstrip("+-").lower()
        octal = len(body) > 1 and body[0] == "0"
        base = {"0x": 16, "0o": 8, "0b": 2}.get(body[:2], 8 if octal else 10)
        magnitude = int(body[2:] if body[:2] in ("0x", "0o", "0b") else body, base)
        value = -magnitude if plain[0] == "-" else magnitude
        if -_INT64 <= value < _INT64 or (0 <= value < _UINT64 and plain[0] != "+"):
            return value
    if _FLOAT.match(plain):
        number = float(plain)
        if math.isinf(number):
            return None
        # JSON has one kind of number, and Go writes 8.0 as 8.
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    return None


class _NumberPattern:
    """Stands where PyYAML expects a regular expression: numbers need more than one."""

    def match(self, text: str) -> bool:
        return bool(_SPECIAL.match(text)) or _number(text) is not None


class _Loader(yaml.CSafeLoader):
    """PyYAML's C loader with Go's resolver, and with a bound on what merge keys bring in."""

    merged = 0

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self.open: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace merge keys by what they stand for; own keys win, then earlier merges."""
        if not any(key.tag == _TAG + "merge" for key, _ in node.value):
            return
        own = [pair for pair in node.value if pair[0].tag != _TAG + "merge"]
        sources = [value for key, value in node.value if key.tag == _TAG + "merge"]
        if id(node) in self.open:
            raise DecodeError(ITSELF)
        self.open.add(id(node))
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        for source in sources:
            several = source.value if isinstance(source, yaml.SequenceNode) else [source]
            for each in reversed(several):
                if not isinstance(each, yaml.MappingNode):
                    raise _bad(each, "map merge requires map or sequence of maps as the value")
                self.flatten_mapping(each)
                self.merged += len(each.value)
                if self.merged > _MAX_MERGED:
                    raise DecodeError(EXCESSIVE)
                pairs += each.value
        self.open.discard(id(node))
        node.value = [*pairs, *own]


class _Dumper(yaml.CSafeDumper):
    """PyYAML's C dumper with Go's layout and quoting."""


def _construct_bool(loader: yaml.Loader, node: yaml.ScalarNode) -> bool:
    try:
        return _BOOLS[node.value]
    except KeyError:
        raise _bad(node, f"cannot decode !!str `{node.value}` as a !!bool") from None


def _construct_number(loader: yaml.Loader, node: yaml.ScalarNode) -> int | float:
    text = node.value
    if _SPECIAL.match(text):
        raise _bad(node, f"json: unsupported value: {text.lstrip('.')}")
    value = _number(text) if text else None
    if value is None:
        raise _bad(node, f"cannot decode !!str `{text}` as a number")
    return value


def _construct_binary(loader: yaml.Loader, node: yaml.ScalarNode) -> str:
    try:
        return base64.b64decode(node.value).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _bad(node, "!!binary value contains invalid base64 data") from None


def _construct_map(loader: Any, node: yaml.MappingNode) -> Iterator[dict[str, Any]]:
    data: dict[str, Any] = {}
    yield data
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        if key_node.tag == _TAG + "merge":
            continue
        key = _key(loader, key_node)
        if key in seen:
            raise _bad(key_node, f'key "{key}" already set in map')
        seen.add(key)
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        data[_key(loader, key_node)] = loader.construct_object(value_node, deep=False)


def _key(loader: Any, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _bad(node, "invalid map key: it must be a scalar")
    value = loader.construct_object(node)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    raise _bad(node, f"unsupported map key {node.value!r}")


def _construct_other(loader: Any, suffix: str, node: yaml.Node) -> Any:
    """A tag Go does not know changes nothing."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return cast("yaml.ScalarNode", node).value


def _bad(node: yaml.Node, text: str) -> DecodeError:
    return DecodeError(f"yaml: line {node.start_mark.line + 1}: {text}")


def _set_up() -> None:
    resolvers: dict[str | None, list[tuple[str, re.Pattern[str] | _NumberPattern]]] = {}

    def add(tag: str, pattern: re.Pattern[str] | _NumberPattern, first: str) -> None:
        for char in first:
            resolvers.setdefault(char, []).append((_TAG + tag, pattern))

    add("bool", re.compile("(" + "|".join(_BOOLS) + ")$"), "yYnNtTfFoO")
    add("null", re.compile(r"(~|null|Null|NULL)$"), "~nN")
    resolvers.setdefault("", []).append((_TAG + "null", re.compile("$")))
    add("int", _NumberPattern(), "-+.0123456789")
    add("merge", re.compile("<<$"), "<")
    for cls in (_Loader, _Dumper):
        cls.yaml_implicit_resolvers = dict(resolvers)
    _Loader.add_constructor(_TAG + "bool", _construct_bool)
    _Loader.add_constructor(_TAG + "int", _construct_number)
    _Loader.add_constructor(_TAG + "float", _construct_number)
    _Loader.add_constructor(_TAG + "binary", _construct_binary)
    _Loader.add_constructor(_TAG + "map", _construct_map)
    _Loader.add_constructor(_TAG + "timestamp", lambda _, node: node.value)
    _Loader.add_multi_constructor("", _construct_other)
    _Dumper.add_representer(str, _represent_str)
    # One tag for all numbers, as the resolver has; otherwise the dumper would write `!!float`.
    _Dumper.add_representer(float, lambda d, n: d.represent_scalar(_TAG + "int", repr(n)))


def _represent_str(dumper: Any, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif _resolves(text) or _TIME_LIKE.match(text):
        style = '"'
    return cast("yaml.ScalarNode", dumper.represent_scalar(_TAG + "str", text, style=style))


def _resolves(text: str) -> bool:
    """Whether Go would read the plain text as something else than a string."""
    if text in _BOOLS or text in ("", "~", "null", "Null", "NULL", "<<"):
        return True
    return text[0] in "-+.0123456789" and _NumberPattern().match(text)


def load(data: str | bytes) -> Json:
    """Return the JSON data of one document (`None` for an empty one).

    Raises DecodeError naming the line; so does a second document.
    """
    documents = load_all(data)
    if len(documents) > 1:
        raise DecodeError("yaml: expected a single document in the stream, but found another one")
    return documents[0] if documents else None


def load_all(data: str | bytes) -> list[Json]:
    """Return the JSON data of every document that is not empty."""
    _check_nesting(data)
    loader = _Loader(data)
    documents: list[Json] = []
    try:
        while loader.check_data():  # type: ignore[no-untyped-call]
            document = loader.get_data()
            if document is not None:
                documents.append(document)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise DecodeError(f"yaml: {line}{problem.problem or problem.context}") from problem
    except yaml.YAMLError as problem:
        raise DecodeError(f"yaml: {' '.join(str(problem).split())}") from problem
    except RecursionError:
        raise DecodeError("yaml: the document is nested too deeply") from None
    finally:
        loader.dispose()
    if (b"*" if isinstance(data, bytes) else "*") in data:  # type: ignore[operator]
        for document in documents:
            _check_aliases(document)
    return documents


# A line that begins so far to the right that it may be nested deeply; each level takes a column,
# or stands in the column of the one around it.
_FAR = re.compile(rf"(?:^|[\n\r\x85\u2028\u2029])[ ?:-]{{{DEEPEST // 2}}}")
_BRACKETS = re.compile(r"[][{}]")


def _check_nesting(data: str | bytes) -> None:
    """Refuse what is nested so deeply that the C loader, which recurses, would end the process."""
    text = data if isinstance(data, str) else data.decode(_encoding(data), "replace")
    if not _FAR.search(text) and _bracket_depth(text) <= DEEPEST:
        return  # true of nearly all; brackets inside of strings may only make it look deeper
    depth = 0
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    raise DecodeError(f"yaml: {TOO_DEEP}")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        return  # told by whoever reads it whole


def _encoding(data: bytes) -> str:
    return "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"


def _bracket_depth(text: str) -> int:
    if text.count("{") + text.count("[") <= DEEPEST:
        return 0
    depth = deepest = 0
    for found in _BRACKETS.findall(text):
        if found in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return deepest


def _check_aliases(document: Json) -> None:
    """Refuse what grows without bound when written out: an anchor in itself, or a bomb."""
    sizes: dict[int, tuple[int, int]] = {}  # values, characters
    open_: set[int] = set()
    leaves = 0

    def size(value: Any) -> tuple[int, int]:
        nonlocal leaves
        if not isinstance(value, (dict, list)):
            leaves += 1
            return 1, len(value) if isinstance(value, str) else 1
        known = sizes.get(id(value))
        if known is not None:
            return known
        if id(value) in open_:
            raise DecodeError(ITSELF)
        open_.add(id(value))
        count, characters = 1, 2
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            inner = size(item)
            count += inner[0]
            characters += inner[1] + (len(key) if isinstance(key, str) else 0)
        total = (count, characters)
        open_.discard(id(value))
        sizes[id(value)] = total
        return total

    try:
        count, characters = size(document)
        aliased = count - len(sizes) - leaves
        if characters > _MAX_CHARACTERS or aliased / count > _allowed_share(count):
            raise DecodeError(EXCESSIVE)
    except RecursionError:
        raise DecodeError("yaml: the document is nested too deeply") from None


def _allowed_share(count: int) -> float:
    """Return how much of a document of that many values may come from aliases."""
    if count <= _ALIASED_LOW:
        return 0.99 if count > 1000 else 1.0
    if count >= _ALIASED_HIGH:
        return 0.10
    return 0.99 - 0.89 * (count - _ALIASED_LOW) / (_ALIASED_HIGH - _ALIASED_LOW)


def dump(data: Any) -> str:
    """Write one document with sorted keys, quoted and folded as Go would, ending in a newline."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        default_flow_style=False,
        allow_unicode=True,
        width=80,
        sort_keys=True,
    )
    return text


def dump_all(documents: list[Any]) -> str:
    """Write several documents, separated by `---` lines."""
    return "---\n".join(map(dump, documents))


_set_up()
