"""Poison: what fails by itself is given up after a bounded number of tries, with a letter, and others go on."""

import asyncio
import hashlib
import time

import pytest

from actors.core.seal import sealed
from actors.host.bootstrap import Runtime
from actors.runtime.retries import ATTEMPTS_MAX
from protocol import codec, subjects
from protocol.client import Client
from protocol.errors import UnknownRules
from protocol.ids import Address, fresh_id
from protocol.subjects import Actor
from storage.work_ports import DeadLetter, StoredLetter
from tests.conftest import settled

SECRET = "the payout of Mrs Smith"


async def letter(running: Runtime, at: Address, actor: Actor = "spill", *, seconds: float = 180.0) -> StoredLetter:
    """Wait for the dead letter of *at*."""
    ends = time.monotonic() + seconds
    while True:
        for kept in await letters(running, at):
            if kept.letter.actor == actor:
                return kept
        assert time.monotonic() < ends, f"no dead letter of {actor} for {at}"
        await asyncio.sleep(0.05)


async def letters(running: Runtime, at: Address) -> list[StoredLetter]:
    return [kept async for kept in running.dead_letters.all() if kept.letter.at == at]


async def slot_is_filled(running: Runtime, actor: Actor, at: Address) -> bool:
    info = await running.connection.jetstream().stream_info(
        subjects.WAKE_STREAM, subjects_filter=subjects.wake(actor, at)
    )
    return bool(info.state.subjects)


async def freed(running: Runtime, at: Address, actor: Actor = "spill") -> None:
    async with asyncio.timeout(180):
        while await slot_is_filled(running, actor, at):
            await asyncio.sleep(0.02)


async def gone(running: Runtime, at: Address) -> None:
    """Remove a log that this release cannot read: it would hold up erasures of its tenant in other tests."""
    await running.connection.jetstream().purge_stream(subjects.LOG_STREAM, subject=subjects.both(at))


async def test_a_commit_of_a_newer_version_is_given_up_and_the_others_go_on(working: Runtime, client: Client) -> None:
    talk, other = await client.open(f"newer-{fresh_id()}"), await client.open(f"other-{fresh_id()}")
    await working.connection.jetstream().publish(subjects.done(talk.at), b"\x93\xa8commit.9\x01\x02")
    await talk.append([{"role": "user", "content": SECRET}])
    kept = await letter(working, talk.at)
    wanted = DeadLetter(
        actor="spill",
        tenant=talk.at.tenant,
        conversation=talk.at.conversation,
        reason="unreadable",
        error="BadEnvelope",
        detail=kept.letter.detail,
        attempts=ATTEMPTS_MAX,
        deliveries=kept.letter.deliveries,
        worker=working.name,
    )
    assert kept.letter == wanted
    assert "not a readable commit" in kept.letter.detail
    await freed(working, talk.at)
    await other.append([{"role": "user", "content": "hello"}])
    assert (await other.context(patience=180)).upto == 1
    await gone(working, talk.at)


async def test_a_step_of_rules_that_this_release_does_not_know_parks_its_conversation(
    working: Runtime, client: Client
) -> None:
    talk = await client.open(f"rules-{fresh_id()}")
    await talk.append([{"role": "user", "content": "hello"}])
    state = await settled(working, talk.at)
    commit = sealed(state, (), rules="999", writer="a newer worker", tokenizer="o200k_base")
    await working.connection.jetstream().publish(subjects.done(talk.at), codec.encode_commit(commit))
    await talk.append([{"role": "user", "content": SECRET}])
    kept = await letter(working, talk.at)
    assert (kept.letter.reason, kept.letter.error) == ("unreadable", "UnknownRules")
    assert "rules '999'" in kept.letter.detail
    await freed(working, talk.at)
    # nobody is told to repair what is sound
    with pytest.raises(UnknownRules, match="update all workers") as refused:
        await talk.context()
    assert "jettison repair" not in f"{refused.value} {kept.letter.detail}"
    await gone(working, talk.at)


async def test_a_commit_of_a_newer_form_is_not_called_damaged(working: Runtime, client: Client) -> None:
    talk = await client.open(f"form-{fresh_id()}")
    body = b"\x93\xa8commit.9\x01\xc4\x20"
    sealed_body = body + hashlib.sha256(body[:-2] + b"\xc4\x00").digest()
    await working.connection.jetstream().publish(subjects.done(talk.at), sealed_body)
    await talk.append([{"role": "user", "content": "hello"}])
    kept = await letter(working, talk.at)
    assert (kept.letter.reason, kept.letter.error) == ("unreadable", "UnknownRules")
    assert "a newer release wrote this commit" in kept.letter.detail
    await freed(working, talk.at)
    await gone(working, talk.at)


async def test_a_broken_chain_is_given_up_as_damaged(working: Runtime, client: Client) -> None:
    talk, other = await client.open(f"broken-{fresh_id()}"), await client.open(f"whole-{fresh_id()}")
    await other.append([{"role": "user", "content": "hello"}])
    await settled(working, other.at)
    stranger = next(one for one in await working.log.read(other.at, after=0) if one.side == "done")
    await talk.append([{"role": "user", "content": "hello"}])
    state = await settled(working, talk.at)
    await working.connection.jetstream().publish(subjects.done(talk.at), stranger.body)
    await talk.append([{"role": "user", "content": SECRET}])
    kept = await letter(working, talk.at)
    assert (kept.letter.reason, kept.letter.error) == ("damaged", "ChainBroken")
    await freed(working, talk.at)
    assert state.version == 1
