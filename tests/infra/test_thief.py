"""The whole path with rights in force: each worker as its own user, two tenants, and a thief who hears all he may."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import nats
from nats.aio.msg import Msg

from actors.host.adapters import tenant_keys
from actors.host.bootstrap import runtime, work
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import fresh_id
from tests.conftest import layer
from tests.infra.rights_server import PASSWORD, RightsServer, provision_as_operator, rights_server

SECRET = "what default said"


async def at_work(held: AsyncExitStack, server: RightsServer, settings: Settings) -> None:
    """Run each actor as its own user, until *held* ends."""
    for actor in subjects.ACTORS:
        running = await held.enter_async_context(runtime(server.settings(settings, actor), role=actor))
        task = asyncio.create_task(work(running, (actor,)))
        held.push_async_callback(asyncio.wait, [task])
        held.callback(task.cancel)


async def spoken(server: RightsServer, settings: Settings, tenant: str, name: str, text: str) -> None:
    """Say what needs every actor and the store, and read it back."""
    keys = tenant_keys(settings) if tenant == "default" else None
    user = f"agent-{tenant}"
    async with Client.connect(server.url, user=user, password=PASSWORD, keys=keys) as client:
        talk = await client.open(name, tenant=tenant, policy=layer(window=4_000))
        large = "\n".join(f"{number} {text}" for number in range(20_000))
        call = {"id": "x", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        await talk.append([{"role": "user", "content": text}, {"role": "assistant", "tool_calls": [call]}])
        await talk.append([{"role": "tool", "tool_call_id": "x", "content": large}])
        for number in range(6):
            await talk.append([{"role": "user", "content": f"{number} {text} " * 100}])
            await talk.append([{"role": "assistant", "content": f"{number} yes " * 100}])
            context = await talk.context(patience=180)
            assert context.tokens <= 4_000
        assert text in await talk.read_artifact("messages:1-1", lines="1-3")


async def test_a_thief_hears_nothing_of_another_tenant(tmp_path: Path, settings: Settings) -> None:
    heard: list[tuple[str, bytes]] = []

    async def hear(message: Msg) -> None:
        heard.append((message.subject, message.data))

    name = f"thief-{fresh_id()[:8]}"
    with rights_server(tmp_path) as server:
        async with AsyncExitStack() as held:
            await provision_as_operator(server)
            await at_work(held, server, settings)
            thief = await nats.connect(server.url, user="thief-acme", password=PASSWORD)
            held.push_async_callback(thief.close)
            await thief.subscribe(">", cb=hear)
            await thief.flush()
            async with asyncio.TaskGroup() as group:
                group.create_task(spoken(server, settings, "default", name, SECRET))
                group.create_task(spoken(server, settings, "acme", name, "what acme said"))
        log = (tmp_path / "server.log").read_text()
    assert heard, "the thief hears its own tenant's announcements"
    assert all(".default." not in subject and SECRET.encode() not in body for subject, body in heard)
    assert "Violation" not in log, "the rights are enough for who works"
