"""Serve commands, which run until they are told to stop: `up`, `worker`; and `provision`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

import stamina

from actors.audit.anchoring import Anchoring
from actors.host.bootstrap import ROLES, ProcessRole, Runtime, data_folder, runtime, work
from actors.host.readiness import Readiness
from actors.host.settings import Settings
from actors.runtime.registry import ACTOR_SPECS
from actors.runtime.worked import WORKED
from protocol.errors import ArtifactsUnavailable, LogUnavailable, Unavailable
from protocol.outages import Outage
from protocol.subjects import ACTORS

from .options import StackOptions, WrongUsage
from .probes import needs_of, probed
from .session import connected, located, prepared, printed, run, said, settings_of, started_stack
from .terminal_text import counted

LAST_ANCHOR_SECONDS = 5.0
"""What is written last must not hold up who wants to stop."""

TELL_SECONDS = 60.0
"""A worker says what it did once a minute at most: more is what metrics and traces are for."""

RECONNECT_SECONDS_MAX = 5.0
"""Between two attempts of a worker to reach a NATS or a store that does not answer."""

WAITED_FOR = (LogUnavailable, ArtifactsUnavailable)


def up(stack: StackOptions, *, nats_port: int | None, s3_port: int | None, with_gateway: bool = False) -> int:
    """Start the embedded stack and all actors; see `jettison up --help`."""
    settings = settings_of(stack)
    return run(_up(settings, nats_port, s3_port, with_gateway), service="jettison", settings=settings, probed=True)


def worker(stack: StackOptions, *, role: str, alone: bool = False) -> int:
    """Run one worker; see `jettison worker --help`."""
    if role not in ROLES:
        raise WrongUsage(f"there is no actor {role!r}; choose from {', '.join(ROLES)}")
    settings = settings_of(stack)
    return run(_worker(located(settings), role, alone), service=f"worker-{role}", settings=settings, probed=True)


def provision(stack: StackOptions, *, replicas: int, partitions: int) -> int:
    """Create streams, consumers and bucket; see `jettison provision --help`."""
    settings = settings_of(stack)
    provisioning = _provision(located(settings), replicas, partitions)
    return run(provisioning, service="provision", settings=settings, trace=False)


def repartition(stack: StackOptions, *, partitions: int, as_json: bool) -> int:
    """Move shards until the log has so many *partitions*; see `jettison repartition --help`."""

    async def main(running: Runtime) -> int:
        found = await running.moving(told=said).grow(partitions)
        if as_json:
            printed(found)
        else:
            said(
                f"{found.partitions} partitions: {counted(found.shards, 'shard')} moved, with "
                f"{counted(found.conversations, 'conversation')} and {counted(found.records, 'record')}"
            )
        return 0

    return connected(main, stack, role="repartition")


def sweep(stack: StackOptions, *, everything: bool, as_json: bool) -> int:
    """Sweep once; see `jettison sweep --help`."""

    async def main(running: Runtime) -> int:
        found = await running.sweeper().sweep(everything=everything)
        if as_json:
            printed(found)
        else:
            told = f"{found.looked_at} looked at, {found.open} open, {found.woken} woken, {found.parked} dead letters"
            said(f"{told}, {found.freed} slots freed that were done")
        return 0

    return connected(main, stack, role="sweep")


async def _up(settings: Settings, nats_port: int | None, s3_port: int | None, with_gateway: bool) -> int:
    said("starting NATS and S3 …")
    async with (
        started_stack(settings, owner="up", nats_port=nats_port, s3_port=s3_port) as (ours, stack),
        runtime(ours, role="up") as running,
        _gateway(ours) if with_gateway else nullcontext() as gateway,
        probed(settings.probe) as readiness,
    ):
        said(f"NATS     {ours.nats.url}")
        said(
            f"S3       {ours.s3.endpoint} (bucket {ours.s3.bucket}; credentials in {data_folder(ours)}/s3.credentials)"
        )
        said(f"data     {data_folder(ours)}")
        said(f"keys     {ours.keys.folder} (agents that encrypt: Client.connect(url, keys=FolderKeys(folder=…)))")
        said(f"actors   {', '.join(ACTORS)}")
        if gateway:
            said(f"gateway  OPENAI_BASE_URL={gateway}v1 or ANTHROPIC_BASE_URL={gateway[:-1]}")
        said(f"ready    agents connect to {ours.nats.url}; Ctrl-C stops everything")
        working = asyncio.create_task(work(running))
        failing = asyncio.create_task(stack.failed())
        anchoring = asyncio.create_task(_anchored(running, seconds=settings.anchor.seconds))
        try:
            with readiness.needs(needs_of(running, store=True, watches=True, anchors=True)):
                done, _ = await asyncio.wait({working, failing, anchoring}, return_when=asyncio.FIRST_COMPLETED)
            if failing in done:
                raise Unavailable(f"the embedded stack stopped: {failing.result()}")
            for task in done:
                await task
        finally:
            for task in (working, failing, anchoring):
                task.cancel()
            await asyncio.gather(working, failing, anchoring, return_exceptions=True)
            said("stopping …")
    return 0


def _gateway(settings: Settings) -> AbstractAsyncContextManager[str]:
    from .gateway import served, tell_requests  # what it needs is loaded by who serves it alone

    tell_requests()
    return served(settings)


async def _anchored(running: Runtime, *, seconds: float) -> None:
    """Write anchors now and then, and a last one when the stack is told to stop; never return before."""
    anchoring = Anchoring(log=running.log, anchors=running.anchors)
    try:
        await (anchoring.every(seconds) if seconds else asyncio.Future())
    finally:
        if seconds:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(LAST_ANCHOR_SECONDS):
                    await anchoring.all_tenants()


async def _worker(settings: Settings, role: ProcessRole, alone: bool = False) -> int:
    outage = Outage(said, f"{role} waits")
    # the outage says so; the default hooks log each wait once more, through structlog even to stdout
    stamina.instrumentation.set_on_retry_hooks(())
    async with probed(settings.probe) as readiness:
        async for attempt in stamina.retry_context(
            on=WAITED_FOR, attempts=None, timeout=None, wait_initial=0.5, wait_max=RECONNECT_SECONDS_MAX
        ):
            with attempt:
                await _worked(settings, role, alone, outage, readiness)
    return 0


async def _worked(settings: Settings, role: ProcessRole, alone: bool, outage: Outage, readiness: Readiness) -> None:
    """Work until NATS is lost, and say so; a store that is down at the start is waited for as well."""
    specs = [spec for actor, spec in ACTOR_SPECS.items() if role in (actor, "all")]
    beside = not alone and any(spec.serves for spec in specs)
    sweeps = role == "sweeper" or beside
    # who answers has the store, and there is one wherever the sweeper is a process of its own
    answers = role == "service" or beside
    store = answers or any(spec.needs_store for spec in specs)
    try:
        async with runtime(settings, role=role) as running:
            if store:
                # without a store this worker would take work from those that have one, and degrade it
                await running.bucket.prepare()
            outage.succeeded()
            said(f"{role} works on {settings.nats.url}")
            with readiness.needs(needs_of(running, store=store, watches=sweeps, anchors=answers)):
                async with _telling():
                    await work(running, (role,), alone=alone)
    except WAITED_FOR as error:
        outage.failed(str(error))
        raise


@asynccontextmanager
async def _telling() -> AsyncIterator[None]:
    """Say once a minute what was done, where something was."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            for line in WORKED.drained():
                said(f"in {TELL_SECONDS:.0f} s  {line}")

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _provision(settings: Settings, replicas: int, partitions: int) -> int:
    async with runtime(settings, role="provision") as running:
        await prepared(running, replicas=max(replicas, settings.nats.replicas), partitions=partitions)
    said(f"provisioned {settings.nats.url} and bucket {settings.s3.bucket}")
    return 0
