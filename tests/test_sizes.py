"""What CONTRIBUTING.md says of sizes is true."""

import ast
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "src" / "bayplan").rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_no_module_has_more_than_700_lines():
    assert [] == [str(path) for path in SOURCES if len(path.read_text("utf-8").splitlines()) > 700]


def test_no_function_takes_100_lines_and_few_take_more_than_40():
    lengths = {
        f"{path.name}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, FUNCTIONS)
    }

    assert {} == {name: length for name, length in lengths.items() if length >= 100}
    assert 0.005 * len(lengths) > sum(length > 40 for length in lengths.values())
