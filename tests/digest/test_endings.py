"""What a result says besides its outcome: endings that all results have, braces, keys too long to be read, traces."""

from __future__ import annotations

import json

from actors.core.account_text import JOINED_LEVEL, step_text
from actors.core.message_texts import without_lead
from actors.digest.joined_steps import OTHERS, joined
from actors.spill.labels import lead_stored
from protocol.account import AccountAct, AccountStep
from tests.builders import user

from .test_account import FILLER, account, called, looks, play, said, talk


def test_states_that_every_result_ends_with_are_left_out_and_how_a_command_ended_is_not() -> None:
    of = play(talk(2_000), user("Look."))
    for at in range(2, 14):
        ending = f"(Open file: /srv/{at}.py)\n(Session: connect example.org 13{at})\n[exit code: {at % 2}]"
        play(of, *called(at, "bash", f"{FILLER[:600]}\nfound {at * 77} of them\n{ending}", command=f"count {at}"))
    outcomes = "\n".join(act.outcome for step in account(of).steps for act in step.acts)
    assert "exit code: 1" in outcomes


def test_of_a_line_of_json_that_is_too_long_the_names_are_told_and_how_its_keys_begin() -> None:
    reply = json.dumps({"capsule": "A7" * 128, "pubkey": ["CE" * 128, "5"]})
    of = play(
        talk(), user("Collect."), *called(1, "send", f"{reply}\nWould you like your own? (Y/n)\n{FILLER}", text="Y")
    )
    play(of, *looks(2, 8))
    outcome = next(act.outcome for step in account(of).steps for act in step.acts if act.call.startswith("send"))
    assert "capsule A7A7A7A7A7A7A7A7A7A7…, pubkey [CECECECECECECECECECE…, 5]" in outcome


def test_braces_alone_are_no_lines_of_a_program_that_matter() -> None:
    program = "\n".join(
        f"void f{at}(int a)\n{{\n  int b;\n  if (a > {at}) {{\n    g{at}(a);\n  }}\n}}" for at in range(60)
    )
    of = play(talk(3_000), user("What calls g7?"), *called(1, "decompile", program, file="release"))
    play(of, said("f7 calls g7, and f31 calls g31."), user("And f52?"), *looks(3, 24))
    outcome = next(act.outcome for step in account(of).steps for act in step.acts if act.call.startswith("decompile"))
    assert "g31(a)" in outcome
    assert "… }" not in outcome


def test_a_line_above_every_result_is_a_frame_below_a_title_too() -> None:
    of = play(talk(2_000), user("Look."))
    for at in range(2, 22):
        head = f"OBSERVATION:\nHere's the result of running `cat -n` on /srv/{at}.py:"
        play(
            of,
            *called(at, "view", f"{head}\n{FILLER[:500]}\npump {at} stands at valve {at * 77}", path=f"/srv/{at}.py"),
        )
    outcomes = "\n".join(act.outcome for step in account(of).steps for act in step.acts)
    assert "stands at valve 1155" in outcomes
    assert "Here's the result" not in outcomes


def test_what_an_assistant_printed_is_shortened_in_place_as_a_result_is() -> None:
    """Where several speak, one of them runs the tools: its output stood whole, and others' words left."""
    pages = "\n".join(f"Address: bing: page {at} of the pumps" for at in range(120))
    of = play(talk(3_000), user("Which pump?"), said("I look.", name="Manager"), said(pages, name="Searcher"))
    views = []
    for at in range(12):
        play(of, said(f"Step {at}: pump {at} is {'dry ' * 160}", name="Checker"))
        views.append("\n".join(str(message["content"]) for message in of.shown()))
    assert "page 60 of" in views[0]
    assert any('[Shortened; the whole: read_artifact("messages:3")]' in view for view in views)


