"""Servers that a test may kill and start again, and what long tests have in common."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsConnection

from actors.host.bootstrap import Runtime
from actors.host.settings import PREFIX, Settings
from protocol import codec
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import Address
from protocol.login import Login
from storage.streams import provision
from tests.said import said_messages
from tests.stack import LOOPBACK, ROOT, free_port, jettison_command, program

DAMAGE = re.compile(r"corrupt|Critical write error|(?<!\[CTX_WAKE\] Stream state encountered internal )inconsisten")
"""In a server's log. Of the work queue it may have to count anew what is left: a sweep finds what is missing there."""

LOST_STREAM = re.compile(r'Stream metafile "(.+)/meta\.inf": checksums do not match "[0-9a-f]*" vs "([0-9a-f]+)"')
"""In a server's log: it was killed between the two files of a stream's configuration, and knows the stream no more."""

only_in_chaos = pytest.mark.skipif("TESTS_CHAOS" not in os.environ, reason="takes long: `make chaos` runs it")


@dataclass(kw_only=True)
class Server:
    """One nats-server process; killed and started again on the same store and port."""

    config: Path
    port: int
    store: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """More than ours: what its configuration names with a dollar."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """Return where clients connect."""
        return f"nats://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Start it; it answers a moment later."""
        with self.log.open("ab") as out:
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(
                [program("nats-server"), "-c", str(self.config)], env=environment, stderr=out, stdout=out
            )

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=180)
            self.process = None

    async def gone(self, *, seconds: float, looks: bool = False) -> list[str]:
        """Kill it, and start it again after a while; return the streams that were lost, where somebody *looks*."""
        self.kill()
        try:
            await asyncio.sleep(seconds)  # the fault lasts
            return await self.looked() if looks else []
        finally:
            self.start()

    async def looked(self) -> list[str]:
        """Do for streams that a killed server does not know any more what `operations.md` says; return which.

        To see them it is started for a moment, elsewhere: nobody is told meanwhile that there are no streams.
        """
        assert self.process is None
        log = self.config.with_suffix(".look")
        command = [program("nats-server"), "-c", str(self.config), "-p", str(free_port())]
        with log.open("wb") as out:
            looking = subprocess.Popen(command, env={**os.environ, **self.environment}, stderr=out, stdout=out)
        try:
            async with asyncio.timeout(180):
                while b"Server is ready" not in log.read_bytes() and looking.poll() is None:
                    await asyncio.sleep(0.05)
        finally:
            looking.kill()
            looking.wait(timeout=180)
        lost = LOST_STREAM.findall(log.read_text(errors="replace"))
        for folder, checksum in lost:
            Path(folder, "meta.sum").write_text(checksum)
        return [Path(folder).name for folder, _ in lost]

    async def silent(self, *, seconds: float) -> None:
        """Stop it for a while, as a machine does that is out of memory or moved to another."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)  # the fault lasts
        finally:
            self.process.send_signal(signal.SIGCONT)

    def damage(self) -> list[str]:
        """Return what it said of damage to what it keeps; the copies of others may hide it from everybody else."""
        return damage(self.log)

    @property
    def log(self) -> Path:
        """Return the file of what it says."""
        return self.config.with_suffix(".log")


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Users that servers know: what their configuration includes, what it names with a dollar, and an operator."""

    include: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    operator: Login = field(default_factory=Login)


EVERYBODY = Rights()
"""Who connects may do everything."""


@asynccontextmanager
async def one(
    folder: Path, *, store: Path | None = None, sync: str = "always", rights: Rights = EVERYBODY, partitions: int = 0
) -> AsyncIterator[Server]:
    """Run one server, provisioned."""
    port = free_port()
    config = folder / f"one-{port}.conf"
    store = store or folder / f"store-{port}"
    config.write_text(
        f'listen: "{LOOPBACK}:{port}"\nmax_payload: 1MB\njetstream {{ store_dir: "{store}", sync_interval: {sync} }}\n'
        f"{rights.include}\n"
    )
    server = Server(config=config, port=port, store=store, environment=rights.environment)
    server.start()
    try:
        connection = await connected(server.url, rights.operator)
        await provision(connection, partitions=partitions)
        await connection.close()
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def three(
    folder: Path,
    *,
    stores: list[Path] | None = None,
    sync: str = "always",
    rights: Rights = EVERYBODY,
    partitions: int = 0,
) -> AsyncIterator[list[Server]]:
    """Run a cluster of three on loopback, provisioned with three replicas."""
    ports = [(free_port(), free_port()) for _ in range(3)]
    routes = ", ".join(f'"nats://{LOOPBACK}:{route}"' for _, route in ports)
    servers = []
    async with AsyncExitStack() as held:
        for number, (port, route) in enumerate(ports):
            store = stores[number] if stores else folder / f"store-{port}"
            config = folder / f"n{number}-{port}.conf"
            config.write_text(
                f'server_name: n{number}\nlisten: "{LOOPBACK}:{port}"\nmax_payload: 1MB\n'
                f'jetstream {{ store_dir: "{store}", sync_interval: {sync} }}\n'
                f'cluster {{ name: three, listen: "{LOOPBACK}:{route}", routes: [{routes}] }}\n'
                f"{rights.include}\n"
            )
            server = Server(config=config, port=port, store=store, environment=rights.environment)
            server.start()
            held.callback(server.kill)
            servers.append(server)
        connection = await connected(",".join(server.url for server in servers), rights.operator)
        await provisioned(connection, partitions=partitions)
        await connection.close()
        yield servers


