"""Moves: a file that was renamed or deleted is no longer where it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.extract import found_in
from tests.builders import Talk, assistant, policy, result, user


def run(command: str, printed: str = "", *, tool: str = "bash") -> list[dict[str, Any]]:
    """Return a call of a shell and its result."""
    call = assistant(None, "c", arguments=json.dumps({"command": command}))
    call["tool_calls"][0]["function"]["name"] = tool
    return [call, result("c", printed)]


def found(*said: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the paths that are there, and what moved."""
    talk = Talk(policy(9000))
    talk.append(*said)
    items = found_in(talk.state.live).items
    by = {kind: {item.value for item in items if item.category == kind} for kind in ("path", "moved")}
    return by["path"], by["moved"]


@pytest.mark.parametrize(
    "said",
    [
        run("mv src/a.py src/b.py"),
        run("git mv src/a.py src/b.py && pytest"),
        run("cd /srv; mv -f 'src/a.py' \"src/b.py\""),
        run("ls\nmv src/a.py src/b.py\nls"),
        run("git status", "renamed:    src/a.py -> src/b.py"),
        run("git show", "rename from src/a.py\nrename to src/b.py"),
        [user("I renamed src/a.py to src/b.py")],
    ],
)
def test_a_renamed_file_is_where_it_went(said: list[dict[str, Any]]) -> None:
    assert found(user("edit src/a.py"), *said) == ({"src/b.py"}, {"src/a.py -> src/b.py"})


@pytest.mark.parametrize(
    "said",
    [
        run("rm src/a.py"),
        run("git rm -f src/a.py;true"),
        run("git commit -m x", " delete mode 100644 src/a.py"),
        run("git status", "\tdeleted:    src/a.py"),
        run("rm -v src/a.py", "removed 'src/a.py'"),
    ],
)
def test_a_deleted_file_is_gone(said: list[dict[str, Any]]) -> None:
    assert found(user("edit src/a.py"), *said) == (set(), {"src/a.py deleted"})


def test_what_is_in_a_deleted_folder_is_gone_too() -> None:
    assert found(user("see build/lib/a.py and src/b.py"), *run("rm -rf build/")) == ({"src/b.py"}, {"build deleted"})


def test_a_tool_that_moves_by_its_name_is_understood() -> None:
    call = assistant(None, "c", arguments='{"source": "src/a.py", "destination": "src/b.py"}')
    call["tool_calls"][0]["function"]["name"] = "move_file"
    assert found(call, result("c", "ok")) == ({"src/b.py"}, {"src/a.py -> src/b.py"})


@pytest.mark.parametrize(
    "said",
    [
        run("mv src/a.py src/b.py", "mv: cannot stat 'src/a.py': No such file or directory"),
        run("echo mv src/a.py src/b.py"),
        run("grep 'rm src/a.py' Makefile"),
        run("docker run --rm src/a.py"),
        [assistant("I could rm src/a.py; it is removed: src/a.py")],
    ],
)
def test_what_did_not_happen_moves_nothing(said: list[dict[str, Any]]) -> None:
    paths, moved = found(user("edit src/a.py"), *said)
    assert "src/a.py" in paths
    assert moved == set()


def test_a_file_that_comes_back_is_there_again() -> None:
    paths, _ = found(*run("rm src/a.py"), *run("touch src/a.py"))
    assert paths == {"src/a.py"}
