"""One name, one thing: two types that a reader meets together are called differently, and docstrings say the noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from tests.test_tidy import LAYERS, ROOT, is_public, python_files, tree

ALIKE_ON_PURPOSE = {
    "Client": "the same without an event loop",
    "Conversation": "the same without an event loop",
    "JettisonConversation": "each is of another framework",
    "JettisonMiddleware": "each is of another framework",
    "Digest": "a section of the policy is called as its key",
}


HIDDEN = re.compile(r'"""(?:Return|Yield) (?:(?:what|who|which) (?![*`])|(?:how )?it )[^\n]*')
"""«Return what one may do» for «Return the rights»; what an argument itself returns has no other name."""
NO_NONE = re.compile(r"[;,] none (?:if|where|unless|for)\b")
STEM_LETTERS = 4
"""Of a word of a module's title, and of its file's or folder's name, that are the same."""


class Named(NamedTuple):
    """A public type, and what it is."""

    module: str
    made: str


@cache
def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def types_in(file: Path) -> Iterator[tuple[str, Named]]:
    """Yield the names of classes and of aliases, which begin with a capital."""
    for node in tree(file).body:
        match node:
            case ast.ClassDef(name=name):
                yield name, Named(module_of(file), f"class of {file}")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name[0].isupper() and not name.isupper():
                if not ast.unparse(value).startswith("TypeVar("):
                    yield name, Named(module_of(file), ast.unparse(value))


def imported(file: Path) -> set[str]:
    """Return the modules that *file* imports, or names from, and itself."""
    found, folders = {module_of(file)}, module_of(file).split(".")
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom):
            below = [*folders[: -node.level], *filter(None, [node.module])] if node.level else [node.module or ""]
            found |= {".".join(below), *(".".join([*below, one.name]) for one in node.names)}
    return found


def test_no_two_types_that_are_met_together_have_one_name() -> None:
    """They are where they are in one folder, or where one file imports from the modules of both."""
    files, types = python_files(*LAYERS), dict[str, list[Named]]()
    for file in files:
        for name, one in types_in(file):
            if is_public(name) and name not in ALIKE_ON_PURPOSE:
                types.setdefault(name, []).append(one)
    met = {module_of(file): imported(file) for file in files}
    found = {
        f"{name}: {one.module} and {other.module}"
        for name, named in types.items()
        for one, other in combinations(named, 2)
        if one.made != other.made
        and (
            one.module.rpartition(".")[0] == other.module.rpartition(".")[0]
            or any({one.module, other.module} <= modules for modules in met.values())
        )
    }
    assert found == set()


def test_docstrings_say_the_noun_of_what_comes_back() -> None:
    found = [f"{module_of(file)}: {one}" for file in python_files(*LAYERS) for one in HIDDEN.findall(file.read_text())]
    assert found == []


def test_docstrings_say_none_with_a_capital_where_the_function_returns_it() -> None:
    functions = [
        (f"{module_of(file)}.{node.name}", ast.unparse(node.returns), ast.get_docstring(node) or "")
        for file in python_files(*LAYERS)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns
    ]
    found = {name for name, type_, text in functions if re.search(r"\| None\b", type_) and NO_NONE.search(text)}
    assert found == set()


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def test_a_module_is_titled_as_its_file_or_its_folder_is_named() -> None:
    """The title is what stands before a colon in the first line; a sentence without one has none."""
    for file in python_files(*LAYERS):
        title, titled, _ = (ast.get_docstring(tree(file)) or "").partition("\n")[0].partition(":")
        if titled and file.stem != "__init__":
            stems = tuple(word[:STEM_LETTERS] for word in words(f"{file.parent.name} {file.stem.replace('_', ' ')}"))
            named = any(word.startswith(stems) for word in words(title))
            assert named, f"{file}: {title}"
