"""Ladder: a compaction goes down a ladder, each rung only as far as the target needs.

Old results are shortened in place to their outcome; then old units become steps of the account; then old steps become
coarser and are joined. The agent's own words and the arguments of its calls go last; what the user said is kept
longest, within a share of the room.
Work is linear: a compaction reads what is live and the account before it, never older messages again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from actors.core.account_text import FORM, FORM_BEFORE, account_text
from actors.core.cut_plan import results_go_first
from actors.core.entry import MESSAGE_TOKENS, Entry
from actors.core.ledger import Ledger
from actors.core.message_texts import redacted_texts, texts_of
from actors.core.observations import with_calls
from actors.core.pins import pinned_numbers
from actors.core.pressure import fixed_tokens, gain_tokens_min, moving_tokens, target_tokens
from actors.core.request_marks import as_said as as_request
from actors.core.shrink import shrinkable_tokens
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.text.notices import is_notice
from actors.core.units import Unit, instructions, units
from protocol.account import Account, AccountRequest
from protocol.policy import share_of

from .account_steps import is_cut, step_of
from .calls import as_said, is_run
from .goal import SMALL_TOKENS, TAIL_SHARE, goal_tokens, tail_units
from .hindsight import Hindsight
from .relayed import relayed, said_beside
from .request_list import RequestList
from .step_list import AccountSteps
from .step_rooms import LevelChars, level_chars, rate_before, rate_of
from .tail import keeps_by_name, kept_tail
from .trims import Trims, winnable_tokens
from .values import values_beside

VALUES_SHARE, VALUES_SHARE_BEFORE = 0.03, 0.055
"""Of what the instructions leave of the budget: values that no step tells, each with what it stood beside. With more,
as older rules have it, most of them are of no use to those who read a view, and steps are coarser."""

REWRITTEN_SHARE = 0.8
"""Of the account's room: how far it is written anew when that is used up; until then it only grows at its end."""

LEAST_SHARE, LEAST_SHARE_BEFORE = 0.5, 0.4
"""Of the account's room: so much the steps keep, though the target is lower; then the newest units give way."""

REACHED_SHARE = 0.6
"""The same, where the target is reached, and only the next compaction would come sooner: halfway from the least
share to that of a rewritten account."""

SPARE_TOKENS_MIN = 160
"""Left of the target after the last rung, from which on more is told of what was shortened last."""

SPARE_CHARS = 3
"""Characters that a spare token has room for, at most: what does not fit is taken back."""

ANEW_STEPS_MAX = 400
"""Steps that are told anew, at most: to join them takes time by the square of their number."""

STEPS_MIN = 2
"""Steps that an account keeps, so that one can be made coarser where its text costs more than was estimated."""

TOLD_MORE_MAX = 4
"""Steps of which more is told, the newest that were shortened; and units whose results are."""

LESS_SHARES = (1.0, 0.6, 0.3, 0.15)
"""Of what is spare, tried for results that were shortened: the most that fits."""

FIRST_TRIM_FACTOR = 4
"""Results are first shortened to so many times the characters of an outcome, and in a second walk to these."""

HARD_SHARE = 0.8
"""Of the usable tokens: up to here the newest units stay whole, though the target is lower."""

TRIES_MAX, TITLES_TOKENS = 4, 20


