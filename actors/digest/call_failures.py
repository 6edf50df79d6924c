"""Call failures: why a call did not do what it was to, or what failed in it, as its result tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from actors.core.message_texts import MessageText
from actors.core.text.error_text import error_text, tells_exit

from .calls import SHELL_LINES, arguments_of, delegates, only_looks, patches, reads_file
from .failures import (
    begin_of,
    failure_in,
    is_made,
    is_unwritten,
    refusal_in,
    refused_for,
    rejection_in,
    trace_before,
    trace_in,
    undone_in,
)

NOTHING = "(no output)"
"""What is told of a result without a word."""

_GOES_THERE = re.compile(r"(?:\s*cd [^\n&|;]{1,300}&&)?")
_WRITES = re.compile(r">|\b(?:tee|sed|patch|cp|mv|touch|mkdir)\b")


class CallFailure(NamedTuple):
    """What failed, in the words of a result; empty where nothing did."""

    why: str
    is_undone: bool
    """Whether the call changed nothing: a test that fails behind it does not undo what it wrote."""


def failure_of(
    call: MessageText, result: str, *, says_failed: bool, changes: bool, files: Sequence[str], rules_3: bool
) -> CallFailure:
    """Return the failure that the *result* of *call* tells.

    Whether its message *says* that it *failed* is known, whether it *changes* something, and which *files* a command
    was to write.
    """
    why = _undone_for(call, result, changes=changes, rules_3=rules_3)
    is_undone = bool(why) and (patches(call) or not _wrote(call, result, why, files))
    if not why and not only_looks(call) and not (rules_3 and delegates(call)):
        why = (trace_in(result) if rules_3 else "") or failure_in(result, rules_3=rules_3)
    made = changes and _is_editor(call) and is_made(result)
    if not why and says_failed and not made:
        why = begin_of(result) or NOTHING
        is_undone = _is_editor(call) or not _wrote(call, result, why, files)
    if why and rules_3 and (before := trace_before(result)).rsplit("\n", 1)[-1] not in why:
        why = before
    return CallFailure(why, is_undone)


def _is_editor(call: MessageText) -> bool:
    return patches(call) or reads_file(call)


def _wrote(call: MessageText, result: str, why: str, files: Sequence[str]) -> bool:
    """Tell whether a command that failed did run by its *result*, and so wrote *files* before it did."""
    if trace_in(result) or failure_in(result, rules_3=True):
        return True
    line = next((value for key in SHELL_LINES if isinstance(value := arguments_of(call).get(key), str)), "")
    before = _WRITES.split(_GOES_THERE.sub("", line, count=1), maxsplit=1)[0]
    # what stands behind a condition may not have run
    return tells_exit(why) and not ("&&" in before or "||" in before) and not is_unwritten(result, files)


def _undone_for(call: MessageText, result: str, *, changes: bool, rules_3: bool) -> str:
    """Return why *call* was not done, by its *result*; an empty text where it was."""
    if not rules_3:
        return rejection_in(result) or error_text(result) or (refusal_in(result, rules_3=False) if changes else "")
    if changes and _is_editor(call) and is_made(result):
        return ""
    # a report of another agent speaks of refusals
    refused = "" if delegates(call) else rejection_in(result)
    refused = refused or ("" if only_looks(call) else undone_in(result)) or error_text(result)
    if refused or not changes or not (refused := refusal_in(result, rules_3=True)):
        return refused
    return f"{why}. {refused}" if (why := refused_for(result)) else refused
