"""Probes: what a process that runs on says of itself by HTTP: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from actors.host.bootstrap import Runtime
from actors.host.readiness import Need, Readiness
from actors.host.settings import ProbeSection
from actors.telemetry.exposition import MISSING, exposed, is_installed
from actors.telemetry.service_metrics import record_log, record_queue
from storage.backlog import kept_log, queues

from .http_server import listened, opened
from .session import said

LISTED = "/healthz, /readyz, /metrics"


@asynccontextmanager
async def probed(settings: ProbeSection) -> AsyncIterator[Readiness]:
    """Answer probes while the block runs, where *settings* name a port; yield what is to be told of readiness."""
    readiness = Readiness()
    if not settings.port:
        yield readiness
        return
    listening = opened(settings.listen, settings.port)
    async with listened(probes(readiness), listening, ws="none", access_log=False):
        said(f"probes   http://{settings.listen}:{settings.port} ({LISTED})")
        yield readiness


def probes(readiness: Readiness) -> Starlette:
    """Return the ASGI application that answers for *readiness*."""

    async def healthz(request: Request) -> Response:
        # answered by the loop that works: that it turns is all there is to say
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        ready, told = await readiness.told()
        body = msgspec.json.encode({"ready": ready, **told}) + b"\n"
        return Response(body, status_code=200 if ready else 503, media_type="application/json")

    async def scraped(request: Request) -> Response:
        if not is_installed():
            return PlainTextResponse(f"{MISSING}\n", status_code=501)
        # what is needed says what it is like: queues and the log
        await readiness.told()
        media, body = await asyncio.to_thread(exposed, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": media})

    answers = {"/healthz": healthz, "/readyz": readyz, "/metrics": scraped}
    return Starlette(routes=[Route(path, answer, methods=["GET"]) for path, answer in answers.items()])


def needs_of(running: Runtime, *, store: bool, watches: bool = False) -> dict[str, Need]:
    """Return what a process on *running* needs: NATS with the log, the *store*; *watches* says how the queues are."""
    found = {"nats": Need(ask=running.log.end)}
    if store:
        found["s3"] = Need(ask=running.artifacts.check_bucket)
    if watches:
        found["queues"] = Need(ask=lambda: _watched(running), is_required=False)
    return found


async def _watched(running: Runtime) -> None:
    for one in await queues(running.connection):
        record_queue(one.actor, one.lane, slots=one.slots, age_seconds=one.age_seconds)
    log = await kept_log(running.connection)
    record_log(size_bytes=log.size_bytes, replicas_behind=log.replicas_behind)
