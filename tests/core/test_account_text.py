"""The account as text: which line tells what was changed."""

from __future__ import annotations

import pytest

from actors.core.account_text import changed_text
from protocol.account import AccountAct, AccountStep


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ["/srv/build/shop/part-1/a.py", "/srv/build/shop/part-1/b/c.py", "…v/build/shop/part-1/b/d.py"],
            ["a.py", "b/c.py", "b/d.py"],
        ),
        (["C:\\Users\\anna\\s\\a.ts", "C:\\Users\\anna\\s\\b\\c.ts"], ["a.ts", "b\\c.ts"]),
    ],
)
def test_the_folder_of_changed_files_is_told_once(names: list[str], told: list[str]) -> None:
    folder = names[0][: -len(told[0])]
    names = [*names, f"{folder}x", "/other/src/d.py", "…/other/packages/src/e.py"]
    acts = [AccountAct(call="x", target=name, changes=True) for name in names]
    steps = [AccountStep(first=at, last=at, acts=(act,)) for at, act in enumerate(acts)]
    steps += [AccountStep(first=at, last=at) for at in range(4, 12)]
    each = "; ".join(f"{name} (#{at})" for at, name in enumerate([*told, "x"]))
    assert changed_text(tuple(steps), commands_apart=True).split("\n") == [
        f"Changed in {folder}: {each}",
        f"Changed: /other/src/d.py (#{len(told) + 1}); …/other/packages/src/e.py (#{len(told) + 2})",
    ]


def test_a_command_that_changed_something_is_no_name_of_a_file() -> None:
    acts = ("src/theme.ts", "sed -i '' 's/old/new/' src/theme.ts", "My Notes/plan.md", "mkdir -p ~/themes && cp a b")
    steps = [
        AccountStep(first=at, last=at, acts=(AccountAct(call="x", target=acts[at % 4], changes=True),))
        for at in range(32)
    ]
    assert changed_text(tuple(steps), commands_apart=True).split("\n") == [
        "Changed: src/theme.ts (… #8, #12, #16, #20, #24, #28); My Notes/plan.md (… #10, #14, #18, #22, #26, #30)",
        "Changed by commands: sed -i '' 's/old/new/' src/theme.ts (… #9, #13, #17, #21, #25, #29); "
        "mkdir -p ~/themes && cp a b (… #11, #15, #19, #23, #27, #31)",
    ]
