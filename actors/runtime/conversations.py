"""Conversations: load a state from snapshot and log, keep it warm, commit to it.

`commit` seals a step (`core/seal.py`) and appends it (`storage/jetstream.py`); snapshots are in `kept_states.py`.
The log is the truth; a warm state only saves reading. A state is never patched in place: after a commit
the tail is read again, because an agent may have spoken between our reading and our writing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from cachetools import LRUCache

from actors.core.seal import sealed
from actors.core.state import State
from actors.model_info.tokens import tokenizer_for
from protocol import codec
from protocol import policy as policies
from protocol.errors import BadEnvelope, ChainBroken, LogRegression, NotReady, PastNeeded
from protocol.facts import ConversationRepaired, DoneFact
from protocol.ids import Address
from protocol.limits import SNAPSHOT_COMMITS
from storage.ports import EventLog, Record, Snapshots

from .fold import fold, folded, tokens_of
from .handed import Handed, check
from .kept_states import KeptStates

log = logging.getLogger("jettison.conversations")

WARM_MAX = 512
"""Conversations whose state a process keeps, where they are small."""

WARM_TOKENS_MAX = 16_000_000
"""Tokens of all kept states together, some 220 MB: a token takes about 14 bytes with all that is known of it. What does
not grow with the window, the ledger first of all, takes up to 0.4 MB of each conversation."""

BYTES_AT_ONCE_MAX = 65_536
"""Folded on the loop itself, a few milliseconds; more gets a thread, and other conversations go on."""


WHAT_TO_DO = (
    "what is kept of {at} is damaged: ask an operator, who sees it with `jettison verify {at}` and mends it with "
    "`jettison repair {at}`"
)


COPIED_HEADER = "Jettison-Copied"
"""On the first record of a log that is written as a copy: how many records the copy has."""


class Conversations:
    """All conversations that this process works on."""

    def __init__(self, *, log: EventLog, snapshots: Snapshots, writer: str, rules: str = "") -> None:
        self._log = log
        self._kept = KeptStates(log=log, snapshots=snapshots)
        self._writer = writer
        self.rules = rules or codec.RULES_VERSION
        """The version of the rules that this process decides by, and that its commits say."""
        self._doubted: LRUCache[Address, Handed] = LRUCache(WARM_MAX)
        """What was handed over and is not in the log: nothing is written to it."""
        self._warm: LRUCache[Address, State] = LRUCache(WARM_TOKENS_MAX, getsizeof=_warm_tokens)

    async def receive(self, at: Address, given: Handed | None) -> State:
        """Return the state at the head of the log, which must go over the one that was *given* along, if one was.

        Raises as `load`; from then on nothing is written to *at* before the log has what was handed over.
        """
        warm = self._warm.get(at)
        if given is not None and warm is not None and given.version > warm.version + SNAPSHOT_COMMITS:
            # this process was away for long: a snapshot was kept since
            kept = await self._kept.newest(at)
            self._warm[at] = kept if kept.seq > warm.seq else warm
        state = await self.load(at)
        if given is not None:
            self._doubted[at] = given
            await self._settle_doubt(at, state)
        return state

    async def load(self, at: Address) -> State:
        """Return the state at the head of the log.

        Raises `LogUnavailable`, `ChainBroken`, `LogRegression`, `BadEnvelope` (damaged, or of a newer writer).
        """
        try:
            return await self._loaded(at)
        except (ChainBroken, LogRegression, BadEnvelope) as error:
            # agents are told this too, and can do nothing about it themselves
            raise type(error)(f"{error}; {WHAT_TO_DO.format(at=at)}", **{"address": str(at), **error.fields}) from None

    async def _settle_doubt(self, at: Address, state: State) -> None:
        """Raise what is wrong with a state that was handed over, until the log says that it is right."""
        doubted = self._doubted.get(at)
        if doubted is None:
            return
        try:
            await check(self._log, at, state, doubted)
        except (ChainBroken, LogRegression) as error:
            raise type(error)(f"{error}; {WHAT_TO_DO.format(at=at)}", **error.fields) from None
        self._doubted.pop(at, None)

    async def _loaded(self, at: Address) -> State:
        state = self._warm.get(at)  # not taken out: four actors and a service load at the same time
        if state is None:
            state = await self._kept.newest(at)
        missing = 0
        try:
            async for records in self._log.batches(at, after=state.seq):
                missing = _missing(records, missing, fresh=not state.seq)
                large = sum(len(record.body) for record in records) > BYTES_AT_ONCE_MAX
                state = await asyncio.to_thread(fold, state, records) if large else fold(state, records)
        except ChainBroken as error:
            records = await self._log.read(at, after=0)
            if not isinstance(error, PastNeeded) and not _repaired_behind(records, state.seq):
                raise
            state = await asyncio.to_thread(folded, at, records)
        if missing > 0:
            raise NotReady(f"{at} is being written: {missing} records of a copy are to come", copying=missing)
        known = self._warm.get(at)
        if known is None or known.seq <= state.seq:
            self._warm[at] = state
        return state

    def is_warm(self, at: Address) -> bool:
        """Tell whether this process has folded *at* before."""
        return at in self._warm

    async def commit(
        self,
        at: Address,
        state: State,
        facts: tuple[DoneFact, ...],
        *,
        headers: Mapping[str, str],
        adopt: policies.Policy | None = None,
    ) -> bool:
        """Append one step that was decided on *state*; false if another came first: load and decide again."""
        await self._settle_doubt(at, state)
        tokenizer = tokenizer_for(state.terms.model).id
        commit = sealed(state, facts, rules=self.rules, writer=self._writer, tokenizer=tokenizer, adopt=adopt)
        body = codec.encode_commit(commit)
        seq = await self._log.append(
            at, body, expected_seq=state.position.done_seq, commit_id=commit.commit_id, headers=headers
        )
        if seq and commit.version % SNAPSHOT_COMMITS == 0:
            await self._kept.keep(at, await self.load(at))
        return seq is not None

    async def renew(self, at: Address) -> None:
        """Fold the whole log of *at* and keep that, whatever was kept before: its log was lost and imported again.

        Another process that remembers the lost log stops on this conversation until it is started anew.
        """
        state = folded(at, await self._log.read(at, after=0))
        await self._kept.keep(at, state)
        self._warm[at] = state
        self._doubted.pop(at, None)


def _warm_tokens(state: State) -> int:
    """Return the cache space of *state*: its share by number at least, and one of any size has room."""
    return min(max(tokens_of(state), WARM_TOKENS_MAX // WARM_MAX), WARM_TOKENS_MAX)


def _missing(records: Sequence[Record], before: int, *, fresh: bool) -> int:
    """Return how many records of a copy are to come after *records*; 0 where the log is none, or was repaired since."""
    copied = records[0].headers.get(COPIED_HEADER, "") if fresh else ""
    left = int(copied) if copied.isascii() and copied.isdecimal() else before
    repaired = any(b"ConversationRepaired" in record.body for record in records if record.side == "done")
    return 0 if repaired else max(0, left - len(records))


def _repaired_behind(records: Iterable[Record], seq: int) -> bool:
    """Tell whether the log was repaired after *seq*: what was remembered of it is then no longer true."""
    return any(
        record.seq > seq
        and b"ConversationRepaired" in record.body
        and any(isinstance(fact, ConversationRepaired) for fact in codec.decode_commit(record.body).facts)
        for record in records
        if record.side == "done"
    )
