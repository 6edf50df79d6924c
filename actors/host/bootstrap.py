"""Bootstrap: put stores, rules and shells together, for one process."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import stamina.instrumentation
from nats.aio.client import Client as NatsConnection

from actors.model_info.tokens import counter
from actors.model_info.windows import window_of
from actors.runtime.conversations import Conversations
from actors.runtime.dispatch import Steps
from actors.runtime.quarantine import Quarantine
from actors.runtime.task_group import together
from actors.runtime.worker import Worker
from actors.services.context_service import ContextService
from actors.services.sweeper import Sweeper
from actors.squeeze.model import ModelSettings, OpenAiModel
from protocol import policy as policies
from protocol.connection import connect
from protocol.ids import fresh_id
from protocol.keys import FolderKeys, JetStreamKeys, TenantKeys
from protocol.subjects import ACTORS, Actor
from storage.dead_letters import JetStreamDeadLetters
from storage.encrypted import EncryptedLog, EncryptedSnapshots
from storage.in_progress import JetStreamBegun
from storage.jetstream import JetStreamLog, JetStreamSnapshots
from storage.log_changes import Changes
from storage.s3 import S3Artifacts, S3Settings
from storage.stuck_slots import Ghosts
from storage.wakes import JetStreamWakes

from .sandbox import ProcessSandbox
from .settings import Settings


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Everything that a worker, a service or a command works with."""

    settings: Settings
    connection: NatsConnection
    log: EncryptedLog
    artifacts: S3Artifacts
    wakes: JetStreamWakes
    conversations: Conversations
    steps: Steps
    dead_letters: JetStreamDeadLetters
    changes: Changes
    snapshots: EncryptedSnapshots
    name: str
    tenants: TenantKeys | None

    def worker(self, actor: Actor) -> Worker:
        """Return a worker of *actor*."""
        return Worker(
            actor=actor,
            wakes=self.wakes,
            conversations=self.conversations,
            steps=self.steps,
            dead_letters=self.dead_letters,
            quarantine=Quarantine(
                actor=actor,
                worker=self.name,
                begun=JetStreamBegun(self.connection),
                sandbox=ProcessSandbox(settings=self.settings),
            ),
            announcer=self.connection,
            name=self.name,
        )

    def sweeper(self) -> Sweeper:
        """Return a sweeper."""
        return Sweeper(
            log=self.log,
            changes=self.changes,
            conversations=self.conversations,
            wakes=self.wakes,
            dead_letters=self.dead_letters,
            ghosts=Ghosts(self.connection),
        )

    def context_service(self) -> ContextService:
        """Return a context service."""
        return ContextService(
            connection=self.connection,
            conversations=self.conversations,
            artifacts=self.artifacts,
            log=self.log,
            wakes=self.wakes,
            begun=JetStreamBegun(self.connection),
        )


@asynccontextmanager
async def runtime(settings: Settings, *, role: str) -> AsyncIterator[Runtime]:
    """Connect to NATS and make everything else; nothing is created on the server.

    Raises `LogUnavailable` within two seconds if NATS does not answer.
    """
    # whoever waits says so; the default hooks log each wait once more, through structlog even to stdout
    stamina.instrumentation.set_on_retry_hooks(())
    options = {"user": settings.nats.user, "password": settings.nats.password} if settings.nats.user else {}
    connection = await connect(settings.nats.url, name=f"jettison-{role}", options=options)
    artifacts = S3Artifacts(S3Settings(**msgspec.structs.asdict(settings.s3)))
    tenants = tenant_keys(settings)
    keys = JetStreamKeys(connection, tenants=tenants)
    log = EncryptedLog(JetStreamLog(connection), keys=keys)
    name = writer_name(role)
    snapshots = EncryptedSnapshots(JetStreamSnapshots(connection), keys=keys, artifacts=artifacts)
    conversations = Conversations(log=log, snapshots=snapshots, writer=name)
    has_model = settings.llm.base_url or settings.llm.api_key
    # a layer that cannot be used would refuse every new conversation
    policies.resolve([settings.policy])
    model = OpenAiModel(ModelSettings(**msgspec.structs.asdict(settings.llm))) if has_model else None
    try:
        yield Runtime(
            settings=settings,
            connection=connection,
            log=log,
            artifacts=artifacts,
            wakes=JetStreamWakes(connection),
            conversations=conversations,
            steps=Steps(artifacts=artifacts, layers=(settings.policy,), model=model),
            dead_letters=JetStreamDeadLetters(connection),
            changes=Changes(connection),
            snapshots=snapshots,
            name=name,
            tenants=tenants,
        )
    finally:
        await connection.close()
        artifacts.close()
        if model is not None:
            await model.close()


async def work(running: Runtime, actors: Iterable[Actor] = ACTORS) -> None:
    """Run workers of *actors* until cancelled; the cut actor's process also serves contexts, and sweeps.

    Raises the first error that makes working impossible: a missing consumer, a closed connection.
    """
    actors = tuple(actors)
    await warmed(running, actors)
    async with together() as group:
        for actor in actors:
            group.create_task(running.worker(actor).run(), name=f"worker-{actor}")
            if actor == "cut":
                group.create_task(running.context_service().run(), name="context-service")
                # here, since this process has the states of those whose agents ask
                group.create_task(running.sweeper().run(), name="sweeper")


async def warmed(running: Runtime, actors: Iterable[Actor]) -> None:
    """Load what a first turn would wait for: the tokenizer (0.3 s), the models' table (0.4), squeeze's client (1)."""
    await asyncio.to_thread(counter, "o200k_base")
    if "spill" in actors:
        await asyncio.to_thread(window_of, "gpt-4o")
    if "squeeze" in actors and running.steps.model is not None:
        await asyncio.to_thread(importlib.import_module, "openai")


def writer_name(role: str) -> str:
    """Return the name under which this process commits: for people, never for decisions."""
    return f"{role}@{socket.gethostname()[:32]}:{os.getpid()}:{fresh_id()[:6]}"


def tenant_keys(settings: Settings) -> TenantKeys | None:
    """Return what wraps the keys of conversations; none where the log is kept in plain text."""
    if not settings.keys.folder:
        return None
    return FolderKeys(folder=Path(settings.keys.folder), makes=settings.keys.make)


def with_endpoints(settings: Settings, *, nats_url: str, s3: S3Settings) -> Settings:
    """Return *settings* pointed at other servers."""
    return msgspec.structs.replace(
        settings,
        nats=msgspec.structs.replace(settings.nats, url=nats_url),
        s3=msgspec.structs.replace(
            settings.s3, endpoint=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key
        ),
    )


def data_folder(settings: Settings) -> Path:
    """Return the folder of the embedded stack and the local traces."""
    if settings.data:
        return Path(settings.data)
    from platformdirs import user_data_path

    return user_data_path("jettison")
