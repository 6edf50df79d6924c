"""The registry of actors: complete, and the only place that knows one actor from another."""

from __future__ import annotations

import ast

import pytest

from actors.core.flow import FLOW
from actors.runtime.registry import ACTOR_SPECS, asks_model, given_up, spec_of
from protocol.facts import ContextServed
from protocol.subjects import ACTORS, Actor
from tests.builders import Talk, policy
from tests.test_tidy import ROOT, at, python_files, tree

BY_REGISTRY = ("actors/runtime", "actors/host", "actors/services", "actors/cli", "storage", "protocol")
FILES = ("actors/audit/replay.py", "tests/builders.py", "tests/conftest.py", "tests/score_adapter.py")


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
    files = [file for file in python_files() if str(file.relative_to(ROOT)).startswith((*BY_REGISTRY, *FILES))]
    asked = [
        at(file, node.lineno)
        for file in files
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Compare | ast.MatchValue) and not _is_of_a_policy(node)
        for asked in ast.walk(node)
        if isinstance(asked, ast.Constant) and asked.value in ACTORS
    ]
    assert asked == []


def _is_of_a_policy(node: ast.AST) -> bool:
    """Tell whether a section of a policy or one of its modes is meant: some have an actor's name."""
    text = ast.unparse(node)
    return "mode" in text or text.endswith((" in layer", " in document"))
