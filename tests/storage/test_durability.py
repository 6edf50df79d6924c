"""Durability: what may lose acknowledged facts is named, and the configurations of `infra/nats` keep their word."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest
from nats.aio.client import Client as NatsConnection
from nats.js.api import DiscardPolicy, StorageType

from actors.host.adapters import tenant_keys
from actors.host.bootstrap import Runtime, runtime, work
from actors.host.settings import Settings
from actors.services.sweeper import Sweeper, Swept
from protocol import subjects
from protocol.client import Client
from protocol.errors import LogUnavailable, NotPermitted
from protocol.ids import Address, address, fresh_id
from protocol.keys import JetStreamKeys
from protocol.subjects import ACTORS
from storage.durability import is_synced, looked_at
from storage.jetstream import JetStreamLog
from storage.log_changes import JetStreamLogChanges
from storage.streams import provision, streams
from storage.sweep_ports import LogChanges
from tests.conftest import settled
from tests.promises.harness import at_server, told_by
from tests.stack import LOOPBACK, free_port, nats_server

ROOT = Path(__file__).parents[2]
CONFIGURATIONS = ROOT / "infra" / "nats"
PASSWORDS = {f"{user.upper()}_PASSWORD": f"{user}-secret" for user in (*ACTORS, "auditor", "operator")}
PASSWORDS["AGENT_PASSWORD_default"] = "agent-default-secret"


@contextmanager
def server(config: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run nats-server with *config* until the end."""
    log = config.parent / f"{environment.get('NATS_NAME', 'one')}.log"
    with nats_server("-c", str(config), log=log, environment=environment) as process:
        yield process


@asynccontextmanager
async def plain(tmp_path: Path, *, sync: str) -> AsyncIterator[tuple[NatsConnection, str]]:
    """Run one server; yield a connection and the URL of its monitoring port."""
    port, monitor = free_port(), free_port()
    config = tmp_path / "plain.conf"
    config.write_text(
        f'listen: "{LOOPBACK}:{port}"\nhttp: "{LOOPBACK}:{monitor}"\n'
        f'jetstream {{ store_dir: "{tmp_path}/store", sync_interval: {sync} }}\n'
    )
    with server(config, {}):
        connection = await connected(f"nats://{LOOPBACK}:{port}")
        try:
            yield connection, f"http://{LOOPBACK}:{monitor}"
        finally:
            await connection.close()


async def connected(url: str, **options: Any) -> NatsConnection:
    """Connect as soon as the server answers."""
    async with asyncio.timeout(180):
        while True:
            try:
                return await nats.connect(url.split(","), connect_timeout=1, **options)
            except (OSError, nats.errors.Error):
                await asyncio.sleep(0.05)


async def test_what_may_lose_acknowledged_facts_is_named(tmp_path: Path) -> None:
    (wanted,) = (one for one in streams() if one.name == subjects.LOG_STREAM)
    async with plain(tmp_path, sync="2m") as (connection, monitor):
        assert await is_synced(monitor) is False
        assert (await looked_at(connection, replicas=3)).hazards == (), "there is no log to lose"
        jetstream = connection.jetstream()
        await jetstream.add_stream(wanted.evolve(storage=StorageType.MEMORY, max_age=3600, max_bytes=10**6))
        kept = await looked_at(connection, replicas=3)
        assert kept.replicas == 1
        assert [one.what for one in kept.hazards] == [
            "it is kept in memory: a restart of the server loses every fact",
            "facts are dropped after 3600 s (max_age)",
            "the oldest facts are dropped at max_bytes 1000000",
            "there are 1 copies of it, wanted are 3",
        ]
        await jetstream.update_stream(
            wanted.evolve(storage=StorageType.MEMORY, max_bytes=10**6, discard=DiscardPolicy.NEW)
        )
        assert [one.what for one in (await looked_at(connection, replicas=1)).hazards] == [
            "it is kept in memory: a restart of the server loses every fact"
        ]


