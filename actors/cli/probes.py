"""Probes: what a process that runs on says of itself by HTTP: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from actors.host.bootstrap import Runtime
from actors.host.readiness import Need, Readiness
from actors.host.settings import ProbeSection
from actors.telemetry.exposition import MISSING, exposed, is_installed
from actors.telemetry.service_metrics import record_anchors, record_log, record_queue, record_storage
from storage.backlog import kept_log, queues, room

from .http_server import listening_at, serving
from .session import said

ANCHORS_SECONDS = 600.0

LISTED = "/healthz, /readyz, /metrics"


@asynccontextmanager
async def probed(settings: ProbeSection) -> AsyncIterator[Readiness]:
    """Answer probes while the block runs, where *settings* name a port; yield what is to be told of readiness."""
    readiness = Readiness()
    if not settings.port:
        yield readiness
        return
    listening = listening_at(settings.listen, settings.port, section="probe", by_option=False)
    async with serving(probes(readiness), listening, ws="none", access_log=False):
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


def needs_of(running: Runtime, *, store: bool, watches: bool = False, anchors: bool = False) -> dict[str, Need]:
    """Return the needs of a process on *running*: NATS with the log, the *store*.

    One that *watches* says how the queues are, one with *anchors* how old those are.
    """
    found = {"nats": Need(ask=running.log.end)}
    if store:
        found["s3"] = Need(ask=running.bucket.check_bucket)
    if watches:
        found["queues"] = Need(ask=lambda: _watched(running), is_required=False)
        found["storage"] = Need(ask=lambda: _storage_answers(running), is_required=False)
    if anchors:
        found["anchors"] = Need(ask=_Anchored(running).ask, is_required=False)
    return found


async def _watched(running: Runtime) -> None:
    for one in await queues(running.connection):
        record_queue(one.actor, one.lane, slots=one.slots, age_seconds=one.age_seconds)
    log = await kept_log(running.connection)
    record_log(size_bytes=log.size_bytes, replicas_behind=log.replicas_behind)


async def _storage_answers(running: Runtime) -> None:
    found = await room(running.connection)
    record_storage(used_bytes=found.used_bytes, limit_bytes=found.limit_bytes)


class _Anchored:
    """Says how old the anchors are: to list them all takes a request for each thousand, so now and then."""

    def __init__(self, running: Runtime) -> None:
        self._anchors = running.anchors
        self._oldest: datetime | None = None
        self._read = float("-inf")

    async def ask(self) -> None:
        """Look at the anchors where it is time, and say their age."""
        if time.monotonic() - self._read > ANCHORS_SECONDS:
            self._oldest = await self._anchors.oldest()
            self._read = time.monotonic()
        if self._oldest is not None:
            record_anchors(age_seconds=(datetime.now(UTC) - self._oldest).total_seconds())
