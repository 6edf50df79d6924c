"""Reminders: what a program puts around a user's words, or in their place: a project's instructions, a hook's words."""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.message_texts import redacted_texts
from actors.core.text.spoken import REMINDER_CHARS_MIN, is_reminder, reminders_in
from actors.core.units import Unit
from protocol.account import AccountAct, AccountStep

from .calls import as_said
from .hindsight import Hindsight
from .step_rooms import LevelChars, room_in

REMINDER = "reminder"


def reminder_of(unit: Unit, hindsight: Hindsight, levels: Sequence[LevelChars]) -> AccountStep | None:
    """Return the step for what a program reminds of around a user's words in *unit*, as instructions of a project."""
    parts = redacted_texts(map(as_said, unit.entries))
    told = "\n".join(filter(None, (reminders_in(part.text) for part in parts if part.trust == "user")))
    if len(told) < REMINDER_CHARS_MIN:
        return None
    short = hindsight.finest(told, chars=room_in(told, levels[0].outcome), after=unit.last, own="")
    return AccountStep(
        first=unit.first, last=unit.last, acts=(AccountAct(call=REMINDER, outcome=short, instructs=True),)
    )


def says_nothing_else(unit: Unit) -> bool:
    """Tell whether in *unit*, a user's, nothing stands but what a program reminds of."""
    return all(is_reminder(part.text) for part in redacted_texts(unit.entries))
