"""A client with its tenant's keys encrypts what it says; without one that it should have, it says nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from actors.host.adapters import tenant_keys
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import codec
from protocol.client import Client
from protocol.errors import KeysUnavailable, Rejected
from protocol.formats import messages
from protocol.ids import Address
from protocol.keys import FolderKeys
from storage.jetstream import JetStreamLog
from tests.builders import user
from tests.said import said_messages


async def texts(at: Address, running: Runtime) -> list[str]:
    return [messages.decode(one.raw)["content"] for one in await said_messages(at, log=running.log)]


async def test_what_is_said_lies_encrypted_and_is_answered_as_ever(
    working: Runtime, settings: Settings, name: str
) -> None:
    async with Client.connect(settings.nats.url, keys=tenant_keys(settings)) as client:
        talk = await client.open(name, model="gpt-4o")
        await talk.append([user("a secret of ours")])
        await talk.report_usage(input_tokens=10)
        assert (await talk.context()).messages == [user("a secret of ours")]
        lying = await JetStreamLog(client.connection).read(talk.at, after=0)
    assert {record.side for record in lying} == {"said", "done"}
    assert all(codec.is_encrypted(record.body) for record in lying)
    assert await texts(talk.at, working) == ["a secret of ours"]


async def test_agents_with_and_without_keys_speak_in_one_conversation(
    working: Runtime, settings: Settings, name: str
) -> None:
    async with (
        Client.connect(settings.nats.url, keys=tenant_keys(settings)) as closed,
        Client.connect(settings.nats.url) as open_,
    ):
        for index, client in enumerate((open_, closed, open_)):
            talk = await client.open(name)
            await talk.append([user(f"message {index}")])
        assert [one["content"] for one in (await talk.context()).messages] == [f"message {index}" for index in range(3)]


async def test_many_clients_that_begin_at_once_agree_on_the_key(
    running: Runtime, settings: Settings, name: str
) -> None:
    async def speak(index: int) -> None:
        async with Client.connect(settings.nats.url, keys=tenant_keys(settings)) as client:
            talk = await client.open(name)
            await talk.append([user(f"message {index}")])

    await asyncio.gather(*map(speak, range(12)))
    async with Client.connect(settings.nats.url) as client:
        at = (await client.open(name)).at
    assert sorted(await texts(at, running)) == sorted(f"message {index}" for index in range(12))


async def test_a_client_whose_tenant_has_no_key_says_nothing_until_it_has_one(
    running: Runtime, settings: Settings, name: str, tmp_path: Path
) -> None:
    tenant = f"t-{name[-8:]}"
    async with Client.connect(settings.nats.url, keys=FolderKeys(folder=tmp_path)) as client:
        with pytest.raises(KeysUnavailable, match="openssl rand -hex 32"):
            await client.open(name, tenant=tenant)
        (tmp_path / f"{tenant}.key").write_text(os.urandom(32).hex())
        talk = await client.open(name, tenant=tenant)
        (tmp_path / f"{tenant}.key").unlink()  # it is known by now
        await talk.append([user("now")])
        plain = await JetStreamLog(running.connection).read(talk.at, after=0)
    assert [codec.is_encrypted(record.body) for record in plain] == [True, True]


@pytest.mark.parametrize("keys", [Path("keys"), "keys", "", b"k" * 32])
async def test_keys_that_are_none_are_refused_before_anything_is_said(settings: Settings, keys: Any) -> None:
    with pytest.raises(Rejected, match=f"keys takes FolderKeys.*, not {type(keys).__name__}"):
        async with Client.connect(settings.nats.url, keys=keys):
            pytest.fail("it connected")
