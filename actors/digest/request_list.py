"""The requests of one account: each that leaves the view is added, within their room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from actors.core.account_text import FORM, first_request, request_text
from actors.core.entry import Entry
from actors.core.message_texts import redacted_texts, without_lead
from actors.core.pressure import fixed_tokens, moving_tokens
from actors.core.request_marks import (
    ABOVE,
    ABOVE_BEFORE,
    BELOW,
    OLDER_BELOW,
    as_said,
    may_refer,
    own_words,
    question_in,
    reference_to,
    stands_elsewhere,
    with_attached,
    with_question,
    with_reminder,
)
from actors.core.shrink import water_levels
from actors.core.state import State
from actors.core.text.attached import Attached, parted, told_lines
from actors.core.text.count import Count
from actors.core.text.excerpt import excerpt
from actors.core.text.gaps import GAP
from actors.core.text.line_worths import WORD, Seeker
from actors.core.text.spoken import REMINDER_CHARS_MIN, is_reminder, reminders_in, spoken
from actors.core.units import Unit, speaks
from protocol.account import Account, AccountRequest
from protocol.policy import share_of

from .answers import questions_before
from .calls import is_run, speaker_of
from .repeated_requests import (
    REFERRED_CHARS_MIN,
    Staying,
    folded,
    referring,
    said_again,
    said_before,
    staying_of,
    with_lines_of,
    without_repeats,
)
from .requests import REQUEST_TOKENS, Known, Used, shortened, within
from .shorter_requests import not_used

REQUESTS_SHARE, REQUESTS_SHARE_MAX = 0.3, 0.6
"""Of what the instructions leave of the budget: what the user said, together; more where it is more of what was said,
as where somebody talks with an assistant that has no tools."""

WHOLE_SHARE = 0.45
"""The same where that is enough for all that the user said."""

SAID_TOKENS_MAX = 400
"""Of a message, that count for that: what is longer is a task, or was pasted, and stands among others' words."""

REMINDER_CHARS = 600
"""Of what a program reminds of around a person's words: a project's instructions, what a hook adds."""

ATTACHED_SHARE, ATTACHED_FIRST_SHARE = 0.1, 0.3
"""Of that room, for files and pages that a program put beside a message; of the first one they are much of the task."""

NAMES_MAX = 8
"""Of them, that are named."""

WORD_CHARS_MIN = 3
"""Of a person's word that is sought there."""

PATTERN_SHARE = 0.2
"""Of that room: what was pasted and has words of a later request, as a demonstration of how to do such a task has."""


