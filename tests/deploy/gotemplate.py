"""Renders the subset of Go templates that our Helm chart uses, where no `helm` is at hand.

Actions: `.Values.a.b`, `.Release.X`, `.Chart.X`, literals, pipelines with toYaml, nindent, default,
quote, sha256sum, eq, include; blocks define, if, else, end; trimming. Anything else raises.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
WORD = re.compile(r'"[^"]*"|[^\s]+')


class Chart:
    """A chart with values; `render()` gives every manifest as text."""

    def __init__(self, folder: Path, values: dict, release: str = "bay", namespace: str = "ns"):
        defaults = yaml.safe_load((folder / "values.yaml").read_text())
        chart = yaml.safe_load((folder / "Chart.yaml").read_text())
        self.scope = {
            "Values": merge(defaults, values),
            "Release": {"Name": release, "Namespace": namespace},
            "Chart": {"AppVersion": chart["appVersion"], "Name": chart["name"]},
        }
        self.folder = folder
        self.defined: dict[str, list] = {}

    def render(self) -> dict[str, str]:
        templates = self.folder / "templates"
        for helper in templates.glob("*.tpl"):
            self.run(tokens(helper.read_text()))
        names = sorted(templates.glob("*.yaml"))
        return {name.name: self.run(tokens(name.read_text())) for name in names}

    def run(self, parts: list) -> str:
        out, index = [], 0
        while index < len(parts):
            kind, text = parts[index]
            if kind == "text":
                out.append(text)
            elif text.startswith(("if ", "define ")):
                body, other, index = block(parts, index + 1)
                if text.startswith("define "):
                    self.defined[text.split('"')[1]] = body
                elif self.value(text[3:]):
                    out.append(self.run(body))
                else:
                    out.append(self.run(other))
            else:
                out.append(shown(self.value(text)))
            index += 1
        return "".join(out)

    def value(self, expression: str) -> object:
        result: object = None
        for number, stage in enumerate(expression.split(" | ")):
            words = WORD.findall(stage)
            arguments = [self.atom(word) for word in words[1:]]
            if number:
                arguments.append(result)
            result = self.call(words[0], arguments)
        return result

    def call(self, name: str, arguments: list) -> object:
        if name == "include":
            return self.run(self.defined[arguments[0]])
        functions = {
            "toYaml": lambda item: yaml.safe_dump(item).rstrip("\n"),
            "nindent": lambda width, text: "\n" + indent(text, width),
            "default": lambda fallback, given: given or fallback,
            "quote": lambda item: f'"{item}"',
            "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
            "eq": lambda a, b: a == b,
        }
        if name in functions:
            return functions[name](*arguments)
        if arguments:
            raise ValueError(f"unknown template function {name}")
        return self.atom(name)

    def atom(self, word: str) -> object:
        if word.startswith('"'):
            return word[1:-1]
        if word.isdigit():
            return int(word)
        if word == ".":
            return self.scope
        if not word.startswith("."):
            raise ValueError(f"unknown template word {word}")
        item: object = self.scope
        for part in word[1:].split("."):
            item = item[part]  # type: ignore[index]
        return item


def tokens(source: str) -> list[tuple[str, str]]:
    found, at, trim = [], 0, False
    for match in ACTION.finditer(source):
        text = source[at : match.start()]
        text = text.lstrip() if trim else text
        found.append(("text", text.rstrip() if match[1] else text))
        found.append(("action", match[2]))
        at, trim = match.end(), bool(match[3])
    rest = source[at:]
    return [*found, ("text", rest.lstrip() if trim else rest)]


def block(parts: list, index: int) -> tuple[list, list, int]:
    """Return the parts up to `else`, those up to `end`, and where `end` stands."""
    bodies: list[list] = [[], []]
    depth, which = 0, 0
    while True:
        kind, text = parts[index]
        if kind == "action":
            if text.startswith(("if ", "define ")):
                depth += 1
            elif text == "end":
                if depth == 0:
                    return bodies[0], bodies[1], index
                depth -= 1
            elif text == "else" and depth == 0:
                which, index = 1, index + 1
                continue
        bodies[which].append((kind, text))
        index += 1


def merge(base: dict, changes: dict) -> dict:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and value else value
    return merged


def indent(text: str, width: int) -> str:
    return "\n".join(" " * width + line if line else line for line in text.split("\n"))


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
