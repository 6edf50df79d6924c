"""Older rules keep their bytes: one conversation with what newer rules know by name, and under pressure throughout.

A hash changes where a newer way of telling is not asked for by the policy (`digest.records`, `squeeze.prompt_version`).
A change that is meant, as of what counts as a secret, writes the new one here and into the changelog.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.policy import resolve
from tests.builders import Talk, assistant, result, user

Message = dict[str, Any]

ENDS = ("test result: ok. 12 passed; 0 failed", "12 passed, 1 warning in 0.31s", "BUILD SUCCESS", "OK", "Ran 3 tests")
PLACES, WORDS = ("src/a.py", "/srv/b.ts", "x/y/s"), ("INFO", "ERROR", "warn", "B/s", "eta", "? eta")


def log(some: random.Random, lines: int) -> str:
    rows = (
        f"{some.choice(WORDS)} row {some.randrange(999)} held by import-{some.randrange(99)} in {some.choice(PLACES)}"
        for _ in range(lines)
    )
    return "\n".join(rows)


def called(at: int, tool: str, arguments: Message, text: str) -> list[Message]:
    call = assistant("", f"c{at}", arguments=json.dumps(arguments))
    call["tool_calls"][0]["function"]["name"] = tool
    return [call, result(f"c{at}", text)]


def said() -> Iterator[Message]:
    """Yield the messages, always the same."""
    some = random.Random(7)
    yield user("Find out why shop 3 is wrong. Never restart it.")
    for at in range(36):
        text = log(some, some.randrange(3, 60))
        ways: list[list[Message]] = [
            called(at, "list", {"recursive": "true"}, text),
            called(at, "write_file", {"absolutePath": f"/srv/shop/app/f{at}.py", "content": text}, "ok"),
            called(
                at, "bash", {"command": f"pytest -k t{at} > /srv/shop/o{at}.txt"}, f"{text}\n{ENDS[at % 5]}\n{text}"
            ),
            [user(f"<environment_details>\nnow {at}\n</environment_details>"), assistant(f"I saw {at}")],
            called(at, "TaskUpdate", {"taskId": "1", "status": "done"}, "Updated"),
            [
                user(f"Use litres {at}. {text[:400]}\n<system-reminder>x</system-reminder>"),
                assistant(f"ok {text[:200]}"),
            ],
            [
                assistant(f"I look.\n<read_file>\n<path>p{at}.log</path>\n</read_file>"),
                user(f"[read_file for 'p{at}.log'] Result:\n{text}"),
            ],
            called(
                at,
                "read",
                {"path": f"src/m{at}.py", "task_progress": "- [ ] one"},
                f"def f(x):\n    {text}\nPod  Ready",
            ),
        ]
        yield from ways[at % len(ways)]


@pytest.mark.parametrize(
    ("rules", "digest", "views"),
    [
        ("1", {"style": "values"}, "43df5f929a4c9968"),
        ("2", {"style": "values"}, "6af89ddccc811dc5"),
        ("2", {"style": "account", "records": "lines", "cap": 0.45}, "2eff6772ccc2f8d3"),
    ],
)
def test_older_rules_show_what_they_showed(rules: str, digest: Message, views: str) -> None:
    talk = Talk(resolve([{"budget": {"window": 2_500, "reserve": 0}}, {"digest": digest}]), rules=rules)
    seen = hashlib.sha256()
    for message in said():
        talk.append(message)
        talk.settle()
        seen.update(json.dumps(talk.shown()).encode())
    assert seen.hexdigest()[:16] == views
