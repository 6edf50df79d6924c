"""A damaged conversation as its agent and an operator meet it: real servers, separate processes, exit codes."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from actors.cli.session import located
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol import codec, subjects
from protocol.client import Client, Conversation
from protocol.errors import BadEnvelope, ChainBroken, JettisonError
from protocol.ids import Address, Token, fresh_id
from storage.erasure import removed
from tests.audit.test_undo_commands import told
from tests.builders import assistant, result, user
from tests.cli.test_cli import jettison
from tests.conftest import settled


@pytest.fixture
async def operator(data: Path) -> AsyncIterator[Runtime]:
    async with runtime(located(Settings(data=str(data))), role="test") as running:
        yield running


@pytest.fixture
async def talk(operator: Runtime) -> AsyncIterator[Conversation]:
    """Yield a conversation of some turns, one large result among them, with an agent who goes on."""
    async with Client.connect(operator.settings.nats.url, keys=operator.tenants) as client:
        talk = await client.open(f"repair-{fresh_id()[:8]}", policy={"budget": {"window": 4000, "reserve": 0}})
        for turn in range(5):
            await talk.append([user(f"question {turn}"), assistant(None, f"c{turn}")])
            await talk.append([result(f"c{turn}", f"line {turn} of it\n" * 900)])
            await talk.context()
            await talk.append([assistant(f"answer {turn}")])
        await settled(operator, talk.at)
        yield talk


def ran(data: Path, *arguments: str) -> tuple[int, str]:
    done = jettison(*arguments, "--data", str(data))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


async def commits(operator: Runtime, at: Address) -> list[int]:
    return [record.seq for record in await operator.log.read(at, after=0) if record.side == "done"]


async def forged(operator: Runtime, at: Address) -> None:
    """Put the newest commit there once more, with one bit turned."""
    body = (await operator.log.read(at, after=0))[-1].body
    await operator.connection.jetstream().publish(subjects.done(at), bytes([*body[:-1], body[-1] ^ 1]))


async def test_a_flipped_bit_ends_no_conversation(
    data: Path, operator: Runtime, talk: Conversation, tmp_path: Path
) -> None:
    at, conv = talk.at, str(talk.at)
    assert ran(data, "anchor")[0] == 0
    await forged(operator, at)
    await talk.append([user("and now?")])
    with pytest.raises((ChainBroken, BadEnvelope), match=f"jettison repair {at}"):
        await talk.context()
    assert ran(data, "verify", conv)[0] == 3
    code, text = ran(data, "repair", conv)
    assert (code, "nothing was changed" in text, "1 commit dropped" in text) == (0, True, True), text
    assert ran(data, "verify", conv)[0] == 3

    file = tmp_path / "damaged.tar"
    code, text = ran(data, "repair", conv, "--yes", "--out", str(file))
    assert code == 0, text
    assert "goes on as version" in text
    export = hashlib.sha256(file.read_bytes()).hexdigest()
    # the same agent goes on, and every command does its work again
    assert (await talk.context()).messages[-1] == user("and now?")
    await talk.append([assistant("now it works")])
    await settled(operator, at)
    code, text = ran(data, "verify", conv)
    assert (code, "REPAIRED at version" in text, export in text) == (5, True, True), text
    assert ran(data, "verify", "--all")[0] == 5
    assert ran(data, "anchor")[0] == 0
    assert ran(data, "replay", conv, "--verify")[0] == 0
    assert ran(data, "verify", str(file))[0] == 3
    assert ran(data, "repair", conv)[1].startswith(f"{conv}: the log is sound")
    kept = tmp_path / "kept.tar"
    assert ran(data, "export", conv, "--out", str(kept))[0] == 0
    assert ran(data, "verify", str(kept))[0] == 5
    version = told(data, "versions", conv)[-1]["version"]
    assert told(data, "fork", f"{conv}@{version}", f"{conv}-fork")["version"] == version
    assert ran(data, "verify", f"{conv}-fork")[0] == 5
    assert told(data, "rewind", conv, "--to", str(version - 2))["version"] > version
    done = jettison("erase", conv, "--yes", "--data", str(data))
    assert done.returncode == 0, done.stderr


async def test_what_is_lost_comes_back_from_a_bundle(
    data: Path, operator: Runtime, talk: Conversation, tmp_path: Path
) -> None:
    at, conv = talk.at, str(talk.at)
    bundle = tmp_path / "before.tar"
    assert ran(data, "export", conv, "--out", str(bundle))[0] == 0
    assert ran(data, "anchor")[0] == 0
    before = [record.body for record in await operator.log.read(at, after=0)]
    await talk.append([user("after the bundle")])
    await talk.context()
    after = [record.body for record in await operator.log.read(at, after=0)]
    there = await commits(operator, at)
    said = [record.seq for record in await operator.log.read(at, after=0) if record.side == "said"]
    await removed(operator.connection, stream=subjects.LOG_STREAM, seqs=[there[4], said[6]])
    assert ran(data, "verify", conv)[0] == 3
    artifact = told(data, "repair", conv, "--from", str(bundle))
    assert (artifact["from_copy"], artifact["dropped"], artifact["unreadable"], artifact["missing"]) == (2, [], [], [])
    code, text = ran(data, "repair", conv, "--from", str(bundle), "--yes", "--out", str(tmp_path / "was.tar"))
    assert code == 0, text
    found = [record.body for record in await operator.log.read(at, after=0)]
    assert found[: len(after)] == after
    assert found[: len(before)] == before
    assert codec.decode_commit(found[len(after)]).facts[0].__class__.__name__ == "ConversationRepaired"
    await talk.append([assistant("on it goes")])
    assert len((await talk.context()).messages) > 1
    assert ran(data, "verify", conv)[0] == 5
    assert ran(data, "anchor")[0] == 0


async def test_what_nobody_has_a_copy_of_is_named_for_ever(
    data: Path, operator: Runtime, talk: Conversation, tmp_path: Path
) -> None:
    at, conv = talk.at, str(talk.at)
    said = [record for record in await operator.log.read(at, after=0) if record.side == "said"]
    lost = codec.decode_said(said[-2].body)
    await removed(operator.connection, stream=subjects.LOG_STREAM, seqs=[said[-2].seq])
    row = told(data, "repair", conv, "--yes", "--out", str(tmp_path / "was.tar"))
    assert row["missing"] == [[lost.writer, lost.count, lost.count]]
    code, text = ran(data, "verify", conv)
    assert (code, f"envelopes {lost.count} to {lost.count} of {lost.writer}" in text) == (5, True), text
    await talk.append([user("go on")])
    assert (await talk.context()).messages[-1] == user("go on")


async def test_a_repair_asks_a_copy_on_another_server(
    data: Path, operator: Runtime, talk: Conversation, tmp_path: Path
) -> None:
    at, conv = talk.at, str(talk.at)
    there = await commits(operator, at)
    # the stream itself as the copy: it has no more than is here
    await removed(operator.connection, stream=subjects.LOG_STREAM, seqs=[there[-2]])
    row = told(data, "repair", conv, "--from-nats", operator.settings.nats.url)
    assert (row["from_copy"], len(row["dropped"])) == (0, 1)


async def test_damaged_conversations_are_named(data: Path, operator: Runtime, talk: Conversation) -> None:
    await forged(operator, talk.at)
    await talk.append([user("x")])
    with pytest.raises(JettisonError, match="jettison repair"):
        await talk.context()
    async with asyncio.timeout(180):
        while not (letters := [kept.letter async for kept in operator.dead_letters.all() if kept.letter.at == talk.at]):
            await asyncio.sleep(0.05)
    (letter,) = letters
    newer = msgspec.structs.replace(letter, conversation=Token("of-tomorrow"), error="UnknownRules")
    await operator.dead_letters.put(newer, headers={})
    text = ran(data, "doctor")[1]
    assert f"jettison repair {talk.at}" in text
    assert "1 conversation written by a newer release: default/of-tomorrow\n     fix: update all workers" in text
    assert "repair default/of-tomorrow" not in text
