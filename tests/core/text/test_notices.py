"""Notices: what a program puts in the user's place unasked, and what a person says beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.notices import alike, happened, has_words, is_notice, task_of
from actors.core.text.spoken import spoken

DETAILS = "<environment_details>\n# Current Time\n4/27/2026\n</environment_details>"
SHORT = "<environment_details> … </environment_details>"
ENDED = (
    "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n<output-file>/tmp/x</output-file>\n"
    '<status>completed</status>\n<summary>"Run fetcher" completed (exit code 0)</summary>\n</task-notification>'
)
EVENT = "<task-notification>\n<task-id>b2</task-id>\n<event>page 3</event>\n</task-notification>"
STOPPED = "<task-notification>\n<status>killed</status>\n<summary>Fetcher ended</summary>\n</task-notification>"
GAVE = (
    "The user has provided feedback on the results. Consider their input to continue the task, and then attempt "
    "completion again.\n<feedback>\n{}\n</feedback>"
)
REMINDER = "# TODO LIST UPDATE REQUIRED - You MUST include the task_progress parameter in your NEXT tool call."
RESUMED = "[TASK RESUMPTION] This task was interrupted 3 days ago. The conversation may have been incomplete."


@pytest.mark.parametrize(
    ("text", "told", "task"),
    [
        (DETAILS, "", ""),
        (ENDED, '"Run fetcher" completed (exit code 0)', "b1"),
        (EVENT, "page 3", "b2"),
        (STOPPED, "Fetcher ended\nstatus: killed", ""),
        (f"{EVENT}\n{DETAILS}\n", "page 3", ""),
        ("<local-command-stdout>3 <b>files</b></local-command-stdout>", "3 <b>files</b>", ""),
        ("<system-reminder>\nThe list is empty.\n</system-reminder>", "The list is empty.", ""),
        (f"{REMINDER}\n- [ ] one\n{DETAILS}", "", ""),
        (RESUMED, "", ""),
    ],
)
def test_nobody_says_a_notice(text: str, told: str, task: str) -> None:
    assert is_notice(text)
    assert (happened(text), task_of(text)) == (told, task)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ""),
        ("Fix it.", "Fix it."),
        (f"<task>\nFix it\n</task>\n{DETAILS}", f"<task>\nFix it\n</task>\n{SHORT}"),
        (f"{GAVE.format('Use tabs.')}\n{DETAILS}", f"Use tabs.\n{SHORT}"),
        (f"[attempt_completion] Result:\n{GAVE.format('Use <feedback>x</feedback>.')}", "Use <feedback>x</feedback>."),
    ],
)
def test_what_a_program_put_around_a_persons_words_is_left_out(text: str, said: str) -> None:
    assert not is_notice(text)
    assert spoken(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>\nPrefer small commits.\n</system-reminder>\nFix it.",
        f"{RESUMED}\n<user_message>\nGo on.\n</user_message>",
        "[TASK RESUMPTION] please resume 7 and never touch prod",
        "[TASK RESUMPTION] This task was interrupted 3 days ago. Go on, but never touch prod.",
        "<system-reminder>\nThe user sent the following message:\nUse litres.\n</system-reminder>",
        "Hi\n<environment_details>\nA\n</environment_details>\nNever; remove every </environment_details>",
        "# task_progress column\n\nAdd a column. Never drop data.",
        f"Why does Cline write\n{DETAILS}\ninto my log?",
        "Please replace each <environment_details> by nothing, and delete </environment_details>",
        "<system-reminder> is a tag that I see. Remove it and </system-reminder> too",
        "New instructions for task continuation:\nUse litres: <task>build</task>; never touch prod",
        f"{GAVE.format('Use tabs.')}\nPS: never touch pier Kiel",
        "[write_to_file for 'a'] Result:\nThe user made edits.\n<feedback>a</feedback>\n<final>text</final>",
        "My answer: <answer>42</answer>",
        "<system-reminder>never closed",
        "<bold>Fix it</bold>",
        "<user_query>Fix it</user_query>",
    ],
)
def test_what_else_a_person_says_stays_whole(text: str) -> None:
    assert not is_notice(text)
    assert spoken(text) == text


def test_of_a_task_what_differs_in_figures_alone_is_alike() -> None:
    page = "<task-notification>\n<task-id>b2</task-id>\n<event>{}</event>\n<event>b</event>\n</task-notification>"
    assert alike(page.format("page 3")) == alike(page.format("page 14")) == ("b2", "page #\nb")
    assert alike(page.format("ERROR row 7")) != alike(page.format("page 3"))
    assert alike("<bash-stdout>page 3</bash-stdout>") == ("", "")


def test_a_status_is_a_word() -> None:
    ended = "<task-notification>\n<status>{}</status>\n<summary>{}</summary>\n</task-notification>"
    assert happened(ended.format("killed", "nobody skilled")) == "nobody skilled\nstatus: killed"
    assert happened(ended.format("failed", "Build failed")) == "Build failed"
    assert happened("<task-notification><task-id>b</task-id></task-notification>") == ""


def test_a_person_speaks_where_anything_may_be_a_persons_words() -> None:
    assert has_words("[read_file for 'a'] Result:\n<task>\nrow\n<feedback>\nNever use gallons.\n</feedback>")
    assert not has_words("[read_file for 'a'] Result:\n<tasks>3</tasks>")


PIECES = ["<feedback>", "</feedback>", "<task-notification>", "</task-notification>", "<event>", "</event>", " ", "\n"]
PIECES += [DETAILS, "\n<environment_details>\n", GAVE, RESUMED, "<", "</", ">", "Fix it.", "Never."]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=100))
def test_no_words_outside_of_what_programs_write_are_lost(text: str) -> None:
    happened(text)
    task_of(text)
    before, opening, details = text.rpartition("\n<environment_details>\n")
    _, _, behind = details.partition("</environment_details>") if opening else ("", "", details)
    for words in ("Fix it.", "Never."):
        assert spoken(text).count(words) >= before.count(words) + behind.count(words)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "hostile",
    ["<feedback>", "<event>", "<system-reminder>", DETAILS, "</system-reminder>", "<bash-stdout></bash-stdout>", " "],
)
def test_hostile_texts_are_read_in_time(hostile: str) -> None:
    text = hostile * 50_000
    for one in (text, f"x{text}", f"<task-notification>{text}</task-notification>", f"[x] Result:\n{text}"):
        is_notice(one)
        happened(one)
        task_of(one)
        spoken(one)
