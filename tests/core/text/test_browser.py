"""Browser: what browser-use says in the user's place, and what its model does in one call."""

from __future__ import annotations

import json

import pytest

from actors.core.text.browser import actions_in, as_result, is_shown, with_address

PAGE = (
    "Current url: https://shop.test/pumps\nAvailable tabs:\n[TabInfo(page_id=0, url='https://shop.test', title='P')]"
    "\nInteractive elements from current page view:\n[Start of page]\n0[:]<img />\n1[:]<button>Buy</button>\n"
    "2[:]<a>Pump A, 12 litres a minute</a>\n[3]<a Menu/>\n"
    "... 1800 pixels below - scroll or extract content to see more ..."
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Action result: 🖱️  Clicked button with index 39", "🖱️  Clicked button with index 39"),
        ("Action error 1/2: no such element", "Error: no such element"),
        (PAGE, "https://shop.test/pumps\n2[:]<a>Pump A, 12 litres a minute</a>\n(1800 pixels below)"),
        (f"{PAGE}\n[End of page]\nCurrent step: 9/100Current date and time: 2025-06-02 01:45", as_result(PAGE)),
        ('Action result: 📄  Extracted from page\n: ```json\n{"a": 1}\n```\n', '{"a": 1}'),
        (f"[Task history memory ends]\n[Current state starts here]\n{PAGE}", as_result(PAGE)),
        ("[Your task history memory starts here]", ""),
    ],
)
def test_what_a_browser_shows_is_told_as_a_result(text: str, told: str) -> None:
    assert is_shown(text)
    assert as_result(text) == told


@pytest.mark.parametrize(
    ("read", "told"),
    [
        ('{"a": 1}', '{"page": "https://shop.test/pumps", "a": 1}'),
        ('{"a": "https://shop.test/pumps"}', '{"a": "https://shop.test/pumps"}'),
        ("{}", "{}"),
        ("[1]", "[1]"),
        ("text", "text"),
    ],
)
def test_what_was_read_is_told_with_the_address_of_its_page(read: str, told: str) -> None:
    assert with_address(read, PAGE) == told
    assert with_address(read, "no page") == read


def test_tabs_are_told_where_there_are_several() -> None:
    assert "TabInfo" in as_result(PAGE.replace("title='P')]", "title='P'), TabInfo(page_id=1, url='x', title='Q')]"))


@pytest.mark.parametrize(
    "text", ["Action results are bad", "Current url: https://shop.test is wrong", "The action: x", ""]
)
def test_what_a_person_says_of_pages_is_theirs(text: str) -> None:
    assert not is_shown(text)


@pytest.mark.parametrize("inside", [True, False])
def test_of_a_models_call_the_thoughts_and_the_actions_are_known(inside: bool) -> None:
    state = {"evaluation_previous_goal": "Success", "memory": "Bali is set.", "next_goal": "Set Oman."}
    action = [{"input_text": {"index": 4, "text": "Oman"}}, {"click_element": {"index": 5}}]
    said, calls = actions_in(json.dumps({**({"current_state": state} if inside else state), "action": action})) or (
        "",
        [],
    )
    assert said == "Success\nBali is set.\nSet Oman."
    assert [tuple(call) for call in calls] == [
        ("input_text", '{"index": 4, "text": "Oman"}'),
        ("click_element", '{"index": 5}'),
    ]


@pytest.mark.parametrize("arguments", ["", "[]", "{}", "{", '{"action": "run"}', '{"action": {"a": 1}}', "[" * 10_000])
def test_other_arguments_are_no_actions(arguments: str) -> None:
    assert actions_in(arguments) is None
