"""Conversations: load a state from snapshot and log, keep it warm, commit to it.

`commit` seals a step (`core/seal.py`) and appends it (`storage/jetstream.py`); snapshots are in `kept_states.py`.
The log is the truth; a warm state only saves reading. A state is never patched in place: after a commit
the tail is read again, because an agent may have spoken between our reading and our writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from weakref import WeakValueDictionary

from cachetools import LRUCache

from actors.core.seal import sealed
from actors.core.state import State
from actors.model_info.tokens import tokenizer_for
from protocol import codec
from protocol import policy as policies
from protocol.errors import BadEnvelope, ChainBroken, Erased, LogMoved, LogRegression, NotReady, PastNeeded
from protocol.facts import DoneFact
from protocol.ids import Address
from protocol.limits import SNAPSHOT_COMMITS
from protocol.voice import now_ms
from storage.ports import EventLog, Record, Snapshots
from storage.tombstones import is_erasure

from .copied import repaired_behind, repaired_since, still_missing
from .fold import check_living, fold, folded, tokens_of
from .handed import Doubts, Handed, with_remedy
from .kept_states import KeptStates
from .snapshots_due import SnapshotsDue

WARM_MAX = 512
"""Conversations whose state a process keeps, where they are small."""

WARM_TOKENS_MAX = 16_000_000
"""Tokens of all kept states together, some 220 MB: a token takes about 14 bytes with all that is known of it. What does
not grow with the window, the ledger first of all, takes up to 0.4 MB of each conversation."""

BYTES_AT_ONCE_MAX = 65_536
"""Folded on the loop itself, a few milliseconds; more gets a thread, and other conversations go on."""


class _Seen(NamedTuple):
    """Which record the log had at the end of a kept state: a log that lost its end may have another one there."""

    seq: int
    time: str
    at_ms: int
    """When the log last went on from it, by this machine's clock."""


