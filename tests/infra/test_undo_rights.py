"""Going back and erasing are off for agents until an operator turns them on, as the configuration says how."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from actors.host.settings import Settings
from protocol.client import Client
from protocol.errors import Erased, NotPermitted
from protocol.ids import fresh_id
from tests.builders import assistant, user
from tests.conftest import layer
from tests.infra.rights_server import PASSWORD, RightsServer, provision_as_operator, rights_server, soon
from tests.infra.test_thief import at_work


def turn_on(folder: Path, server: RightsServer) -> None:
    """Do what `tenant.conf` says: list the verbs twice, and let `cut` do what only an operator does otherwise."""
    tenant = folder / "tenant.conf"
    text = tenant.read_text()
    for verb in ("rewind", "fork", "erase"):
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
    off = [line for line in rights.read_text().splitlines() if line.lstrip().startswith('# "')]
    assert len(off) == 3
    for line in off:
        rights.write_text(rights.read_text().replace(line, line.replace("# ", "")))
    server.process.send_signal(signal.SIGHUP)


async def test_an_agent_goes_back_where_an_operator_turned_it_on(tmp_path: Path, settings: Settings) -> None:
    name = f"undo-{fresh_id()[:8]}"
    with rights_server(tmp_path) as server:
        async with AsyncExitStack() as held:
            await provision_as_operator(server)
            await at_work(held, server, settings)
            client = await held.enter_async_context(Client.connect(server.url, user="agent-default", password=PASSWORD))
            talk = await client.open(name, policy=layer())
            await talk.append([user("one")])
            await talk.context(patience=180)
            assert [row.stage for row in await talk.versions()][-1] == "serve"
            for going_back in (talk.rewind(upto=1), talk.fork(f"{name}-b"), talk.erase(yes=True)):
                with pytest.raises(NotPermitted, match=r"may not publish"):
                    await going_back
            turn_on(tmp_path, server)
            await soon(1)
            await talk.append([assistant("wrong"), user("two")])
            branch = await talk.fork(f"{name}-b", upto=1)
            assert (await talk.rewind(upto=1)).upto == 1
            await branch.append([assistant("right")])
            assert (await branch.context(patience=180)).messages == [user("one"), assistant("right")]
            assert (await branch.erase(yes=True)).messages == 2
            with pytest.raises(Erased):
                await branch.context()
