"""Going back is off for agents until an operator turns it on, as the configuration says how."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from actors.host.settings import Settings
from protocol.client import Client
from protocol.connection import connect
from protocol.errors import NotPermitted
from protocol.ids import fresh_id
from storage.streams import provision
from tests.builders import assistant, user
from tests.conftest import layer
from tests.infra.rights_server import PASSWORD, RightsServer, rights_server, soon
from tests.infra.test_thief import at_work


def turn_on(folder: Path, server: RightsServer) -> None:
    """Do what `tenant.conf` says: list the verbs twice, and let `cut` write what a copy holds."""
    tenant = folder / "tenant.conf"
    text = tenant.read_text()
    for verb in ("rewind", "fork"):
        text = text.replace(
            '    { service: { account: CTX, subject: "ctx.v1.ask.open.default.*" } }\n',
            '    { service: { account: CTX, subject: "ctx.v1.ask.open.default.*" } }\n'
            f'    {{ service: {{ account: CTX, subject: "ctx.v1.ask.{verb}.default.*" }} }}\n',
        ).replace(
            '          "ctx.v1.ask.open.default.*"\n',
            f'          "ctx.v1.ask.open.default.*"\n          "ctx.v1.ask.{verb}.default.*"\n',
        )
    tenant.write_text(text)
    rights = folder / "rights.conf"
    off = '# "ctx.v1.log.*.*.said"'
    assert off in rights.read_text()
    rights.write_text(rights.read_text().replace(off, off.removeprefix("# ")))
    server.process.send_signal(signal.SIGHUP)


async def test_an_agent_goes_back_where_an_operator_turned_it_on(tmp_path: Path, settings: Settings) -> None:
    name = f"undo-{fresh_id()[:8]}"
    with rights_server(tmp_path) as server:
        async with AsyncExitStack() as held:
            operator = await connect(server.url, name="operator", login=server.login("operator"))
            held.push_async_callback(operator.close)
            await provision(operator)
            await at_work(held, server, settings)
            client = await held.enter_async_context(Client.connect(server.url, user="agent-default", password=PASSWORD))
            talk = await client.open(name, policy=layer())
            await talk.append([user("one")])
            await talk.context(wait_seconds=30)
            for going_back in (talk.rewind(upto=1), talk.fork(f"{name}-b")):
                with pytest.raises(NotPermitted, match=r"may not publish"):
                    await going_back
            turn_on(tmp_path, server)
            await soon(1)
            await talk.append([assistant("wrong"), user("two")])
            branch = await talk.fork(f"{name}-b", upto=1)
            assert (await talk.rewind(upto=1)).upto == 1
            await branch.append([assistant("right")])
            assert (await branch.context(wait_seconds=30)).messages == [user("one"), assistant("right")]
