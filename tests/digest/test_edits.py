"""Edits: an account says what a call put in the place of what."""

from __future__ import annotations

from typing import Any

import pytest

from actors.digest.edits import Edit, edits_in, edits_text, newest_of, without_beside
from actors.digest.step_rooms import LEVEL_CHARS, ONE_LINE_LEVEL, expected_chars
from protocol.account import AccountAct, AccountStep
from tests.builders import user

from .test_account import called, looks, play, told
from .test_account_room import talk


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.py", "old_string": "x = 1", "new_string": "x = 2", "replace_all": False},
        {"path": "a.py", "oldText": "x = 1", "newText": "x = 2"},
        {"command": "str_replace", "path": "a.py", "old_str": "x = 1", "new_str": "x = 2"},
        {"path": "a.py", "search": "x = 1", "replace": "x = 2"},
        {"path": "a.py", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]},
    ],
)
def test_an_edit_is_known_whatever_a_tool_calls_its_arguments(arguments: dict[str, Any]) -> None:
    edits, names = edits_in(arguments)
    assert edits == [Edit("x = 1", "x = 2")]
    assert "path" not in names


@pytest.mark.parametrize("arguments", [{}, {"path": "a.py"}, {"content": "new"}, {"new": "x"}, {"edits": ["x"]}])
def test_a_call_that_replaces_nothing_is_no_edit(arguments: dict[str, Any]) -> None:
    assert edits_in(arguments) == ([], frozenset())


def test_an_edit_says_first_what_is_new_then_what_is_gone_and_then_what_stands_beside() -> None:
    edit = Edit("def area(r):\n    return 3 * r\n# end", "def area(r):\n    return pi * r * r\n# end")
    text = edits_text([edit], 200)
    assert text == "+     return pi * r * r\n-     return 3 * r\n  def area(r):\n  # end"
    assert edits_text([edit], 39) == "+     return pi * r * r\n-     return 3…"
    assert newest_of(f"edit path=a.py\n{text}") == "return pi * r * r"
    assert newest_of(f"edit path=a.py {' '.join(text.split())}") == "return pi * r * r"
    assert newest_of("bash ls -l") == ""
    assert without_beside(f"edit path=a.py\n{text}") == f"edit path=a.py\n{text.partition('  def')[0].rstrip()}"


def test_a_line_that_an_edit_left_as_it_was_is_neither_new_nor_gone() -> None:
    edit = Edit("# 9 colors\nheading,\nlink,\ncode,\nrule", "# 10 colors\nheading,\nlink,\nlinkUrl,\ncode,\nrule")
    assert edits_text([edit], 200) == ("+ # 10 colors\n+ linkUrl,\n- # 9 colors\n  heading,\n  link,\n  code,\n  rule")


def test_of_very_large_edits_all_between_the_first_and_the_last_difference_is_told_as_new() -> None:
    before = [f"old {at}" for at in range(400)]
    after = [f"new {at}" for at in range(400)]
    after[200] = before[200]
    text = edits_text([Edit("\n".join(before), "\n".join(after))], 10**6)
    assert "+ old 200" in text
    assert "- old 200" in text


def test_where_an_edit_stands_on_one_line_what_stayed_is_not_told_as_gone() -> None:
    old = 'it("adds", () => {\n  expect(sum(1, 2)).toBe(4);\n});'
    new = old.replace("toBe(4)", "toBe(3)")
    of = play(talk(2_500), user("Mend it."), *called(1, "edit", "Done.", path="a.ts", oldText=old, newText=new))
    play(of, *looks(2, 24))
    (line,) = [line for line in told(of).split("\n") if "a.ts" in line and "edit" in line and "toBe" in line]
    assert "toBe(3)" in line
    assert 'it("adds"' not in line


@pytest.mark.parametrize(
    "call",
    [
        "write a.py\ncontent:\ndef total(rows):\n    first = rows[0] + rows[1]\n    return first",
        "bash cat <<EOF\n  a\nEOF",
        "edit a.py",
        "send_message\n- Buy the pump\n- Shut the valve\n  with key 7713 before noon",
        "update_note\n- Buy the pump\n  with its key\n- Shut the valve\n  before noon",
    ],
)
def test_of_a_call_that_is_no_edit_all_lines_stay(call: str) -> None:
    assert without_beside(call) == call


def test_of_an_edit_that_only_takes_lines_out_what_stayed_is_not_told_either() -> None:
    assert without_beside("edit a.ts\n- expect(b);\n  it(a)\n  });") == "edit a.ts\n- expect(b);"


def test_how_long_an_edit_becomes_on_one_line_is_reckoned_without_what_stayed() -> None:
    beside = "".join(f"\n  line {at} that stayed" for at in range(9))
    calls = [AccountAct(call=f"edit a.py\n+ x = 2{lines}", changes=True) for lines in ("", beside)]
    edits = [AccountStep(first=3, last=4, acts=(call,)) for call in calls]
    assert len({expected_chars(one, ONE_LINE_LEVEL, LEVEL_CHARS) for one in edits}) == 1
    assert len({expected_chars(one, 1, LEVEL_CHARS) for one in edits}) == 2
