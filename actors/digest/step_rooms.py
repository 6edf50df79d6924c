"""Step rooms: how many characters the texts of a step may have at each level, and how many tokens that will be.

Nothing is shortened here: how coarse a step is to be is decided first, by this, and its texts are made once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from actors.core.account_text import JOINED_LEVEL
from actors.core.text.gaps import GAP
from actors.core.units import Unit
from protocol.account import Account, AccountAct, AccountStep

from .calls import OUTPUT, TASK_LIST
from .edits import newest_of, without_beside
from .records import is_record


class LevelChars(msgspec.Struct, frozen=True, kw_only=True):
    """Characters that a step may have: what was said, one call, one outcome; half as many for others of a batch."""

    said: int
    call: int
    outcome: int


LEVEL_CHARS = (
    LevelChars(said=1400, call=1400, outcome=900),
    LevelChars(said=600, call=600, outcome=450),
    LevelChars(said=280, call=260, outcome=220),
    LevelChars(said=110, call=130, outcome=110),
    LevelChars(said=0, call=90, outcome=50),
)
"""By level, the finest first; in a small window. The first two grow with the room of all steps."""

ONE_LINE_LEVEL = 2
"""From which on what was said, and each call, stands on one line."""

SMALL_ROOM_TOKENS = 2400
GROWTH_MAX = 6.0
SPOKEN_MORE = 5
"""Times the room of what was said, where nothing was called: the assistant told somebody something."""

SPOKEN_CHARS, REPORT_CHARS = 300, 1100
"""At least, of what was said where nothing was called: of a report, its findings."""

CHANGED_MORE = 2
"""Times the room of a call that changed something."""

USED_MIN = 3
"""Words of an outcome that the assistant used afterwards, from which on the step did more than look."""

CALL_CHARS_MIN = 100
"""A call is not shortened below this: it would not say what it was about."""

TASK_LIST_CHARS = 700
"""Nor is the assistant's own list of tasks, of which only the newest is told: it says what comes next."""

WHY_CHARS, INSTRUCTS_CHARS, USED_CHARS = 220, 500, 220
"""An outcome is not shortened below this: why something failed, what agents are told to do, what was used later."""

FAILURE_CHARS = 320
"""The same of all that is told of a failure, by today's rules: what was printed before a trace often says why."""

PRINTED_CHARS = 280
"""The same of what a program printed that an assistant had written to find something out: most print little else."""

RECORD_LEAST_CHARS, RECORD_CHARS = 290, 140
"""A record that was looked up is not shortened below this; where steps are joined, below that."""

SMALL_WIN_CHARS = 80
"""Of an outcome: it is not shortened for less, since a line in its middle is lost by that."""

REPORT_BYTES_MIN = 500

FINDING_CHARS_MIN, FINDING_CHARS, CUT_CHARS_MIN = 190, 280, 110
"""Of what was said before calls: more tells what was found (what was cut was longer than level three has), and so
much of that stays while the step is not joined. Recorded agents say what they are about to do in fewer."""

FILLED = 0.92
"""Of the characters that a text may have, what it has when it is shortened: lines are taken or left."""

DENSE_CHARS = 3
"""Characters of English that say what one of a dense script does."""

