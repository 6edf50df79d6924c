"""The list of all conversations: it says what the log says, is cheap to change, and forgets what it must forget."""

from __future__ import annotations

import pytest

from actors.core import listed
from actors.core.listed import ERASED, About, Listed, ListHead, about
from actors.runtime.listed_places import PlacesWanted, chosen, places
from actors.runtime.listing import HEAD, LISTS, Listing, decoded
from protocol.errors import KeysUnavailable
from protocol.ids import Address, address, token
from storage.memory import MemoryKeys, MemoryLog
from storage.memory_work import MemoryKeptList, MemoryLogChanges
from tests.builders import Talk, policy, user, words


def row(number: int, *, tenant: str = "default", seq: int = 0, name: str = "") -> Listed:
    at = address(f"talk-{number}", tenant)
    return Listed(at=at, seq=seq or number, at_ms=number * 1000, about=About(name=name or f"Talk {number}"))


class LockedKeys(MemoryKeys):
    """Keys of all tenants but one."""

    async def known(self, at: Address):  # type: ignore[no-untyped-def]
        if at.tenant == "locked":
            raise KeysUnavailable("tenant locked has no key")
        return await super().known(at)


async def rows_of(listing: Listing) -> dict[Address, Listed]:
    """Return the record of each conversation that counts."""
    found: dict[Address, Listed] = {}
    for one in await listing.documents():
        if one.name != HEAD:
            for listed_row in await listing.opened(one.body):
                if listed_row.at not in found or listed_row.seq >= found[listed_row.at].seq:
                    found[listed_row.at] = listed_row
    return found


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed, "ROWS_MAX", 5)


async def shown(listing: Listing, wanted: PlacesWanted, changes: MemoryLogChanges, log: MemoryLog) -> list[str]:
    found = await places(listing, changes=changes, log=log)
    opener = await listing.opener(found.sections)
    return [one.at.conversation for one in chosen(found, wanted, opener).rows]


@pytest.mark.usefixtures("small_chunks")
async def test_of_many_records_the_furthest_of_each_conversation_counts_and_few_chunks_stay() -> None:
    kept = MemoryKeptList()
    listing, another = Listing(kept, keys=(keys := MemoryKeys())), Listing(kept, keys=keys)
    for turn in range(40):
        # every one speaks again and again, and two processes write in turn
        rows = [row(number, seq=turn * 100 + number + 1) for number in range(turn % 3, 12, 3)]
        assert await (listing, another)[turn % 2].record(rows, seq=turn)
    assert {at: one.seq for at, one in (await rows_of(listing)).items()} == {
        address(f"talk-{number}"): (39 - (39 - number) % 3) * 100 + number + 1 for number in range(12)
    }
    assert (await listing.head()).seq() == 39
    assert len(await kept.read()) <= 2 * 3 + listed.CHUNKS_SPARE + 2


async def test_names_are_kept_encrypted_and_go_with_the_conversation() -> None:
    kept = MemoryKeptList()
    listing = Listing(kept, keys=MemoryKeys())
    await listing.record([row(number, name="Kündigung") for number in range(3)], seq=3)
    assert b"ndigung" not in b"".join(one.body for one in await kept.read())
    assert await listing.forget({address("talk-1")}) == 1
    assert [one.conversation for one in await rows_of(listing)] == ["talk-0", "talk-2"]
    assert b"talk-1" not in b"".join(one.body for one in await kept.read())
    assert await listing.forget({address("talk-1")}) == 0
    # the writer had the chunk in its memory
    await Listing(kept, keys=listing._keys).record([row(7)], seq=7)
    assert [one.conversation for one in await rows_of(listing)] == ["talk-0", "talk-2", "talk-7"]


async def test_whoever_kept_a_forgotten_one_in_memory_does_not_write_it_back() -> None:
    kept, keys = MemoryKeptList(), MemoryKeys()
    writer, eraser = Listing(kept, keys=keys), Listing(kept, keys=keys)
    await writer.record([row(1), row(2)], seq=2)
    await eraser.forget({address("talk-1")})
    assert await writer.record([row(3)], seq=3)
    assert [one.conversation for one in await rows_of(writer)] == ["talk-2", "talk-3"]


