"""Bootstrap: put stores, rules and shells together, for one process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from nats.aio.client import Client as NatsConnection

from actors.runtime.conversations import Conversations
from actors.runtime.listing import Listing
from actors.runtime.stepping import Effects
from actors.runtime.task_group import together
from actors.runtime.under_way import UnderWay
from protocol.connecting import connect
from protocol.ids import fresh_id
from protocol.keys import FolderKeys
from protocol.login import parted
from protocol.subjects import ACTORS, Actor, Verb
from storage.connections import WORKERS, connection_name
from storage.s3 import S3Artifacts
from storage.work_ports import Reason

from .adapters import Stores, log_of_partition, objects, stores_on, tenant_keys
from .sandbox import ProcessSandbox
from .settings import Settings

# What a process does is imported where it begins: half a second of CPU, and most commands only read.
if TYPE_CHECKING:
    from actors.audit.archiving import Archiving
    from actors.audit.erasing import Erasing
    from actors.audit.moving import Moving
    from actors.audit.retaining import Retaining
    from actors.runtime.quarantine import Sandbox
    from actors.runtime.worker import Worker
    from actors.services.context_service import ContextService
    from actors.services.sweeper import Sweeper
    from actors.squeeze.model import OpenAiModel
    from protocol.service_messages import Answering

ProcessRole = Actor | Literal["service", "sweeper", "all"]
"""What a worker's process does: an actor's work, answers to agents, looking for what was forgotten, or all of it."""
ROLES: tuple[ProcessRole, ...] = (*ACTORS, "service", "sweeper", "all")


@dataclass(frozen=True, kw_only=True)
class Process(Stores):
    """The stores of one process, and all that its actors, sweeper and context service work with beside them."""

    conversations: Conversations
    effects: Effects
    sandbox: Sandbox
    name: str
    under_way: UnderWay = field(default_factory=UnderWay)

    def worker(self, actor: Actor) -> Worker:
        """Return a worker of *actor*."""
        from actors.runtime.quarantine import Quarantine
        from actors.runtime.worker import Worker

        return Worker(
            actor=actor,
            wakes=self.wakes,
            conversations=self.conversations,
            effects=self.effects,
            dead_letters=self.dead_letters,
            quarantine=Quarantine(actor=actor, worker=self.name, in_progress=self.in_progress, sandbox=self.sandbox),
            announcer=self.announcer,
            name=self.name,
            under_way=self.under_way,
        )

    def sweeper(self) -> Sweeper:
        """Return a sweeper."""
        from actors.services.sweeper import Sweeper

        return Sweeper(
            log=self.log,
            changes=self.changes,
            conversations=self.conversations,
            wakes=self.wakes,
            dead_letters=self.dead_letters,
            stuck_slots=self.stuck_slots,
            listing=self.listing(),
        )

    def listing(self) -> Listing:
        """Return the list of all conversations."""
        return Listing(self.kept_list, keys=self.keys)

    def context_service(self) -> ContextService:
        """Return a context service."""
        from actors.audit.forking import Forking
        from actors.services.context_service import ContextService

        return ContextService(
            requests=self.requests,
            conversations=self.conversations,
            artifacts=self.artifacts,
            log=self.log,
            wakes=self.wakes,
            in_progress=self.in_progress,
            layers=self.effects.layers,
            forks=Forking(conversations=self.conversations, log=self.log, artifacts=self.artifacts),
            others=self.others(),
            under_way=self.under_way,
        )

    def archiving(self) -> Archiving:
        """Return the archiver."""
        from actors.audit.archiving import Archiving

        return Archiving(
            erasure=self.erasure,
            stored=self.stored,
            log=self.log,
            keys=self.keys,
            archives=self.archives,
            conversations=self.conversations,
        )

    def erasing(self) -> Erasing:
        """Return the eraser."""
        from actors.audit.erasing import Erasing

        return Erasing(
            erasure=self.erasure,
            stored=self.stored,
            log=self.log,
            keys=self.keys,
            changes=self.changes,
            snapshots=self.snapshots,
            artifacts=self.artifacts,
            archives=self.archives,
            listing=self.listing(),
        )

    def others(self) -> Mapping[Verb, Answering]:
        """Return the functions that answer questions about the past, and the one that erases."""
        from actors.audit.asked import Eraser, History

        return {
            **History(log=self.log, artifacts=self.artifacts).verbs,
            **Eraser(erasing=self.erasing()).verbs,
        }


@dataclass(frozen=True, kw_only=True)
class Runtime(Process):
    """A process that is connected to NATS and S3; what only these can do, such as provisioning, asks for them."""

    settings: Settings
    connection: NatsConnection
    bucket: S3Artifacts
    """Where the adapters keep artifacts, archives and anchors: for who makes, copies or checks it as a whole."""
    tenants: FolderKeys | None

    @property
    def by(self) -> str:
        """Return the name that a command writes down: its user of NATS, if it has one, and its process."""
        _, login = parted(self.settings.nats.url, self.settings.nats.login())
        return f"{login.who}, {self.name}" if login.names_somebody else self.name

    def moving(self, *, told: Callable[[str], None]) -> Moving:
        """Return the mover of shards to other partitions of the log; it tells how far it is."""
        from actors.audit.moving import Moving

        log_of = partial(log_of_partition, self.connection)
        return Moving(self.connection, log_of=log_of, wakes=self.wakes, told=told)

    def retaining(self) -> Retaining:
        """Return the keeper of the retention policy."""
        from actors.audit.retaining import Retaining

        return Retaining(
            archiving=self.archiving(),
            erasing=self.erasing(),
            layers=self.settings.layers,
            rules=self.settings.rules_written,
        )


@asynccontextmanager
async def runtime(settings: Settings, *, role: str) -> AsyncIterator[Runtime]:
    """Connect to NATS and to the stores (`adapters.py`); nothing is created on the server.

    Raises `LogUnavailable` within two seconds if NATS does not answer.
    """
    connection = await connect(
        settings.nats.url,
        name=connection_name(role, writes=settings.rules_written),
        login=settings.nats.login(),
    )
    bucket, tenants, name = objects(settings), tenant_keys(settings), writer_name(role)
    stores = stores_on(connection, bucket, tenants=tenants, writes_snapshots=role in WORKERS)
    conversations = Conversations(log=stores.log, snapshots=stores.snapshots, writer=name, rules=settings.rules_written)
    # a layer that cannot be used would refuse every new conversation
    settings.layers.check()
    model = _model(settings)
    sandbox = ProcessSandbox(settings=settings)
    try:
        yield Runtime(
            **vars(stores),
            settings=settings,
            connection=connection,
            bucket=bucket,
            conversations=conversations,
            effects=Effects(artifacts=stores.artifacts, layers=settings.layers, model=model),
            sandbox=sandbox,
            name=name,
            tenants=tenants,
        )
    finally:
        await sandbox.close()
        await conversations.snapshots_due.finished()
        await connection.close()
        bucket.close()
        if model is not None:
            await model.close()


def _model(settings: Settings) -> OpenAiModel | None:
    if not (settings.llm.base_url or settings.llm.api_key):
        return None
    import stamina.instrumentation

    from actors.squeeze.model import OpenAiModel

    # whoever waits says so; the default hooks log each wait once more, through structlog even to stdout
    stamina.instrumentation.set_on_retry_hooks(())
    return OpenAiModel(base_url=settings.llm.base_url, api_key=settings.llm.api_key)


async def work(running: Process, roles: Iterable[ProcessRole] = ACTORS, *, alone: bool = False) -> None:
    """Work in *roles* until cancelled; the process of one actor also serves contexts and sweeps, unless it is *alone*.

    Raises the first error that makes working impossible: a missing consumer, a closed connection.
    """
    from actors.runtime.registry import ACTOR_SPECS
    from actors.telemetry.service_metrics import record_letter

    wanted = tuple(roles)
    actors = [actor for actor in ACTORS if actor in wanted or "all" in wanted]
    beside = not alone and any(ACTOR_SPECS[actor].serves for actor in actors)
    await warmed(running, actors)
    for actor, reason in product(actors, get_args(Reason)):
        record_letter(actor, reason, letters=0)
    async with together() as group:
        for actor in actors:
            group.create_task(running.worker(actor).run(), name=f"worker-{actor}")
        if beside or "service" in wanted:
            group.create_task(running.context_service().run(), name="context-service")
            if running.hearing is not None:
                group.create_task(running.hearing.run(), name="hearing")
        if beside or "sweeper" in wanted:
            group.create_task(running.sweeper().run(), name="sweeper")


async def warmed(running: Process, actors: Iterable[Actor]) -> None:
    """Load what a first delivery waits for: the tokenizer (0.3 s), the models' table (0.4), squeeze's client (1)."""
    from actors.model_info.tokens import counter
    from actors.runtime.registry import ACTOR_SPECS

    await asyncio.to_thread(counter, "o200k_base")
    for actor in actors:
        await asyncio.to_thread(ACTOR_SPECS[actor].warm, running.effects.tools)


def writer_name(role: str) -> str:
    """Return the name under which this process commits: for people, never for decisions."""
    return f"{role}@{socket.gethostname()[:32]}:{os.getpid()}:{fresh_id()[:6]}"


def data_folder(settings: Settings) -> Path:
    """Return the folder of the embedded stack and the local traces."""
    if settings.data:
        return Path(settings.data)
    from platformdirs import user_data_path

    return user_data_path("jettison")