def damage(log: Path) -> list[str]:
    """Return the lines of a server's log that tell of damage."""
    return logged(log, DAMAGE)


def logged(log: Path, wanted: re.Pattern[str]) -> list[str]:
    """Return the lines of a server's log with *wanted* in them."""
    return [line for line in log.read_text(errors="replace").splitlines() if wanted.search(line)]


async def connected(url: str, login: Login | None = None) -> NatsConnection:
    """Connect as soon as the server answers."""
    options = (login or Login()).options(url)
    async with asyncio.timeout(180):
        while True:
            try:
                return await nats.connect(url.split(","), connect_timeout=1, error_cb=_silent, **options)
            except (OSError, nats.errors.Error):
                await asyncio.sleep(0.05)


async def provisioned(connection: NatsConnection, *, partitions: int = 0) -> None:
    """Provision as soon as the cluster has found its leader."""
    async with asyncio.timeout(180):
        while True:
            try:
                return await provision(connection, replicas=3, partitions=partitions)
            except Exception:
                await asyncio.sleep(0.2)


async def _silent(error: Exception) -> None:
    """Take what is expected here."""


def at_server(settings: Settings, url: str, login: Login | None = None) -> Settings:
    """Return *settings* with another NATS."""
    return msgspec.structs.replace(
        settings, nats=msgspec.structs.replace(settings.nats, url=url, **vars(login or Login()))
    )


def with_own_bucket(settings: Settings) -> Settings:
    """Return *settings* with a store that has no anchors of other tests: all of them are verified."""
    store = msgspec.structs.replace(settings.s3, bucket=f"own-{secrets.token_hex(4)}")
    return msgspec.structs.replace(settings, s3=store)


def said_body(text: str, *, writer: str = "w", count: int = 1) -> bytes:
    """Return an agent's envelope with one message of a user."""
    raw = msgspec.json.encode({"role": "user", "content": text})
    return codec.encode_said(
        codec.Said(writer=writer, count=count, facts=(MessagesAppended(messages=(SaidMessage(raw=raw),)),))
    )


def environment(settings: Settings, **more: str) -> Mapping[str, str]:
    """Return the environment of a program of ours that works on *settings*' servers."""
    # not the switches of these tests either (`TESTS_CHAOS`): a program of ours takes them for settings
    outer = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return {
        **outer,
        "JETTISON_NATS__URL": settings.nats.url,
        "JETTISON_S3__ENDPOINT": settings.s3.endpoint,
        "JETTISON_S3__BUCKET": settings.s3.bucket,
        "JETTISON_S3__ACCESS_KEY": settings.s3.access_key,
        "JETTISON_S3__SECRET_KEY": settings.s3.secret_key,
        "JETTISON_LLM__BASE_URL": settings.llm.base_url,
        "JETTISON_KEYS__FOLDER": settings.keys.folder,
        "JETTISON_KEYS__MAKE": str(settings.keys.make).lower(),
        "JETTISON_DATA": settings.data,
        "OTEL_SDK_DISABLED": "true",
        **more,
    }


async def told_by(settings: Settings, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on *settings*' servers as an operator does."""
    return await asyncio.to_thread(
        subprocess.run,
        [*jettison_command(), *command],
        env=environment(settings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )


async def said_whole(running: Runtime, at: Address) -> list[dict[str, Any]]:
    """Return what was said, with what travelled by claim check put in again."""
    out = []
    for one in await said_messages(at, log=running.log):
        message = messages.decode(one.raw)
        for claim in one.claims:
            text = (await running.artifacts.get(at.tenant, claim.sha256)).decode()
            message = messages.with_leaves(message, {claim.pointer: text})
        out.append(message)
    return out