class Conversations:
    """All conversations that this process works on."""

    def __init__(self, *, log: EventLog, snapshots: Snapshots, writer: str, rules: str = "") -> None:
        self._log = log
        self._kept = KeptStates(log=log, snapshots=snapshots)
        self._writer = writer
        self.rules = rules or codec.RULES_VERSION
        """The version of the rules that this process decides by, and that its commits say."""
        self._doubts = Doubts(log)
        self._warm: LRUCache[Address, State] = LRUCache(WARM_TOKENS_MAX, getsizeof=_warm_tokens)
        self._seen: LRUCache[Address, _Seen] = LRUCache(WARM_MAX)
        self._reading: WeakValueDictionary[Address, asyncio.Lock] = WeakValueDictionary()
        self.snapshots_due = SnapshotsDue(kept=self._kept, load=self.load)

    async def receive(self, at: Address, given: Handed | None, *, upto: int = 0) -> State:
        """Return the state as `load` does; it must go over the one that was *given* along, if one was.

        Raises as `load`; from then on nothing is written to *at* before the log has what was handed over.
        """
        warm = self._warm.get(at)
        if given is not None and warm is not None and given.version > warm.version + SNAPSHOT_COMMITS:
            # this process was away for long: a snapshot was kept since
            kept = await self._kept.newest(at)
            if kept.state.seq > warm.seq:
                self._remember(at, kept.state, kept.time)
        # whoever was faster did not read on for us
        state = await self.load(at, upto=upto if warm is None or warm.seq < upto else 0)
        if given is not None:
            await self._doubts.hold(at, state, given)
        return state

    async def load(self, at: Address, *, upto: int = 0) -> State:
        """Return the state at the head of the log; with *upto*, a record's sequence, maybe an older one that has it.

        Raises `LogUnavailable`, `ChainBroken`, `LogRegression`, `BadEnvelope` (damaged, or of a newer writer).
        """
        try:
            # what one of them reads and folds, four actors and a service of one process need not each
            async with self._reading.setdefault(at, asyncio.Lock()):
                state = self._warm.get(at)
                if state is not None and state.seq >= upto > 0:
                    return state
                return await self._loaded(at, upto)
        except (ChainBroken, LogRegression, BadEnvelope) as error:
            raise with_remedy(error, at) from None

    async def living(self, at: Address, *, upto: int = 0) -> State:
        """Return the state as `load` does. Raises as it, and `Erased`."""
        state = await self.load(at, upto=upto)
        if state.erased:
            check_living(at, await self._log.read(at, after=0))  # its tombstone says when
            raise Erased(f"{at} was erased", address=str(at))
        return state

    async def _loaded(self, at: Address, upto: int) -> State:
        began_ms = now_ms()
        state, seen = self._warm.get(at), self._seen.get(at)  # not taken out: four actors and a service load at once
        stored = seen.time if state is not None and seen is not None and seen.seq == state.seq else ""
        behind: list[Record] | None = None
        if state is None:
            state, stored, behind = await self._kept.newest(at)
        missing = 0
        try:
            async for records in self._batches(at, state.seq, stored, upto, behind):
                missing = still_missing(records, missing, fresh=not state.seq)
                large = sum(len(record.body) for record in records) > BYTES_AT_ONCE_MAX
                state = await asyncio.to_thread(fold, state, records) if large else fold(state, records)
                stored = records[-1].time if records else stored
        except (ChainBroken, LogRegression) as error:
            records = await self._log.read(at, after=0)
            begins_anew = isinstance(error, PastNeeded | LogMoved) or any(map(is_erasure, records))
            if not begins_anew and not repaired_behind(records, state.seq):
                if not repaired_since(records, seen.at_ms if seen else began_ms):
                    raise
                self._warm.pop(at, None)  # it goes further than the log that was repaired
            state = await asyncio.to_thread(folded, at, records)
            stored = records[-1].time if records else ""
        # the rest of a copy that is being erased has its end; what is overwritten before it never comes
        if missing > 0 and not state.erased:
            raise NotReady(f"{at} is being written: {missing} records of a copy are to come", copying=missing)
        self._remember(at, state, stored, at_ms=began_ms)
        return state

    async def _batches(
        self, at: Address, after: int, time: str, upto: int, known: list[Record] | None
    ) -> AsyncIterator[list[Record]]:
        """Yield the records *after* one; it is *known* where a kept state was just held against it."""
        if known is None:
            async for records in self._log.batches(at, after=after, time=time, upto=upto):
                yield records
        elif known:
            yield known

    def _remember(self, at: Address, state: State, time: str, *, at_ms: int = 0) -> None:
        """Keep *state*, unless another task read further meanwhile; *time* is when its newest record was stored."""
        known = self._warm.get(at)
        if known is None or known.seq <= state.seq:
            self._warm[at] = state
            self._seen[at] = _Seen(seq=state.seq, time=time, at_ms=at_ms or now_ms())

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
        await self._doubts.settle(at, state)
        tokenizer = tokenizer_for(state.terms.model).id
        commit = sealed(state, facts, rules=self.rules, writer=self._writer, tokenizer=tokenizer, adopt=adopt)
        body = codec.encode_commit(commit)
        seq = await self._log.append(
            at, body, expected_seq=state.position.done_seq, commit_id=commit.commit_id, headers=headers
        )
        if seq:
            self.snapshots_due.committed(at, state, commit, size_bytes=len(body))
        return seq is not None

    async def renew(self, at: Address) -> None:
        """Fold the whole log of *at* and keep that, whatever was kept before: its log was lost and imported again.

        Another process that remembers the lost log stops on this conversation until a repair stands in the log, or it
        is started anew.
        """
        records = await self._log.read(at, after=0)
        state = folded(at, records)
        await self._kept.keep(at, state)
        self._warm.pop(at, None)
        self._remember(at, state, records[-1].time)
        self._doubts.forget(at)


def _warm_tokens(state: State) -> int:
    """Return the cache space of *state*: its share by number at least, and one of any size has room."""
    return min(max(tokens_of(state), WARM_TOKENS_MAX // WARM_MAX), WARM_TOKENS_MAX)
