"""What another agent reports, what an editor refuses, and which files a patch names."""

from __future__ import annotations

import pytest

from tests.builders import user

from .test_account import account, called, looks, play, told
from .test_account_room import talk

REPORT = "## Done\n\n" + "\n".join(
    f"- Pump {at}: mended, since valve {at} was stuck at {at * 7} bar." for at in range(60)
)


@pytest.mark.parametrize(("tool", "is_report"), [("Task", True), ("runSubagent", True), ("task_list", False)])
def test_what_another_agent_reports_stands_where_steps_are_joined(tool: str, is_report: bool) -> None:
    of = play(talk(3_000), user("Mend all."), *called(2, tool, REPORT, description="Mend the pumps"), *looks(30, 40))
    (act,) = [act for step in account(of).steps for act in step.acts if act.call.startswith(tool)]
    assert act.instructs == is_report
    assert (act.outcome.count("was stuck at") >= 3) == is_report


@pytest.mark.parametrize(
    "refused",
    [
        "you must read the file before editing it. Use the View tool first",
        "old_string not found in file. Make sure it matches exactly, including whitespace and line breaks",
        "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
        "Failed to edit, 0 occurrences found for old_string in /srv/a.py. No edits made.",
        "Found 3 matches of the string to replace, but replace_all is false.",
        "File has been modified since read, either by the user or by a linter. Read it again before writing to it.",
        "ERROR while calling tool: Invalid input path: a.py. Be sure to use an absolute path.",
    ],
)
def test_an_edit_that_an_editor_refused_changed_nothing(refused: str) -> None:
    edit = called(2, "edit", refused, file_path="src/a.py", old_string="b", new_string="c")
    of = play(talk(2_500), user("Mend it."), *edit, *looks(30, 20))
    (act,) = [act for step in account(of).steps for act in step.acts if act.call.startswith("edit")]
    assert act.failed
    assert "Changed: src/a.py" not in told(of)


def test_a_file_that_speaks_of_such_words_was_written() -> None:
    write = called(2, "write", "File created successfully at: src/a.py", file_path="src/a.py", content="not unique")
    assert "Changed: src/a.py" in told(play(talk(2_500), user("Mend it."), *write, *looks(30, 20)))


def test_a_patch_is_told_by_the_files_it_names() -> None:
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-b\n+c\n*** Add File: docs/b.md\n+d\n*** End Patch"
    done = ("Done!", "Success. Updated the following files:\nM src/a.py\n\nsrc/a.py:3: error: Name c is not defined")
    for tool, result in (("apply_patch", done[0]), ("apply_patch", done[1]), ("functions.apply_patch", done[0])):
        of = play(talk(2_500), user("Mend it."), *called(2, tool, result, input=patch), *looks(30, 20))
        assert "Changed: src/a.py (#2); docs/b.md (#2)" in told(of)


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("query_db", "The cancelled orders of May:\n#1201"),
        ("run", "The skipped tests are listed in ci.md"),
        ("run", "Blocked by: #12\nOwner: Ana"),
        ("run", "User declined the cookie banner: 12%"),
        ("run", "Parking is unavailable in Zone 3"),
        ("run", "Validation error: 0.034 after epoch 5, best so far"),
        ("run", "Blocked by policy: 14 requests, all from 10.0.0.3"),
        ("run", "Command stopped: 0\nCommand running: 3"),
        ("run", "User cancelled the call with support at 14:03"),
        ("edit", "Replaced 3 occurrences (replace_all) in src/a.py."),
        ("send_message", "Message sent to Ana. It has not been read yet."),
        ("edit", "Done: 0 occurrences of old_name left."),
    ],
)
def test_what_only_speaks_of_refusals_is_none(tool: str, result: str) -> None:
    call = called(2, tool, result, file_path="src/a.py", new_string="c")
    of = play(talk(2_500), user("Mend it."), *call, *looks(30, 20))
    assert not any(act.failed for step in account(of).steps for act in step.acts if act.call.startswith(tool))


def test_a_patch_that_is_written_into_a_file_changes_no_other_file() -> None:
    patch = "*** Begin Patch\n*** Update File: src/billing.py\n@@\n-b\n+c\n*** End Patch"
    write = called(2, "Write", "ok", file_path="tests/p.patch", content=patch)
    assert "src/billing.py (#" not in told(play(talk(2_500), user("Mend it."), *write, *looks(30, 20)))
    refused = called(2, "apply_patch", "error: patch rejected: no context in src/a.py; 1 failed", input=patch)
    assert "src/billing.py (#" not in told(play(talk(2_500), user("Mend it."), *refused, *looks(30, 20)))


def test_a_report_that_speaks_of_failures_is_a_report() -> None:
    report = f"2 tests failed before my fix, none fails now.\n{REPORT}"
    of = play(talk(3_000), user("Mend all."), *called(2, "Task", report, description="Mend"), *looks(30, 40))
    (act,) = [act for step in account(of).steps for act in step.acts if act.call.startswith("Task")]
    assert not act.failed