def test_why_a_program_failed_is_told_where_its_trace_stands_first() -> None:
    printed = 'Traceback (most recent call last):\n  File "run.py", line 17, in <module>\nTypeError: no pump\nResult 1:'
    failed = f"exitcode: 1 (execution failed)\nCode output: {printed}\n" + "a page of text\n" * 600
    of = play(talk(9_000), user("Run it."), said(failed, name="Terminal"), *called(8, "run", failed, file="run.py"))
    play(of, *looks(60, 40))
    outcomes = [act.outcome for step in account(of).steps for act in step.acts if act.failed]
    assert ["TypeError: no pump" in outcome.split("\n", 1)[0] for outcome in outcomes[:2]] == [True, True]


def test_the_line_above_what_a_pointer_shows_is_no_line_of_the_result() -> None:
    lead = lead_stored("x\n" * 900, "text", sha256="ab" * 32, bytes=1_800, tokens=950, exact=False)
    assert without_lead(f"{lead}\nKeyError: 'pump'") == "KeyError: 'pump'"
    assert without_lead(f"KeyError: 'pump'\n{lead}") == f"KeyError: 'pump'\n{lead}"


def test_a_command_that_is_said_again_below_a_frame_is_no_output() -> None:
    of = play(talk(2_500), user("Look at the pumps."))
    for at in range(8):
        command = f"kubectl logs pump-{at} --previous"
        out = f"pump {at} is well\n{'x ' * 300}" if at % 2 else ""
        play(of, *called(at, "run", f"What the tool printed stands below.\n{command}\n{out}", command=command))
    play(of, *looks(10, 3))
    outcomes = {act.call: act.outcome for step in account(of).steps for act in step.acts}
    assert outcomes["run kubectl logs pump-6 --previous"] == "(no output)"
    assert "pump 7 is well" in outcomes["run kubectl logs pump-7 --previous"]


def test_where_steps_are_joined_each_answer_has_a_line_with_its_call() -> None:
    acts = (
        AccountAct(call="read", target="a.md"),
        AccountAct(call="read", target="b.md"),
        AccountAct(call="read", target="c.md", outcome="7 pumps"),
        AccountAct(call="read", target="d.md", outcome="no file", failed=True),
        AccountAct(call="bash", target="ls"),
    )
    step = AccountStep(first=3, last=12, said="I look.", acts=acts, level=JOINED_LEVEL)
    assert step_text(step, form=3).split("\n") == [
        "#3-12 I look.",
        "read a.md; b.md",
        "read c.md -> 7 pumps",
        "read d.md (failed: no file)",
        "bash ls",
    ]
    assert step_text(step, form=2) == "#3-12 I look.; read a.md; b.md; c.md -> 7 pumps; d.md (failed: no file); bash ls"


def test_an_edit_that_was_refused_says_for_which_error() -> None:
    refused = (
        "Your edit has errors. Please look at them.\n\nERRORS:\n- E999 IndentationError: unexpected indent\n\n"
        f"This is how it would have looked\n{FILLER[:400]}\nYour changes have NOT been applied. Correct the edit.\n"
        "DO NOT run the same failed edit again. It will lead to the same error."
    )
    of = play(talk(), user("Mend it."), *called(1, "edit", refused, path="a.py", new_string="x = 1"), *looks(2, 8))
    outcome = next(act.outcome for step in account(of).steps for act in step.acts if act.failed)
    assert outcome.startswith("E999 IndentationError: unexpected indent. Your changes have NOT been applied.")


def test_of_many_calls_that_are_as_good_the_newest_are_told() -> None:
    acts = [AccountAct(call="bash", target=f"make part-{at}") for at in range(20)]
    steps = [AccountStep(first=at, last=at, acts=(act,), level=4) for at, act in enumerate(acts, 1)]
    step = joined(steps, told=(), rules_3=True, sought=lambda _: 0.0, is_linked=lambda _: False)
    *kept, others = [act.target or act.call for act in step.acts]
    assert kept == [f"make part-{at}" for at in range(20 - len(kept), 20)]
    assert others == OTHERS
