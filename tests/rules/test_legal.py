"""Legal: each thing that a provider would refuse is found, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from actors.rules.legal import problems
from tests.builders import assistant, result, sample, system, user

ABSENT = "message 2: a call before it has no result"


@pytest.mark.parametrize(
    "view",
    [
        [],
        [system("s"), user("u"), assistant("a")],
        [assistant(None, "a", "b"), result("b"), result("a"), assistant(None, "c"), result("c")],
        [user("u"), assistant(None, "still-open")],
        sample(),
    ],
)
def test_what_a_provider_takes_has_no_problems(view: list[dict[str, Any]]) -> None:
    assert problems(view) == []


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([result("a")], ["message 0: a result without its call"]),
        ([assistant(None, "a"), result("b")], ["message 1: a result without its call"]),
        ([assistant(None, "a"), result("a"), result("a")], ["message 2: a result without its call"]),
        ([user("u"), assistant(None, "a", "b"), user("v")], [ABSENT, ABSENT]),
        ([assistant(None, "a"), user("v"), result("a")][1:], ["message 1: a result without its call"]),
        ([assistant(None, "a", "a"), result("a")], ["message 0: a call id stands twice"]),
        (
            [assistant(None, "a"), result("a"), assistant(None, "a"), result("a")],
            ["message 2: a call id stands twice"],
        ),
        ([user(7)], ["message 0: content must be text or a list of parts, not int"]),
    ],
)
def test_what_a_provider_refuses_is_named(view: list[dict[str, Any]], found: list[str]) -> None:
    assert problems(view) == found
