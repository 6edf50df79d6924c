"""Erasing: leave a tombstone, and of all else nothing that can be read.

The order makes every step repeatable: the tombstone first, so that no writer goes on; the key and the log last, since
they say what else there is to be removed. Who is interrupted begins again. A log that is damaged can be erased too, one
whose tenant's key is not here cannot: nothing would say which objects are to go.
"""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import msgspec

from actors.runtime.listing import Listing
from actors.runtime.said_log import sayings
from protocol import codec
from protocol.errors import ArchiveDamaged, BadEnvelope, Contended, NotFound
from protocol.facts import ConversationErased
from protocol.history import Certificate
from protocol.ids import Address, fresh_id
from protocol.limits import APPEND_ATTEMPTS_MAX
from protocol.voice import BELIEVED_SECONDS
from storage.encrypted import EncryptedLog, EncryptedSnapshots
from storage.erasure_ports import Erasure
from storage.ports import Archives, Artifacts, EventLog, Keys, Record
from storage.sweep_ports import LogChanges

from .sharing import Sharing, archived_objects, objects_of

ROUNDS_MAX = 5
"""Times that the log is looked at again: an agent that does not know may still be speaking."""

HEARD_SECONDS = BELIEVED_SECONDS + 0.1
"""From the mark in the key's place to the last look at the log: whoever looked before it has spoken by then, or looks
again. The tenth is for a replica that learns of the mark later than the others."""


class SpokenSince(Contended):
    """It is not idle any more."""


