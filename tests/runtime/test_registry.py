"""The registry of actors: complete, and the only place that knows one actor from another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from actors.core.flow import FLOW
from actors.runtime.registry import ACTOR_SPECS, asks_model, given_up, spec_of
from protocol.facts import ContextServed
from protocol.subjects import ACTORS, Actor
from tests.builders import Talk, policy
from tests.test_tidy import ROOT, at, python_files, tree

OF_THE_ACTORS = tuple(f"actors/{actor}/" for actor in ACTORS)
"""An actor's own files may say its name."""

BESIDE = ("tests/builders.py", "tests/conftest.py", "tests/score_adapter.py")

NAMED_IN = {("protocol/subjects.py", "FIRST_ACTOR"), ("actors/core/entry.py", "CATEGORIES")}
"""Whom a message wakes; and kinds of tokens, of which one is called as an actor is."""


def test_each_actor_is_registered_and_has_a_row_that_leads_to_it() -> None:
    assert tuple(ACTOR_SPECS) == ACTORS
    assert {row.then for row in FLOW} >= set(ACTORS)
    assert sum(act.serves for act in ACTOR_SPECS.values()) == 1, "one pool serves contexts and sweeps"


def test_what_no_actor_decided_has_no_act() -> None:
    served = ContextServed(upto=1, budget=1, profile="", view_hash="", tokens=1, level="none")
    assert spec_of(()) is None
    assert spec_of((served,)) is None
    assert not asks_model(None)


@pytest.mark.parametrize("actor", ACTORS)
def test_where_there_is_nothing_to_pass_by_the_fault_is_raised(actor: Actor) -> None:
    with pytest.raises(ZeroDivisionError):
        given_up(actor, Talk(policy(1000)).state, ZeroDivisionError())


def test_nobody_asks_an_actor_for_its_name() -> None:
    asked = [
        at(file, node.lineno)
        for file in _asking()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare | ast.MatchValue) and not _is_of_a_policy(node)
        for asked in ast.walk(node)
        if isinstance(asked, ast.Constant) and asked.value in ACTORS
    ]
    assert asked == []


def test_no_constant_is_another_name_of_an_actor() -> None:
    found = [
        (str(file.relative_to(ROOT)), ast.unparse(target))
        for file in _asking_product()
        for node in tree(file).body
        for target, value in _assigned(node)
        if any(isinstance(one, ast.Constant) and one.value in ACTORS for one in _listed(value))
    ]
    assert set(found) == NAMED_IN


def _asking() -> list[Path]:
    """Return the files that must not ask for a name: all but the actors' own, and what tests are built with."""
    return _asking_product() + [file for file in python_files("tests") if _named(file, BESIDE)]


def _asking_product() -> list[Path]:
    return [file for file in python_files("actors", "storage", "protocol") if not _named(file, OF_THE_ACTORS)]


def _named(file: Path, names: tuple[str, ...]) -> bool:
    return str(file.relative_to(ROOT)).startswith(names)


def _assigned(node: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    return [(node.target, node.value)] if isinstance(node, ast.AnnAssign) and node.value else []


def _listed(value: ast.expr) -> list[ast.expr]:
    """Return *value*, or what stands in it where it is a tuple, a list or a set; a registry's keys are no constant."""
    if isinstance(value, ast.Call) and value.args:
        return _listed(value.args[0])
    return list(value.elts) if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]


def _is_of_a_policy(node: ast.AST) -> bool:
    """Tell whether a section of a policy or one of its modes is meant: some have an actor's name."""
    text = ast.unparse(node)
    return "mode" in text or text.endswith((" in layer", " in document"))