@dataclass(kw_only=True)
class Ladder:
    """One walk down: what is left of the live units, and what the account says by now."""

    state: State
    count: Count
    older: tuple[Unit, ...]
    """Units that may leave, the oldest first; at the end those of the tail but the newest one."""
    tail: int
    """How many of them are the tail's."""
    hindsight: Hindsight
    levels: tuple[LevelChars, ...]
    room: int
    """Tokens of the steps."""
    whole_tokens: int
    """Of all that stays beside the digest, as long as it was."""
    trims: Trims
    requests: RequestList
    steps: AccountSteps
    rate: float = 0.0
    """Tokens of a character of the steps before."""
    leaving: list[Entry] = field(default_factory=list)
    prose: str = ""
    prose_tokens: int = 0
    values_room: int = 0
    """Tokens of the values that no step tells."""
    heard: set[int] = field(default_factory=set)
    """The units that left in whose results the user speaks, by the message they begin with."""
    left: dict[int, Unit] = field(default_factory=dict)
    """The units that became steps now, by the message they begin with."""

    @classmethod
    def of(cls, state: State, count: Count) -> Ladder:
        assert state.policy is not None
        before = state.digest.account if state.digest else None
        pins = pinned_numbers(state, state.live)
        every = units(state.live)[len(instructions(state.live)) :]
        free = [unit for unit in every[:-1] if not any(entry.number in pins for entry in unit.entries)]
        room = share_of(max(0, goal_tokens(state) - fixed_tokens(state)), TAIL_SHARE)
        if keeps_by_name(state):
            kept = kept_tail(state, pins)
            free = [unit for unit in free if not kept or unit.first < kept[0].first]
            tail = 0
        else:
            tail = tail_units(every, free, room)
        requests = RequestList.of(state, count)
        prose = state.digest.prose if state.digest else ""
        prose_tokens = count(prose)
        room_tokens = max(0, share_of(moving_tokens(state), state.policy.digest.cap) - prose_tokens)
        rules_3 = state.policy.digest.rules_3
        if rules_3:
            room_tokens = requests.left_to_steps(room_tokens, moving_tokens(state))
        steps_before = before.steps if before else ()
        hindsight = Hindsight.of(state.live, requests.requests, rules_3=rules_3, before=steps_before)
        requests.used = hindsight.used
        levels = level_chars(room_tokens)
        ladder = cls(
            state=state,
            count=count,
            older=tuple(free),
            tail=tail,
            hindsight=hindsight,
            levels=levels,
            steps=AccountSteps(count=count, hindsight=hindsight, levels=levels),
            room=room_tokens,
            whole_tokens=state.live_tokens - (state.digest.tokens if state.digest else 0),
            trims=Trims(hindsight=hindsight, count=count),
            requests=requests,
            prose=prose,
            prose_tokens=prose_tokens,
            values_room=share_of(moving_tokens(state), VALUES_SHARE if rules_3 else VALUES_SHARE_BEFORE),
        )
        if state.digest and before:
            ladder.rate = rate_before(before, state.digest.tokens - requests.tokens - prose_tokens)
        for step in before.steps if before else ():
            ladder.steps.add(step, rate=ladder.rate)
        return ladder

    @property
    def form(self) -> int:
        """Return the form of the account's text."""
        return FORM if self.hindsight.rules_3 else FORM_BEFORE

    @property
    def staying_tokens(self) -> int:
        """Return the tokens of all that stays beside the digest."""
        return self.whole_tokens - self.trims.saved_tokens

    @property
    def tokens(self) -> int:
        """Return the tokens of a view by now, about."""
        told = self.prose_tokens + self.requests.tokens + self.steps.tokens + self.values_room + 100
        return self.staying_tokens + (told if self.leaving or self.state.digest else 0)

    def descend(self) -> None:
        """Go down until the target is reached, then up as far as there is room: rungs win more than was needed."""
        target = goal_tokens(self.state)
        old = self.older[: len(self.older) - self.tail]
        self._descend(old, target)
        if self.tokens > target:
            self.steps.rewrite(max(self._kept_tokens(), self.steps.tokens - (self.tokens - target)))
        # the newest units are shortened only where the view would be near its end
        self._descend(self.older[len(old) :], max(target, share_of(self.state.usable_tokens, HARD_SHARE)))
        if self.hindsight.rules_3:
            assert self.state.policy is not None
            if self.state.policy.squeeze.way == "off":
                # a model's prose will need the room
                self._stay_again(target)
            self._tell_anew(target)
            self.steps.write()
        self._tell_more(target)

    def _kept_tokens(self) -> int:
        """Return the tokens that the steps keep: fewer where the target itself is not reached with more."""
        least = self._least()
        if not self.hindsight.rules_3:
            return least
        reaching = target_tokens(self.state) - (self.tokens - self.steps.tokens)
        return max(least, min(reaching, share_of(self.room, REACHED_SHARE)))

    def _least(self) -> int:
        """Return the tokens that the steps keep; more where cut must shorten the newest results in any case."""
        share = LEAST_SHARE if self.hindsight.rules_3 else LEAST_SHARE_BEFORE
        least, usable = share_of(self.room, share), self.state.usable_tokens
        is_over = self.tokens - self.steps.tokens + least > usable and results_go_first(self.state, usable)
        return share_of(self.room, REACHED_SHARE) if is_over else least

    def _stay_again(self, target: int) -> None:
        """Let the newest units that left stay after all, where *target* has room for them: their steps won little.

        The others keep their least share. The oldest does not stay: an account is written only where something leaves.
        """
        least = share_of(self.room, LEAST_SHARE)
        while len(self.left) > 1 and len(self.steps.steps) > STEPS_MIN:
            unit = self.left[first := max(self.left)]
            step, size = self.steps.steps[-1], self.steps.sizes[-1]
            more = unit.tokens - size
            is_newest = self.leaving[-1].number == unit.last and step.first == first
            wanted = max(0, least - (self.steps.tokens - size)) + TITLES_TOKENS
            if not is_newest or first in self.heard or more > max(0, target - self.tokens - wanted):
                return
            del self.left[first], self.leaving[-len(unit.entries) :]
            self.steps.drop_newest()
            self.whole_tokens += unit.tokens

    def _tell_anew(self, target: int) -> None:
        """Make the steps coarser once more, from the finest, where they went far below their room on the way down."""
        share = 1 - (1 - REWRITTEN_SHARE) * min(1.0, moving_tokens(self.state) / SMALL_TOKENS)
        room = min(self.steps.tokens + target - self.tokens, share_of(self.room, share))
        far_below = room - self.steps.tokens >= SPARE_TOKENS_MIN
        if far_below and self.steps.rewritten and len(self.steps.finest) <= ANEW_STEPS_MAX:
            self.steps = self.steps.anew(room)

    def _tell_more(self, target: int) -> None:
        """Tell more of what was shortened last, where that went far below *target*: rungs are coarse."""
        spare = target - self.tokens
        if spare < SPARE_TOKENS_MIN:
            return
        if self.left:
            self._tell_more_of_steps(min(spare, self.room - self.steps.tokens))
        elif self.hindsight.rules_3:
            self._trim_less(target)
        elif self.trims.last is not None:
            self.trims.lengthen(self.trims.last, SPARE_CHARS * spare, spare)

    def _trim_less(self, target: int) -> None:
        """Shorten the newest results that were shortened less, or not at all, as far as *target* has room for them."""
        units = [unit for unit in self.older if any(entry.number in self.trims.of for entry in unit.entries)]
        for unit in reversed(units[-TOLD_MORE_MAX:]):
            for share in LESS_SHARES:
                spare = target - self.tokens
                if spare >= SPARE_TOKENS_MIN:
                    self.trims.lengthen(unit, int(SPARE_CHARS * spare * share), spare)

    def _tell_more_of_steps(self, spare: int) -> None:
        """Tell more of what the newest steps returned, in *spare* tokens together."""
        finest, *others = self.levels
        steps = [(place, step) for place, step in enumerate(self.steps.steps) if step.first in self.left]
        cut = [(place, step) for place, step in steps if not step.level and is_cut(step)][-TOLD_MORE_MAX:]
        for number, (place, step) in enumerate(cut):
            before = self.steps.tokens
            more = SPARE_CHARS * spare // (len(cut) - number)
            if more <= 0:
                return
            most = msgspec.structs.replace(finest, outcome=finest.outcome + more)
            self.steps.put(slice(place, place + 1), step_of(self.left[step.first], self.hindsight, (most, *others)))
            if self.steps.tokens - before > spare:
                self.steps.put(slice(place, place + 1), step)
            spare -= self.steps.tokens - before

    def _descend(self, some: Sequence[Unit], target: int) -> None:
        chars = self.levels[0].outcome
        # what leaves is estimated; older rules, which a release still writes while it goes out, shorten all first
        sooner = self._leave_sooner(some, target) if self.hindsight.rules_3 else 0
        if sooner:
            some = some[sooner:]
        for most in (FIRST_TRIM_FACTOR * chars, chars):
            for unit in some:
                if self.tokens <= target and not sooner:
                    return
                self.trims.shorten(unit, most)
        for unit in some:
            if self.tokens <= target:
                return
            self._leave(unit)

    def _leave_sooner(self, some: Sequence[Unit], target: int) -> int:
        """Let those of *some* leave at once that would leave however short the others are; return how many."""
        wins = [winnable_tokens(unit, self.levels[0].outcome) for unit in some]
        left = sum(wins)
        for place, unit in enumerate(some):
            if self.tokens - left <= target:
                return place
            self._leave(unit)
            left -= wins[place]
        return len(some)

    def _leave(self, unit: Unit) -> None:
        """Let *unit* become a step of the account, or a request."""
        for entry in unit.entries:
            self.trims.forget(entry)
            self.whole_tokens -= entry.tokens
            self.leaving.append(entry)
        if unit.opens_block and not (self.hindsight.rules_3 and is_run(unit.entries)):
            self.requests.add(unit)
            return
        self._hear(unit)
        step = step_of(unit, self.hindsight, self.levels)
        if not step.said and not step.acts:
            return
        self.left[step.first] = unit
        self.steps.add(step, rate=rate_of(unit, step))
        if self.steps.tokens > self.room:
            self.steps.rewrite(share_of(self.room, REWRITTEN_SHARE))

    def _hear(self, unit: Unit) -> None:
        """Take into the requests what the user says in the results of *unit*."""
        if not self.hindsight.rules_3:
            return
        parts = with_calls(redacted_texts(map(as_said, unit.entries)), unit.entries)
        said = [AccountRequest(number=one.number, text=one.text) for one in relayed(parts)]
        beside = () if unit.opens_block else said_beside(parts)
        said += [
            self.requests.spoken(AccountRequest(number=part.number, text=as_request(part.text)))
            for part in beside
            if not is_notice(part.text)
        ]
        for request in said:
            self.requests.take(request)
            self.heard.add(unit.first)

    def leaves_more(self, tokens: int) -> bool:
        """Let the oldest unit that stays leave where a view of *tokens* is over the target: cut would not tell it.

        What an account costs is known only when it is written.
        """
        if not self.hindsight.rules_3 or tokens <= target_tokens(self.state):
            return False
        gone = self.leaving[-1].number if self.leaving else 0
        unit = next((unit for unit in self.older if unit.first > gone), None)
        if unit is None:
            return False
        self._leave(unit)
        self.steps.write()
        return True

    def told_room(self) -> int:
        """Return the tokens of the account: what the target leaves, or more where it leaves less than steps keep.

        What fills a view is often one result that can be shortened with the next answer; what steps lose is lost.
        """
        room = target_tokens(self.state) - self.staying_tokens
        if not self.hindsight.rules_3:
            return room
        kept = self.tokens - self.staying_tokens - max(0, self.steps.tokens - self._least())
        # cut shortens results of the newest units then, which are answered soon
        fits = self.state.usable_tokens - self.staying_tokens
        if results_go_first(self.state, self.state.usable_tokens):
            fits += shrinkable_tokens([entry for entry in self.state.live if entry not in self.leaving])
        wins = self.state.live_tokens - self.staying_tokens - gain_tokens_min(self.state)
        return max(room, min(kept, fits, wins))

    def told_within(self, room: int, through: int, known: Ledger) -> tuple[Account, int]:
        """Return the account, and its tokens: at most *room*, if making the steps coarser can do that."""
        for _ in range(TRIES_MAX):
            told = self.told(through, known)
            tokens = self.count(account_text(told, prose=self.prose, through=through, form=self.form)) + MESSAGE_TOKENS
            if tokens <= room or len(self.steps.steps) < 2:
                break
            # what a text costs is known only when it is written: titles and joints are estimated before
            self.steps.rewrite(self.steps.tokens - (tokens - room) - TITLES_TOKENS)
            self.steps.write()
        return told, tokens

    def told(self, through: int, known: Ledger) -> Account:
        """Return the account up to message *through*; of what a user said and stays, it says where that stands."""
        gone = frozenset(entry.number for entry in self.leaving)
        account = msgspec.structs.replace(self.requests.told(through, gone), steps=tuple(self.steps.steps))
        before = self.state.digest.account if self.state.digest else None
        staying = [part.text for part in texts_of(entry for entry in self.state.live if entry.number not in gone)]
        values = values_beside(
            known,
            self.leaving,
            before.values if before else (),
            told=account,
            standing="\n".join((account_text(account, prose=self.prose, through=through, form=self.form), *staying)),
            room=self.values_room,
            count=self.count,
            rules_3=self.hindsight.rules_3,
        )
        return msgspec.structs.replace(account, values=values)