class Erasing(msgspec.Struct, frozen=True, kw_only=True):
    """Who erases; the actors are paused meanwhile."""

    erasure: Erasure
    stored: EventLog
    """The log as its stream has it, encrypted and without what is archived."""
    log: EventLog
    keys: Keys
    changes: LogChanges
    snapshots: EncryptedSnapshots
    artifacts: Artifacts
    archives: Archives
    listing: Listing

    async def erase(self, at: Address, *, by: str) -> Certificate:
        """Erase *at*. Again, it removes what came since.

        Raises `NotFound` where nothing ever was, `Contended`, `Unavailable`, and `Damaged` where a log of its tenant
        cannot be read that may name the same objects; `UnknownRules` where a newer release wrote it, or that of *at*.
        """
        sharing = await self.look([at])
        async with self.paused(sharing):
            return await self.bury(at, by=by, sharing=sharing)

    async def look(self, ats: Collection[Address]) -> Sharing:
        """Find out, before any pause, which objects of *ats* are others' too. Raises `Unavailable`."""
        sharing = Sharing(stored=EncryptedLog(self.stored, keys=self.keys), log=self.log, changes=self.changes)
        await sharing.look(ats)
        return sharing

    @asynccontextmanager
    async def paused(self, sharing: Sharing) -> AsyncIterator[None]:
        """Pause the actors; what the log got since the look is read before, and once more in `bury`."""
        await sharing.again()
        async with self.erasure.paused():
            yield

    async def bury(self, at: Address, *, by: str, sharing: Sharing, idle_since: int | None = None) -> Certificate:
        """Erase *at* within a pause; *idle_since*: only if its stream got nothing behind that place.

        Raises `SpokenSince` where it did, else as `erase`; nothing was begun where it has no tombstone then.
        """
        named, commit, seq = await self._entombed(at, by=by, sharing=sharing, idle_since=idle_since)
        fact = next(fact for fact in commit.facts if isinstance(fact, ConversationErased))
        # behind the tombstone: of two that are erased at once, one sees that of the other
        await sharing.again()
        shared = await sharing.with_others(at, named)
        gone = sorted({*(named - shared), *filter(None, [await self.snapshots.artifact(at)])})
        # what names them goes after them: who begins again reads there what else there is
        for sha256 in gone:
            await self.artifacts.delete(at.tenant, sha256)
        snapshots = await self.snapshots.forget(at)
        forgotten = await self.erasure.forget(at)
        await sleep(HEARD_SECONDS)
        archives = await self.archives.names(at)
        for sha256 in archives:
            await self.archives.delete(at, sha256)
        records = await self._log_overwritten(at, keep=seq)
        # the last: who looks for what was begun goes by the list
        await self.listing.forget({at})
        return Certificate(
            address=str(at),
            at_ms=fact.at_ms,
            by=fact.by,
            version=commit.version,
            tombstone=commit.hash.hex(),
            head=fact.head.hex(),
            said=fact.said,
            commits=fact.commits,
            messages=fact.messages,
            commits_lost=max(0, commit.version - 1 - fact.commits),
            records=records,
            snapshots=snapshots,
            **msgspec.structs.asdict(forgotten),
            artifacts=tuple(gone),
            shared=tuple(sorted(shared)),
            archives=tuple(archives),
        )

    async def _entombed(
        self, at: Address, *, by: str, sharing: Sharing, idle_since: int | None
    ) -> tuple[set[str], codec.Commit, int]:
        """Return the objects that the log names, its tombstone and where that is; append it if there is none."""
        for _ in range(APPEND_ATTEMPTS_MAX):
            records, named = await self._read(at)
            if not records:
                raise NotFound(f"there is no conversation {at}", address=str(at))
            done = [record for record in records if record.side == "done"]
            there = _commit(done[-1]) if done else None
            if there is not None and there.is_tombstone:
                return named, there, done[-1].seq
            # what could not be carried out is not begun: from its tombstone on it reads as erased
            await sharing.with_others(at, named)
            if idle_since is not None and await self.stored.head(at) != idle_since:
                raise SpokenSince(f"{at} was spoken in since it was found to be idle", address=str(at))
            commit = tombstone(at, records, by=by, at_ms=time.time_ns() // 1_000_000)
            # in plain text: the key goes, and it quotes nothing
            seq = await self.stored.append(
                at,
                codec.encode_commit(commit),
                expected_seq=done[-1].seq if done else 0,
                commit_id=fresh_id(),
                headers={},
            )
            if seq is not None:
                return named, commit, seq
        raise Contended(f"other writers of {at} were faster, too often", address=str(at))

    async def _read(self, at: Address) -> tuple[list[Record], set[str]]:
        """Return the log, and the objects that it names; without its archive where that is lost, if the log knows."""
        try:
            records = await self.log.read(at, after=0)
            return records, objects_of(records)
        except ArchiveDamaged:
            records = await EncryptedLog(self.stored, keys=self.keys).read(at, after=0)
            if archived_objects(records) is None:
                raise
            return records, objects_of(records)

    async def _log_overwritten(self, at: Address, *, keep: int) -> int:
        count = 0
        for _ in range(ROUNDS_MAX):
            found = await self.erasure.clear(at, keep=keep)
            count += found
            if not found:
                return count
        raise Contended(f"{at} is still spoken in; its agents do not know that it was erased", address=str(at))


def tombstone(at: Address, records: Sequence[Record], *, by: str, at_ms: int) -> codec.Commit:
    """Return the commit that ends the log of *at*, whatever state it is in."""
    said_hash = codec.genesis(at)
    last: codec.Commit | None = None
    for record in records:
        if record.side == "said":
            said_hash = codec.roll(said_hash, record.body)
        else:
            last = _commit(record) or last
    head = last.hash if last else codec.genesis(at)
    said = [record for record in records if record.side == "said"]
    fact = ConversationErased(
        at_ms=at_ms,
        by=by,
        head=head,
        said=len(said),
        commits=len(records) - len(said),
        messages=sum(1 for _ in sayings(at, records)),
    )
    return codec.seal(
        codec.Commit(
            version=(last.version if last else 0) + 1,
            commit_id=codec.commit_id(prev_hash=head, step="ConversationErased"),
            writer="erase",
            upto=said[-1].seq if said else 0,
            prev_hash=head,
            said_hash=said_hash,
            policy_hash=last.policy_hash if last else "",
            rules_version=codec.RULES_VERSIONS[0],  # no rule decides it: every release may read it
            tokenizer=last.tokenizer if last else "",
            facts=(fact,),
        )
    )


def _commit(record: Record) -> codec.Commit | None:
    try:
        return codec.decode_commit(record.body)
    except BadEnvelope:
        return None