async def test_a_provisioned_server_that_syncs_loses_nothing(tmp_path: Path) -> None:
    async with plain(tmp_path, sync="always") as (connection, monitor):
        await provision(connection)
        assert await is_synced(monitor) is True
        assert (await looked_at(connection, replicas=1)).hazards == ()
    with pytest.raises(LogUnavailable, match="no NATS server answers"):
        await is_synced(monitor)


async def test_the_doctor_says_that_a_power_cut_loses_what_is_not_synced(tmp_path: Path, settings: Settings) -> None:
    async with plain(tmp_path, sync="2m") as (connection, monitor):
        await provision(connection)
        url = connection.connected_url
        assert url is not None
        there = at_server(settings, url.geturl())

        async def found(*more: str) -> dict[str, Any]:
            done = await told_by(there, "doctor", "--json", *more)
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            # other rows may find something too: on a busy machine a store is slow for a moment
            assert done.returncode == (0 if all(row["ok"] for row in rows) else 4), rows
            return dict(next(row for row in rows if row["what"] == "durability"))

        seen, unseen = await asyncio.gather(found("--monitor", monitor), found())
    assert seen == {
        "what": "durability",
        "ok": False,
        "detail": "1 copy, not each write synced: a power cut loses what was acknowledged last",
        "fix": "set `sync_interval: always` in the server's `jetstream` block (infra/nats/prod.conf)",
        "warns": False,
    }
    assert (unseen["ok"], unseen["warns"]) == (True, True)
    assert "cannot be seen from here" in unseen["detail"]


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[str, list[subprocess.Popen[bytes]], NatsConnection]]:
    """Run three servers with `infra/nats/prod.conf`; yield their URLs and processes, and the operator of the log."""
    shutil.copytree(CONFIGURATIONS, tmp_path / "conf")
    ports = [(free_port(), free_port(), free_port()) for _ in range(3)]
    routes = ",".join(f'"nats://{LOOPBACK}:{route}"' for _, route, _ in ports)
    with (
        server(tmp_path / "conf" / "prod.conf", one(tmp_path, 1, ports[0], routes)) as first,
        server(tmp_path / "conf" / "prod.conf", one(tmp_path, 2, ports[1], routes)) as second,
        server(tmp_path / "conf" / "prod.conf", one(tmp_path, 3, ports[2], routes)) as third,
    ):
        url = ",".join(f"nats://{LOOPBACK}:{port}" for port, _, _ in ports)
        operator = await connected(url, user="operator", password="operator-secret")
        try:
            await provisioned(operator)
            yield url, [first, second, third], operator
        finally:
            await operator.close()


def one(tmp_path: Path, number: int, ports: tuple[int, int, int], routes: str) -> dict[str, str]:
    client, route, monitor = ports
    return {
        **PASSWORDS,
        "NATS_NAME": f"n{number}",
        "NATS_LISTEN": f"{LOOPBACK}:{client}",
        "NATS_CLUSTER": f"{LOOPBACK}:{route}",
        "NATS_MONITOR": f"{LOOPBACK}:{monitor}",
        "NATS_STORE": str(tmp_path / f"store-{number}"),
        "NATS_STORE_MAX": "1GB",
        "NATS_ROUTES": f"[{routes}]",
    }


def as_user(settings: Settings, url: str, user: str) -> Settings:
    named = msgspec.structs.replace(settings.nats, url=url, user=user, password=f"{user}-secret")
    return msgspec.structs.replace(settings, nats=named)


@asynccontextmanager
async def working_as_users(settings: Settings, url: str) -> AsyncIterator[Runtime]:
    """Run each actor as its own user, yield cut's; unlike an agent, they may not ask whether somebody serves."""
    async with AsyncExitStack() as held:
        for actor in ACTORS:
            busy = await held.enter_async_context(runtime(as_user(settings, url, actor), role=actor))
            task = asyncio.create_task(work(busy, (actor,)))
            held.push_async_callback(asyncio.wait, [task])
            held.callback(task.cancel)
        yield busy