_DENSE = re.compile(
    "[\u0900-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)
"""A character of Chinese, Japanese, Korean or an Indian script: most are a token."""

STEP_CHARS, ACT_CHARS = 7, 4
"""Of a step and of a call in it, beside their texts: a number, arrows and line ends."""

FRAME_CHARS, VALUE_CHARS = 300, 6
"""Of an account and of a value in it, beside their texts."""


def level_chars(tokens: int) -> tuple[LevelChars, ...]:
    """Return the characters of each level where all steps together have *tokens*."""
    growth = min(GROWTH_MAX, max(1.0, tokens / SMALL_ROOM_TOKENS))
    return (_grown(LEVEL_CHARS[0], growth), _grown(LEVEL_CHARS[1], growth**0.5), *LEVEL_CHARS[2:])


def _grown(most: LevelChars, growth: float) -> LevelChars:
    return LevelChars(said=int(most.said * growth), call=int(most.call * growth), outcome=int(most.outcome * growth))


def chars_of(step: AccountStep) -> int:
    """Return about how many characters *step* has in the account."""
    names = sum([len(act.target) for act in step.acts]) if step.level >= JOINED_LEVEL else 0
    texts = sum([len(act.call) + len(act.outcome) for act in step.acts])
    return STEP_CHARS + len(step.said) + texts + names + ACT_CHARS * len(step.acts)


def rate_of(unit: Unit, step: AccountStep) -> float:
    """Return the tokens of a character of *unit*'s *step*, by those of its messages."""
    parts = [part for entry in unit.entries for part in entry.parts]
    whole = "".join((step.said, *(text for act in step.acts for text in (act.call, act.outcome))))
    bytes_each = 1.0 if whole.isascii() else len(whole.encode("utf-8", "replace")) / len(whole)
    return bytes_each * sum(part.tokens for part in parts) / max(1, sum(part.bytes for part in parts))


def rate_before(account: Account, tokens: int) -> float:
    """Return the tokens of a character of the steps of *account*, of which steps and values have *tokens* together."""
    told = FRAME_CHARS + sum(map(chars_of, account.steps))
    return max(0, tokens) / (told + sum([len(one.text) + VALUE_CHARS for one in account.values]))


def expected_chars(step: AccountStep, level: int, levels: Sequence[LevelChars]) -> int:
    """Return about how many characters *step* will have at *level*, under rules 3."""
    if level <= step.level:
        return chars_of(step)
    rooms = Rooms(step, level, levels, rules_3=True)
    chars = STEP_CHARS + _filled(len(step.said), rooms.said)
    for act in step.acts:
        call = min(len(told_call(act, level)), rooms.call(act))
        chars += ACT_CHARS + call + _filled(len(act.outcome), rooms.outcome(act, call))
    return chars


def told_call(act: AccountAct, level: int) -> str:
    """Return the text of the call of *act* at *level*: on one line an edit does not tell what stayed."""
    return without_beside(act.call) if level >= ONE_LINE_LEVEL and act.changes else act.call


def _filled(chars: int, room: int) -> int:
    return chars if chars <= room else int(room * FILLED)


class Rooms:
    """How many characters the texts of a step may have at a level."""

    def __init__(self, step: AccountStep, level: int, levels: Sequence[LevelChars], *, rules_3: bool) -> None:
        self._most = most = levels[min(level, len(levels) - 1)]
        self._finest, self._rules_3 = levels[0], rules_3
        self._is_coarse = level >= JOINED_LEVEL - 1
        self._share = 1 if len(step.acts) < 2 else 0.6
        self._spares = bool(level)
        if step.acts:
            said = max(most.said, FINDING_CHARS if rules_3 and tells_finding(step) else 0)
        else:
            said = max(REPORT_CHARS if is_report(step) else SPOKEN_CHARS, most.said * SPOKEN_MORE)
        self.said = self._room(step.said, said)

    def _room(self, text: str, chars: int) -> int:
        return room_in(text, chars) if self._rules_3 else chars

    def call(self, act: AccountAct) -> int:
        """Return the room of the call."""
        more = CHANGED_MORE if act.changes and not self._is_coarse else 1
        # that an edit was made is all that its outcome says
        is_edit = self._rules_3 and says_edit(act)
        outcome = int(self._most.outcome * self._share) if is_edit else 0
        least = TASK_LIST_CHARS if self._rules_3 and act.target == TASK_LIST else CALL_CHARS_MIN
        return self._room(act.call, max(least, int(self._most.call * self._share * more) + outcome))

    def outcome(self, act: AccountAct, call: int) -> int:
        """Return the room of the outcome, where the call has *call* characters; the finest step spares none for it."""
        if self._rules_3 and self._spares and says_edit(act):
            return 0
        spare = max(0, self._room(act.call, int(self._most.call * self._share)) - call) if self._spares else 0
        failed = FAILURE_CHARS if self._rules_3 else WHY_CHARS
        least = failed if act.failed else INSTRUCTS_CHARS if act.instructs else 0
        least = max(least, USED_CHARS * (act.used >= USED_MIN))
        if self._rules_3 and is_record(act.outcome):
            least = RECORD_LEAST_CHARS
        if self._rules_3 and is_printed_act(act):
            least = max(least, PRINTED_CHARS)
        room = int(self._most.outcome * self._share) + spare
        if self._rules_3:
            room = min(room, int(self._finest.outcome * self._share))
        room = self._room(act.outcome, max(least, room))
        if self._rules_3 and not self._is_coarse and len(act.outcome) <= room + SMALL_WIN_CHARS:
            return max(room, len(act.outcome))
        return room


def english_chars(text: str) -> int:
    """Return how many characters of plain English say as much as *text*, and cost as much."""
    return len(text) if text.isascii() else len(text) + (DENSE_CHARS - 1) * len(_DENSE.findall(text))


def room_in(text: str, chars: int) -> int:
    """Return the characters of *text* that say as much as *chars* of plain English."""
    return chars if text.isascii() or not text else int(chars * len(text) / english_chars(text))


def is_printed_act(act: AccountAct) -> bool:
    """Tell what was printed, where no call is known for it."""
    return act.call.split(":", 1)[0] == OUTPUT


def says_edit(act: AccountAct) -> bool:
    """Tell whether the call says what was put in the place of something else, and was not refused."""
    return act.changes and not act.failed and bool(newest_of(act.call))


def is_report(step: AccountStep) -> bool:
    """Tell whether the assistant told at length what it had found: that stands for the steps before it."""
    return step.level < JOINED_LEVEL and not step.acts and len(step.said.encode("utf-8", "replace")) >= REPORT_BYTES_MIN


def tells_finding(step: AccountStep) -> bool:
    """Tell whether the assistant said what it had found: longer than what it was about to do, also when it is cut."""
    said = english_chars(step.said)
    return step.level < JOINED_LEVEL and (said >= FINDING_CHARS_MIN or (GAP in step.said and said > CUT_CHARS_MIN))
