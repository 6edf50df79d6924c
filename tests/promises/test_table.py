"""The table of promises names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"\| (\d+[bc]?) \| (.+?) \| (.+?) \|")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
PROVEN = [*map(str, range(1, 32)), "1b", "2b", "4b", "7b", "7c", "13b", "23b", "23c", "24b", "35", "37", "38"]


def test_every_promise_names_tests_that_exist() -> None:
    table = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    proofs = {number: NAMED.findall(tests) for number, _, tests in ROW.findall(table)}
    assert sorted(proofs) == sorted(PROVEN)
    missing = [
        f"{number}: {file}::{test}"
        for number, named in proofs.items()
        for file, test in named or [("?", "?")]
        if test not in _tests(TESTS / file)
    ]
    assert missing == []


def _tests(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
