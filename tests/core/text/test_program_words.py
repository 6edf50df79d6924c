"""What thirty agent programs put into a conversation themselves: who speaks, and what a result says of its call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.core.message_texts import MessageText
from actors.core.text.error_text import error_text
from actors.core.text.notices import is_notice
from actors.core.text.opened import opened
from actors.core.text.spoken import spoken
from actors.digest.failures import failure_in, rejection_in, undone_in
from actors.digest.relayed import relayed

FORMS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "program_words.json").read_text("utf-8"))
FRAME_CHARS = 60
"""More than a person's words, what is left of a frame: a pointer to what was attached."""


def forms(role: str, *kinds: str, known: bool = True) -> list[Any]:
    return [
        pytest.param(form, id=f"{form['program']}: {form['text'][:40]!r}")
        for form in FORMS
        if form["role"] == role and form["kind"] in kinds and form.get("known", True) == known
    ]


def is_failed(text: str) -> bool:
    result = opened(text, deep=True)
    return bool(rejection_in(result) or undone_in(result) or error_text(result) or failure_in(result, rules_3=True))


@pytest.mark.parametrize("form", forms("user", "person"))
def test_a_persons_words_are_told_without_a_frame(form: dict[str, Any]) -> None:
    assert not is_notice(form["text"])
    said = spoken(form["text"])
    assert form["words"] in said
    assert len(said) <= len(form["words"]) + FRAME_CHARS


@pytest.mark.parametrize("form", forms("user", "notice", "refused"))
def test_what_a_program_says_unasked_is_a_notice(form: dict[str, Any]) -> None:
    assert is_notice(form["text"])


@pytest.mark.parametrize("form", forms("tool", "person"))
def test_a_person_speaks_in_a_result(form: dict[str, Any]) -> None:
    arguments = json.dumps({"questions": [{"question": "Which one?"}], "command": "make"})
    call = MessageText(number=1, trust="assistant", text=arguments, call="c", tool=form["tool"])
    (one,) = relayed([call, MessageText(number=2, trust="tool", text=form["text"], call="c")])
    assert all(line in one.text for line in form["words"].split("\n"))


@pytest.mark.parametrize("form", forms("tool", "refused", "failed"))
def test_a_call_was_refused_or_failed(form: dict[str, Any]) -> None:
    assert is_failed(form["text"])


@pytest.mark.parametrize("form", forms("tool", "ok"))
def test_a_call_went_well_though_its_result_speaks_of_errors(form: dict[str, Any]) -> None:
    assert not is_failed(form["text"])


@pytest.mark.parametrize("form", [*forms("user", "person", known=False), *forms("tool", "person", known=False)])
def test_of_a_form_that_is_not_known_no_word_is_hidden(form: dict[str, Any]) -> None:
    assert not is_notice(form["text"])
    assert form["words"] in spoken(form["text"])
    assert form["words"] in opened(form["text"], deep=True)
