"""A log that is encrypted proves itself as one in plain text does: a changed record is found where it stands."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from actors.audit.replay import replay
from actors.audit.verify import Evidence, Verified, verify
from protocol import cipher
from protocol.ids import Address, Token
from storage.encrypted import EncryptedLog
from storage.memory import MemoryKeys, MemoryLog
from tests.audit.faults import AT, recorded
from tests.storage.test_keys import OVERHEAD_BYTES


async def kept(keys: MemoryKeys) -> MemoryLog:
    """Return a store with the recorded log as it lies there encrypted."""
    store = MemoryLog()
    log, done = EncryptedLog(store, keys=keys), 0
    for record in recorded().records:
        if record.side == "said":
            await log.say(AT, record.body, message_id=f"{record.seq}", headers=record.headers)
        else:
            landed = await log.append(
                AT, record.body, expected_seq=done, commit_id=f"{record.seq}", headers=record.headers
            )
            assert landed is not None
            done = landed
    # in the places that the commits name
    placed = zip(store._records[AT], recorded().records, strict=True)
    store._records[AT] = [replace(one, seq=record.seq) for one, record in placed]
    return store


async def judged(store: MemoryLog, keys: MemoryKeys) -> Verified:
    records = await EncryptedLog(store, keys=keys).read(AT, after=0)
    return verify(Evidence(at=AT, records=records))


async def test_nothing_of_a_log_can_be_read_and_everything_can_be_proved() -> None:
    keys = MemoryKeys()
    store = await kept(keys)
    lying = b"".join(record.body for record in await store.read(AT, after=0))
    assert all(record.body[10:40] not in lying for record in recorded().records)
    records = await EncryptedLog(store, keys=keys).read(AT, after=0)
    assert [one.body for one in records] == [one.body for one in recorded().records]
    assert replay(AT, records).divergence is None
    assert (await judged(store, keys)).ok


@pytest.mark.parametrize("how", ["bit", "cut", "stranger", "other side", "plain garbage"])
async def test_a_changed_encrypted_record_is_found_in_its_place(how: str) -> None:
    keys, random = MemoryKeys(), Random(7)
    store = await kept(keys)
    intact = list(store._records[AT])
    other = Address(tenant=Token("other"), conversation=AT.conversation)
    covered = max(place for place, record in enumerate(intact) if record.side == "done")
    for place in random.sample(range(covered + 1), 12):
        body, side = intact[place].body, intact[place].side
        plain = recorded().records[place].body
        changed = {
            "bit": body[:-9] + bytes([body[-9] ^ 4]) + body[-8:],
            "cut": body[: OVERHEAD_BYTES - 3],
            # the same words, the same key, under another address or on the other side
            "stranger": cipher.record(plain, key=await keys.key(AT), at=other, side=side),
            "other side": cipher.record(
                plain, key=await keys.key(AT), at=AT, side="done" if side == "said" else "said"
            ),
            "plain garbage": b"\x93garbage",
        }[how]
        store._records[AT] = [replace(one, body=changed) if one is intact[place] else one for one in intact]
        found = await judged(store, keys)
        assert found.first is not None, place
        assert found.first.first_seq <= intact[place].seq <= found.first.last_seq, (place, found.first)
    store._records[AT] = intact
    assert (await judged(store, keys)).ok