async def provisioned(operator: NatsConnection) -> None:
    """Provision as soon as the cluster has found its leader."""
    async with asyncio.timeout(180):
        while True:
            try:
                return await provision(operator, replicas=3)
            except Exception:
                await asyncio.sleep(0.2)


async def swept(sweeper: Sweeper) -> Swept:
    """Sweep everything as soon as no other sweeper, the workers' own, is faster."""
    async with asyncio.timeout(180):
        while not (found := await sweeper.sweep(everything=True)).complete:
            await asyncio.sleep(0.1)
    return found


async def changed(changes: LogChanges, *, after: int, upto: int) -> list[Address] | None:
    """Return the conversations that changed; none where the replica that was asked says that it cannot tell."""
    try:
        return [one.at async for one in changes.after(after, upto=upto)]
    except LogUnavailable:
        return None


async def end_of(log: JetStreamLog) -> int:
    """Return the end of the log as soon as a leader tells it."""
    async with asyncio.timeout(180):
        while True:
            try:
                return await log.end()
            except LogUnavailable:
                await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_replica_that_lags_hides_no_change_from_the_sweeper(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, processes, operator):
        log, changes, heard = JetStreamLog(operator), JetStreamLogChanges(operator), list[bool]()
        for number, late in enumerate(processes * 2):
            start = await end_of(log)
            talks = [address(f"lag-{number}-{index}") for index in range(40)]
            late.send_signal(signal.SIGSTOP)
            try:
                said = asyncio.gather(*(log.say(at, bytes(100_000), message_id=fresh_id(), headers={}) for at in talks))
                await asyncio.sleep(0.5)  # the lag lasts
            finally:
                late.send_signal(signal.SIGCONT)
            await said
            end = await end_of(log)
            told = await asyncio.gather(*(changed(changes, after=start, upto=end) for _ in range(8)))
            heard += [set(found) == set(talks) for found in told if found is not None]
        assert heard
        assert all(heard)


@pytest.mark.slow
async def test_three_servers_go_on_without_one_and_each_user_may_what_it_needs(
    tmp_path: Path, settings: Settings
) -> None:
    async with cluster(tmp_path) as (url, processes, operator):
        await provision(operator)
        assert (await looked_at(operator, replicas=3)).replicas == 3, "provisioning again keeps the copies"
        async with (
            Client.connect(
                url, user="agent-default", password="agent-default-secret", keys=tenant_keys(settings)
            ) as agent,
            working_as_users(settings, url) as busy,
        ):
            talk = await agent.open(f"cluster-{fresh_id()}")
            await talk.append([{"role": "user", "content": "one"}])
            assert (await talk.context(patience=180)).upto == 1
            assert (await swept(busy.sweeper())).looked_at == 1
            processes[0].kill()
            await talk.append([{"role": "user", "content": "two"}])
            assert (await talk.context(patience=180)).upto == 2
            assert (await settled(busy, talk.at)).messages == 2
            # an agent speaks for its own tenant only
            hasty = JetStreamLog(agent.connection)
            with pytest.raises(NotPermitted):
                await hasty.say(address("theirs", "other"), b"", message_id=fresh_id(), headers={})
            with pytest.raises(NotPermitted):
                await hasty.append(talk.at, b"", expected_seq=0, commit_id=fresh_id(), headers={})
            theirs = JetStreamKeys(agent.connection, read="direct")
            for asked in (theirs.known, theirs._made):
                with pytest.raises(NotPermitted):
                    await asked(address("theirs", "other"))
            assert agent.keys is not None
            assert await agent.keys.known(talk.at) is not None
        async with runtime(as_user(settings, url, "auditor"), role="auditor") as auditor:
            said = [record for record in await auditor.log.read(talk.at, after=0) if record.side == "said"]
            assert len(said) >= 3