@dataclass(kw_only=True)
class RequestList:
    """What the user said in messages that are gone, and how many tokens it takes."""

    count: Count
    room: int
    rules_3: bool
    """Whether the rules in force are those that refer to repeats only where that is shorter."""
    staying: dict[int, Entry]
    """Messages of the user that are in the view, by their numbers."""
    requests: list[AccountRequest]
    left_out: int
    left_out_through: int
    used: Used = not_used
    """Tells what of them the assistant said later."""
    questions: dict[int, tuple[int, str]] = field(default_factory=dict)
    """What messages of the user that are in the view answer, by their numbers: in which message, and the question."""
    tokens: int = 0
    """Of their lines."""
    _bare_tokens: int = 0
    """Without their numbers."""
    _whole: dict[int, Staying] = field(default_factory=dict)
    """Those of `staying` that are as they were said, by their numbers: all that leaves is held against them."""
    _may_refer: bool = False
    """Whether one of them may refer to a message that stays: most never do."""
    _known: Known = field(init=False)
    _asked: set[str] = field(default_factory=set)
    """What they say, and said before they were shortened, folded: with one that is not here none need be compared."""

    def __post_init__(self) -> None:
        self._known = Known(rules_3=self.rules_3)

    @classmethod
    def of(cls, state: State, count: Count) -> RequestList:
        assert state.policy is not None
        before = state.digest.account if state.digest else None
        rules_3 = state.policy.digest.rules_3
        users = [entry for entry in state.live if speaks(entry) and not entry.leading]
        # what a program printed becomes a step: no request refers to it
        users = [entry for entry in users if not (rules_3 and is_run((entry,)))]
        known = cls(
            count=count,
            room=share_of(moving_tokens(state), REQUESTS_SHARE),
            rules_3=rules_3,
            staying={entry.number: entry for entry in users},
            requests=_said_before(state, rules_3),
            left_out=before.requests_left_out if before else 0,
            left_out_through=before.left_out_through if before else 0,
        )
        if rules_3:
            known.questions = _questions(state)
        known._refer()
        known._measure()
        if rules_3:
            # how much of all that is said they are, is known only once they refer to what stays
            known.room = known._grown(state)
        return known

    def _grown(self, state: State) -> int:
        """Return the room of requests that are much of what is said in *state*, and that no model retells."""
        assert state.policy is not None
        if state.policy.squeeze.retells_requests:
            return self.room
        sizes = [*(self.count(one.text) for one in self.requests), *(one.tokens for one in self.staying.values())]
        said = sum(min(size, SAID_TOKENS_MAX) for size in sizes)
        share = min(REQUESTS_SHARE_MAX, said / max(1, state.live_tokens - fixed_tokens(state)))
        moving = moving_tokens(state)
        # what a user says is told by nobody else, so that all of it has room before others have more than half
        return max(share_of(moving, max(REQUESTS_SHARE, share)), min(said, share_of(moving, WHOLE_SHARE)))

    def left_to_steps(self, room: int, moving: int) -> int:
        """Return the tokens that stay of the *room* of steps where requests have more than usual of *moving* ones."""
        usual = share_of(moving, REQUESTS_SHARE)
        more = max(0, self.room - usual)
        return room - room * more // max(1, moving - usual)

    def add(self, unit: Unit) -> None:
        """Take *unit*, which the user said, and which leaves the view."""
        request = _request(unit.entries[0], unit.entries)
        if self.rules_3:
            _, question = self.questions.get(request.number, (0, ""))
            request = msgspec.structs.replace(request, text=with_question(as_said(request.text), question))
        self.staying.pop(request.number, None)
        # others refer to its lines as they were said
        self._tell_again(request)
        self.take(self.spoken(request), self._beside(unit))

    def take(self, request: AccountRequest, beside: Sequence[AccountRequest] = ()) -> None:
        """Take *request*, without what others of them say, and what those that stay *beside* it say."""
        before = self.requests
        said = said_before(request.text, before) if folded(request.text) in self._asked else None
        if said is not None:
            self.requests[said] = said_again(before[said], request.number)
            self._measure()
            return
        least = REFERRED_CHARS_MIN if self.rules_3 else 0
        request = without_repeats(request, before, least=least)
        if beside:
            whole = request.text
            request = without_repeats(request, beside, least=least)
            if request.text != whole:
                request = shortened(
                    request, share_of(self.room, PATTERN_SHARE), self.count, used=self.used, rules_3=self.rules_3
                )
        request = referring(request, self._standing_whole())
        self._may_refer = self._may_refer or may_refer(request.text)
        self._asked.add(folded(request.text))
        asked = self._bare_tokens + self.count(request.text) + REQUEST_TOKENS
        if asked <= self.room:
            self.requests = [*before, request]
            self._bare_tokens = asked
            self.tokens += self.count(request_text(request)) + 1
            return
        self.requests = list(
            within(
                (*before, request),
                self.room,
                count=self.count,
                used=self.used,
                rules_3=self.rules_3,
                known=self._known,
            )
        )
        self._asked.update(folded(one.text) for one in set(self.requests).difference(before))
        self._bare_tokens = sum(self.count(one.text) + REQUEST_TOKENS for one in self.requests)
        there = {one.number for one in self.requests}
        gone = [one.number for one in (*before, request) if one.number not in there]
        self.left_out += len(gone)
        self.left_out_through = max([self.left_out_through, *gone])
        self._measure()

    def spoken(self, request: AccountRequest) -> AccountRequest:
        """Return *request* without what a program put around a person's words; of long reminders some lines stay."""
        if not self.rules_3:
            return request
        text = own_words(request.text)
        shown = without_lead(text)
        lead = text.removesuffix(shown)
        bare, attached = parted(shown)
        said = spoken(bare)
        # where what a person said is shown whole, no pointer to the rest is needed
        text = bare if said != shown and GAP not in said else f"{lead}{bare}"
        # what stood in the frame may look like a mark of ours, too
        alone = is_reminder(text)
        said = "" if alone and len(text) >= REMINDER_CHARS_MIN else as_said(spoken(text))
        if attached:
            said = "\n".join([said, *self._attached(request.number, said, attached)])
        if (reminder := reminders_in(text)) and not (alone and said):
            short = excerpt(reminder, chars=REMINDER_CHARS, sought=_nothing_sought, clauses=True)
            said = f"{said}\n{with_reminder(short)}".lstrip("\n")
        return msgspec.structs.replace(request, text=with_question(said, question_in(request.text)))

    def _attached(self, number: int, words: str, attached: Sequence[Attached]) -> Iterator[str]:
        """Yield the lines of each file that is *attached* to message *number*: first those with its *words*."""
        sizes = [len(one.text) for one in attached]
        share = ATTACHED_SHARE if self.requests else ATTACHED_FIRST_SHARE
        room = share_of(self.room, share) * sum(sizes) // max(1, sum(self.count(one.text) for one in attached))
        own = {word.casefold() for word in WORD.findall(words) if len(word) >= WORD_CHARS_MIN or word.isdigit()}
        sought = Seeker(lambda asked: [float(word in own) for word in asked])
        levels = water_levels(sizes, [1] * len(sizes), room)
        for one, size, level in zip(attached, sizes, levels, strict=True):
            text = told_lines(one.text)
            short = text if len(text) <= level else excerpt(text, chars=int(level), sought=sought)
            yield with_attached(number, one.names[:NAMES_MAX], 0 if one.is_cut else size, short)

    def told(self, through: int, gone: Collection[int]) -> Account:
        """Return an account of nothing but them; of those that stay, it says where they stand.

        Of those behind *through* that is said where the question that they answer is among what is *gone*, or was.
        """
        first = first_request(Account(requests=tuple(self.requests))) if self.rules_3 else 0
        stays = [number for number in self.staying if number <= through and number not in gone]
        above = ABOVE if self.rules_3 else ABOVE_BEFORE
        elsewhere = [self._elsewhere(number, OLDER_BELOW if 0 < first < number else above) for number in stays]
        answers = ((number, self.questions.get(number, (through + 1, ""))[0]) for number in self.staying)
        elsewhere += [
            self._elsewhere(number, BELOW)
            for number, asked in answers
            if number > through and (asked in gone or not asked)
        ]
        return Account(
            requests=tuple(sorted((*self.requests, *elsewhere), key=lambda one: one.number)),
            requests_left_out=self.left_out,
            left_out_through=self.left_out_through,
        )

    def _elsewhere(self, number: int, where: str) -> AccountRequest:
        """Return the line of message *number*, which stays: *where* it stands, and what it answers."""
        _, question = self.questions.get(number, (0, ""))
        return AccountRequest(number=number, text=with_question(where, question))

    def _refer(self) -> None:
        """Let the requests refer to messages of the user's that stay as they were said, for lines that these have.

        Many agents put the same instructions behind everything that a user says.
        """
        whole = self._standing_whole()
        lines = frozenset(line for one in whole for line in one.once)
        # most have no line in common with any
        self._put([one if lines.isdisjoint(one.text.split("\n")) else referring(one, whole) for one in self.requests])

    def _standing_whole(self) -> list[Staying]:
        some = [entry for entry in self.staying.values() if self.rules_3 and not entry.shown]
        for entry in some:
            if entry.number not in self._whole:
                one = _request(entry, [entry])
                # its lines are counted as they will stand in the account
                self._whole[entry.number] = staying_of(msgspec.structs.replace(one, text=as_said(one.text)))
        return [self._whole[entry.number] for entry in some]

    def _tell_again(self, leaving: AccountRequest) -> None:
        """Let the requests that refer to *leaving* tell its lines themselves again: it may be shortened, or leave."""
        reference = reference_to(leaving.number)
        if self.rules_3 and self._may_refer and any(reference in one.text for one in self.requests):
            self._put([with_lines_of(one, leaving) if reference in one.text else one for one in self.requests])
            self._refer()
            self._measure()

    def _put(self, requests: list[AccountRequest]) -> None:
        self.requests = requests
        self._bare_tokens = sum(self.count(one.text) + REQUEST_TOKENS for one in requests)
        self._asked = {folded(one.text) for one in requests}
        self._may_refer = any(may_refer(one.text) for one in requests)

    def _beside(self, unit: Unit) -> list[AccountRequest]:
        """Return the requests that stay, beside a *unit* that was pasted: a demonstration often has words of the task.

        What was not pasted may be the task, and refers to nothing that may leave before it.
        """
        if not self.rules_3 or not any(entry.shown and not entry.results for entry in unit.entries):
            return []
        return [_request(entry, [entry]) for entry in self.staying.values()]

    def _measure(self) -> None:
        self.tokens = sum(self.count(request_text(one)) + 1 for one in self.requests)