async def test_a_sweep_that_was_faster_than_the_end_of_an_erasure_is_not_forgotten() -> None:
    kept, keys = MemoryKeptList(), MemoryKeys()
    sweeper, eraser = Listing(kept, keys=keys), Listing(kept, keys=keys)
    await sweeper.record([row(1, name="Theirs"), row(2)], seq=2)
    stone = Listed(at=address("talk-1"), seq=3, at_ms=3000, about=About(fault=ERASED))
    await sweeper.record([stone], seq=3)
    assert await eraser.forget({address("talk-1")}) == 0
    assert (await rows_of(sweeper))[address("talk-1")] == stone


@pytest.mark.usefixtures("small_chunks")
async def test_what_one_cannot_open_stays_as_it_was_for_who_can() -> None:
    kept, keys = MemoryKeptList(), MemoryKeys()
    locked = LockedKeys()
    locked.__dict__.update(keys.__dict__)
    await Listing(kept, keys=keys).record([row(1, tenant="locked", name="Theirs"), row(2)], seq=2)
    for number in range(3, 60):
        await Listing(kept, keys=locked).record([row(number)], seq=number)
    await Listing(kept, keys=locked).forget({address("talk-2")})
    theirs = address("talk-1", "locked")
    assert (await rows_of(Listing(kept, keys=locked)))[theirs].about == About(fault="no key")
    assert (await rows_of(Listing(kept, keys=keys)))[theirs].about.name == "Theirs"


async def test_a_list_is_sorted_searched_and_paged_and_knows_what_came_since() -> None:
    log, listing = MemoryLog(), Listing(MemoryKeptList(), keys=MemoryKeys())
    changes = MemoryLogChanges(log)
    rows = [row(number, name="Ärger mit Nr. 3" if number == 3 else "") for number in range(1, 8)]
    await log.say(address("talk-5"), b"", message_id="1", headers={})
    assert await shown(listing, PlacesWanted(), changes, log) == ["talk-5"], "nobody wrote a list yet"
    await listing.record(rows, seq=1)
    assert await shown(listing, PlacesWanted(most=2), changes, log) == ["talk-7", "talk-6"]
    assert await shown(listing, PlacesWanted(first=6, most=2), changes, log) == ["talk-1"]
    assert await shown(listing, PlacesWanted(text="ÄRGER"), changes, log) == ["talk-3"]
    assert await shown(listing, PlacesWanted(sort="name", most=0), changes, log) == [
        f"talk-{one}" for one in range(1, 8)
    ]
    await log.say(address("later"), b"", message_id="2", headers={})
    found = await places(listing, changes=changes, log=log)
    opener = await listing.opener(found.sections)
    assert chosen(found, PlacesWanted(most=0), opener).stale == {address("later")}
    assert chosen(found, PlacesWanted(most=0), opener).total == 8


async def test_a_log_that_is_behind_its_list_is_another_one() -> None:
    listing = Listing(MemoryKeptList(), keys=MemoryKeys())
    await listing.record([row(1)], seq=9)
    await listing.begin_anew()
    assert await listing.head() == ListHead()
    assert await rows_of(listing) == {}


def test_a_record_says_what_the_state_says() -> None:
    talk = Talk(policy(2000))
    talk.play(user(words(100)), user(words(200)))
    found = about(talk.state)
    assert (found.version, found.messages, found.tokens) == (talk.state.version, 2, talk.state.live_tokens)
    assert (found.usable, found.log_tokens, found.waits_for) == (talk.state.usable_tokens, 308, "")


def test_no_name_of_a_conversation_is_the_place_of_the_lists_key() -> None:
    assert token(LISTS) != LISTS
    assert decoded(b"\xc1", ListHead) is None
