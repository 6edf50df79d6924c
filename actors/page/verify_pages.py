"""Verify pages: the verdict on a conversation, its artifacts with slices of them, and the spans of one trace."""

from __future__ import annotations

import asyncio
import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.audit.evidence import verified
from actors.audit.verify import mentioned
from actors.services.read_back import MESSAGES_PREFIX, read_back
from actors.telemetry.trace_view import SpanRow, read_spans
from protocol.errors import NotFound
from protocol.service_messages import ReadAsked

from .access import is_guarded
from .site import Site, address_in, paged, whole

ARTIFACTS_SHOWN = 100
SLICE_BYTES_MAX = 65_536
SPANS_SHOWN = 1_000
DEPTH_MAX = 8
"""A deeper span is drawn no further to the right."""

_TRACE_ID = re.compile(r"[0-9a-f]{32}")


class SpanLine(msgspec.Struct, frozen=True, kw_only=True):
    """One span with its place in the tree."""

    span: SpanRow
    depth: int


async def verification(request: Request, site: Site) -> Response:
    """Answer with the button, and behind it with the verdict on a conversation."""
    at = address_in(request)
    if not await site.sources.log.head(at) and request.query_params.get("run") != "1":
        raise NotFound(f"there is no conversation {at}", address=str(at))
    found = await verified(at, site.sources) if request.query_params.get("run") == "1" else None
    return site.answer(request, "verify.html", at=at, found=found)


async def artifacts(request: Request, site: Site) -> Response:
    """Answer with the artifacts that the log of a conversation speaks of."""
    story = await site.whole_story(request)
    found = await asyncio.to_thread(mentioned, story.at, story.folded)
    page = paged(sorted(found.items(), key=lambda item: item[1].seq), request, size=ARTIFACTS_SHOWN)
    return site.answer(request, "artifacts.html", at=story.at, page=page)


async def artifact(request: Request, site: Site) -> Response:
    """Answer with a part of an artifact, or of messages as they were said."""
    asked = ReadAsked(
        key=request.path_params["key"],
        lines=request.query_params.get("lines", "").strip(),
        bytes=request.query_params.get("bytes", "").strip(),
        pattern=request.query_params.get("pattern", ""),
        context=whole(request, "context", default=2),
        json_path=request.query_params.get("json_path", "").strip(),
        bytes_max=SLICE_BYTES_MAX,
    )
    at = address_in(request)
    body = await read_back(asked, at=at, log=site.sources.log, artifacts=site.sources.artifacts)
    is_artifact = not asked.key.startswith(MESSAGES_PREFIX)
    text = body.decode("utf-8", "replace")
    return site.answer(request, "artifact.html", at=at, asked=asked, text=text, is_artifact=is_artifact)


async def trace(request: Request, site: Site) -> Response:
    """Answer with the spans of one trace, as far as the local files hold them."""
    at, ident = address_in(request), request.path_params["trace"]
    if not _TRACE_ID.fullmatch(ident):
        raise NotFound("a trace's id has 32 hex digits")
    story = await site.story(request)
    if is_guarded(request) and all(row.trace_id != ident for row in story.rows):
        # spans name a conversation and no tenant: another one's may have the same name
        raise NotFound(f"no version of {at} was made in this trace")
    rows = await asyncio.to_thread(read_spans, site.traces, at.conversation, at.tenant)
    steps = nested([row for row in rows if row.trace_id == ident])
    return site.answer(
        request, "trace.html", at=at, ident=ident, steps=steps[:SPANS_SHOWN], left=len(steps[SPANS_SHOWN:])
    )


def nested(rows: list[SpanRow]) -> list[SpanLine]:
    """Return *rows* each behind its parent, without recursion; a span without a known parent stands at the left."""
    known = {row.span_id for row in rows}
    children: dict[str, list[SpanRow]] = {}
    for row in rows:
        children.setdefault(row.parent_id if row.parent_id in known else "", []).append(row)
    found: list[SpanLine] = []
    drawn: set[str] = set()
    waiting = [(row, 0) for row in reversed(children.get("", []))]
    while waiting:
        row, depth = waiting.pop()
        drawn.add(row.span_id)
        found.append(SpanLine(span=row, depth=min(depth, DEPTH_MAX)))
        waiting += [
            (child, depth + 1) for child in reversed(children.get(row.span_id, [])) if child.span_id not in drawn
        ]
    # parents in a circle: a damaged file, but nothing is hidden
    return found + [SpanLine(span=row, depth=0) for row in rows if row.span_id not in drawn]
