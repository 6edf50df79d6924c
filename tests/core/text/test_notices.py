"""Notices: what a program puts in the user's place unasked, and what a person says beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.notices import happened, is_notice, spoken, words_in

DETAILS = "<environment_details>\n# Current Time\n4/27/2026\n</environment_details>"
ENDED = (
    "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n<output-file>/tmp/x</output-file>\n"
    '<status>completed</status>\n<summary>"Run fetcher" completed (exit code 0)</summary>\n</task-notification>'
)
EVENT = '<task-notification>\n<summary>Monitor: "fetch"</summary>\n<event>page 3</event>\n</task-notification>'
RESULT = "[attempt_completion] Result:\nThe user has provided feedback on the results.\n<feedback>\n{}\n</feedback>"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DETAILS, ""),
        (ENDED, '"Run fetcher" completed (exit code 0)'),
        (EVENT, 'Monitor: "fetch"\npage 3'),
        (f"{EVENT}\n{DETAILS}\n", 'Monitor: "fetch"\npage 3'),
        ("<local-command-stdout>3 files</local-command-stdout>", "3 files"),
        ("<system-reminder>\nThe list is empty.\n</system-reminder>", ""),
        (f"# TODO LIST UPDATE REQUIRED - You MUST include it.\n- [ ] one\n{DETAILS}", ""),
        ("[TASK RESUMPTION] This task was interrupted 3 days ago.", ""),
    ],
)
def test_nobody_says_a_notice(text: str, told: str) -> None:
    assert is_notice(text)
    assert happened(text) == told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ""),
        ("Fix it.", "Fix it."),
        (f"<task>\nFix it\n</task>\n{DETAILS}", "<task>\nFix it\n</task>"),
        (f"<system-reminder>\nx\n</system-reminder>\nFix it.\n\n{DETAILS}", "Fix it."),
        (f"{RESULT.format('Use tabs.')}\n{DETAILS}", "Use tabs."),
        ("[TASK RESUMPTION] Broken off.\n<user_message>\nGo on.\n</user_message>", "Go on."),
        (f"Why does Cline write\n{DETAILS}\ninto my log?", f"Why does Cline write\n{DETAILS}\ninto my log?"),
        ("My answer: <answer>42</answer>", "My answer: <answer>42</answer>"),
        ("<environment_details> is what?", "<environment_details> is what?"),
        ("<system-reminder>never closed", "<system-reminder>never closed"),
        ("<bold>Fix it</bold>", "<bold>Fix it</bold>"),
        ("<user_query>Fix it</user_query>", "<user_query>Fix it</user_query>"),
    ],
)
def test_what_a_person_says_is_told_without_the_frame(text: str, said: str) -> None:
    assert not is_notice(text)
    assert spoken(text) == said


PIECES = [
    *("<feedback>", "</feedback>", "<task-notification>", "</task-notification>", "<event>", "</event>", " ", "\n")
]
PIECES += [DETAILS, "[x for 'y'] Result:\n", "# task_progress ", "<", "</", ">", "Fix it."]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=100))
def test_no_text_breaks_it(text: str) -> None:
    happened(text)
    words_in(text)
    assert spoken(text) or not text.strip() or is_notice(text)


@pytest.mark.parametrize("hostile", ["<feedback>", "<event>", "<system-reminder>", DETAILS, "</system-reminder>", " "])
def test_hostile_texts_are_read_in_time(hostile: str) -> None:
    text = hostile * 50_000
    is_notice(text)
    happened(f"<task-notification>{text}</task-notification>")
    spoken(f"[x] Result:\n{text}")
    spoken(f"{text} Fix it.")
