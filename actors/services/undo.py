"""Undo: carry out what people and agents ask for beside the actors: expand, and rewind.

A wish is one commit like any other step: decided on the newest state, decided again if another writer was faster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from actors.core.rewind import Views, expand, look, rewind
from actors.core.state import State
from actors.core.text.slices import numbers_of
from actors.runtime.conversations import Conversations
from actors.runtime.fold import Decision, check_place, check_said, count_of, decisions, version_of
from protocol.errors import ArtifactDamaged, Contended, NotFound, Rejected
from protocol.fact_parts import Unspilled
from protocol.facts import ConversationRewound, DoneFact, HistoryExpanded, ToolOutputSpilled
from protocol.ids import Address
from protocol.limits import APPEND_ATTEMPTS_MAX, ENVELOPE_BYTES_MAX
from protocol.service_messages import ExpandAsked, Expanded, Rewound
from storage.ports import Artifacts, EventLog, Record

KEY_DIGITS_MIN = 8
"""Fewer digits may name another artifact of the same conversation."""

Decide = Callable[[State, Sequence[Decision]], Awaitable[DoneFact | None]]


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """Who carries out these wishes."""

    conversations: Conversations
    log: EventLog
    artifacts: Artifacts

    async def expand(self, at: Address, asked: ExpandAsked, *, headers: Mapping[str, str]) -> Expanded:
        """Put messages or an artifact back. Raises `BudgetRefused`, `NotFound`, `Rejected`, `Unavailable`."""
        if bool(asked.messages) == bool(asked.artifact):
            raise Rejected("say what to expand: messages such as 4-9 or #4, or an artifact's key")

        async def decide(state: State, past: Sequence[Decision]) -> HistoryExpanded | None:
            seen = await asyncio.to_thread(_views, past, state)
            if asked.messages:
                first, last = numbers_of(asked.messages)
                return expand(state, seen, first=first, last=last)
            parts = await self._parts(at, state, past, asked.artifact)
            # several messages may hold it: the newest one that a view can show
            number = max(part.number for part in parts)
            parts = tuple(part for part in parts if part.number == number)
            return expand(state, seen, first=number, last=number, parts=parts)

        state, fact = await self._land(at, decide, headers=headers)
        if not isinstance(fact, HistoryExpanded):
            tokens = state.live_tokens
            return Expanded(version=state.version, restored=(), parts=0, before_tokens=tokens, after_tokens=tokens)
        return Expanded(
            version=state.version + 1,
            restored=tuple(one.number for one in fact.restored),
            parts=len(fact.parts),
            before_tokens=fact.before_tokens,
            after_tokens=fact.after_tokens,
        )

    async def rewind(self, at: Address, *, to: int = 0, upto: int = 0, headers: Mapping[str, str]) -> Rewound:
        """Make the context that of version *to* again, or of the newest one within the first *upto* messages.

        Raises `NotFound`, `Rejected`, `Erased`, `Unavailable`.
        """
        check_place(version=to, upto=upto)
        if not (to or upto):
            raise Rejected("say where: version=N, or upto=N for the newest version within the first N messages")
        found = to

        async def decide(state: State, past: Sequence[Decision]) -> ConversationRewound | None:
            nonlocal found
            check_said(at, state, upto=upto)
            earlier = version_of(at, past, version=to, upto=upto)
            found = earlier.commit.version
            return rewind(state, earlier.after)

        state, fact = await self._land(at, decide, headers=headers)
        if not isinstance(fact, ConversationRewound):
            tokens, last = state.live_tokens, state.messages
            return Rewound(
                version=state.version, to_version=found, upto=last, before_tokens=tokens, after_tokens=tokens
            )
        left = [entry.number for entry in state.live if entry.number > fact.upto]
        return Rewound(
            version=state.version + 1,
            left=(left[0], left[-1]) if left else (),
            left_count=len(left),
            to_version=found,
            upto=fact.upto,
            before_tokens=fact.before_tokens,
            after_tokens=fact.after_tokens,
        )

    async def _land(self, at: Address, decide: Decide, *, headers: Mapping[str, str]) -> tuple[State, DoneFact | None]:
        """Decide and commit; return the state that it was decided on, and the fact, None if there is nothing to do."""
        for _ in range(APPEND_ATTEMPTS_MAX):
            state = await self.conversations.living(at)
            if state.policy is None:
                raise NotFound(f"there is no version of {at} yet", address=str(at))
            records = await self.log.read(at, after=0)
            past = await asyncio.to_thread(_upto, at, records, state.version)
            fact = await decide(state, past)
            if fact is None or await self.conversations.commit(at, state, (fact,), headers=headers):
                return state, fact
            await asyncio.sleep(random.uniform(0, 0.05))
        raise Contended(f"other writers of {at} were faster, too often", address=str(at))

    async def _parts(self, at: Address, state: State, past: Sequence[Decision], key: str) -> tuple[Unspilled, ...]:
        """Return the parts that stand in an artifact whose key begins with *key*, in full. Raises `NotFound`."""
        spilled = (fact for one in past for fact in one.commit.facts if isinstance(fact, ToolOutputSpilled))
        found = [fact for fact in spilled if fact.sha256.startswith(key)]
        if len(key) < KEY_DIGITS_MIN:
            raise NotFound(f"of an artifact's key at least {KEY_DIGITS_MIN} digits are needed, not {key!r}", key=key)
        if not found:
            told = f"no part of {at} was moved into an artifact {key!r:.80}; `why` of a message names those made of it"
            raise NotFound(told, key=key)
        entries = {entry.number: entry for one in past for entry in one.before.live} | {
            entry.number: entry for entry in state.live
        }
        parts = []
        for fact in found:
            entry = entries.get(fact.number)
            part = next((one for one in entry.parts if one.pointer == fact.pointer), None) if entry else None
            if part is None:
                continue
            text = await self._uploaded(at, part.sha256) if part.sha256 else ""
            tokens = count_of(state)(text) if text else part.tokens
            parts.append(Unspilled(number=fact.number, pointer=fact.pointer, tokens=tokens, text=text))
            # what stands in no view for itself left with this part, and comes back with it
            gone = {one.pointer for one in entry.shown if not one.raw} if entry and part.kind == "text" else set()
            for other in (one for one in entry.parts if one.pointer in gone) if entry else ():
                whole = await self._uploaded(at, other.sha256) if other.sha256 and other.kind == "text" else ""
                parts.append(Unspilled(number=fact.number, pointer=other.pointer, tokens=other.tokens, text=whole))
        if not parts:
            raise NotFound(f"no view ever showed the message of artifact {key!r:.80}", key=key)
        return tuple(parts)

    async def _uploaded(self, at: Address, sha256: str) -> str:
        body = await self.artifacts.get(at.tenant, sha256)
        if len(body) > ENVELOPE_BYTES_MAX:
            raise Rejected(
                f"the upload has {len(body):,} bytes; a fact can hold {ENVELOPE_BYTES_MAX:,}: read slices",
                bytes=len(body),
            )
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise ArtifactDamaged(f"artifact {sha256[:16]} is no text", sha256=sha256) from None


def _views(past: Sequence[Decision], state: State) -> Views:
    """Return the units that the views before *state*, and its own, have shown."""
    seen: Views = {}
    live = None
    for one in (*(decision.before for decision in past), state):
        if one.live is not live:
            look(seen, one)
            live = one.live
    return seen


def _upto(at: Address, records: Sequence[Record], version: int) -> list[Decision]:
    return [one for one in decisions(at, records) if one.commit.version <= version]