_nothing_sought = Seeker(lambda words: [0.0] * len(words))


def _said_before(state: State, rules_3: bool) -> list[AccountRequest]:
    """Return the requests of the account in *state* but for those that stand in the view, by the marks of its form.

    With *rules_3* what a user said under older rules, and that looks like a mark of today, is put in quotes.
    """
    if not state.digest or not state.digest.account:
        return []
    requests = state.digest.account.requests
    if state.digest.form >= FORM:
        return [one for one in requests if not stands_elsewhere(one.text)]
    requests = tuple(one for one in requests if one.text != ABOVE_BEFORE)
    return [msgspec.structs.replace(one, text=as_said(one.text)) for one in requests] if rules_3 else [*requests]


def _questions(state: State) -> dict[int, tuple[int, str]]:
    """Return the questions that messages of the user in *state* answer, and in which message each stands.

    The number is 0 where the question left before: then the account says it.
    """
    digest = state.digest
    told = digest.account.requests if digest and digest.account and digest.form >= FORM else ()
    known = [one for one in told if stands_elsewhere(one.text)]
    out = {one.number: (0, question) for one in known if (question := question_in(one.text))}
    return {number: (asked, question) for number, asked, question in questions_before(state.live)} | out


def _request(first: Entry, entries: Collection[Entry]) -> AccountRequest:
    text = "\n".join(part.text.strip() for part in redacted_texts(entries) if part.trust != "tool")
    return AccountRequest(number=first.number, text=text, speaker=speaker_of(first))
