"""Listing: all conversations with their pressure, and one as a timeline of its versions."""

from __future__ import annotations

import logging
import time
from typing import get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.core.known_facts import STAGES
from protocol.errors import Unavailable
from protocol.history import Version
from protocol.semconv import Outcome
from storage.gateway_sessions import Live

from .access import sees
from .change_rows import Undoing, undoings
from .conversation_cache import Story
from .overview import now_of
from .site import Site, address_in, link, paged, whole

log = logging.getLogger("jettison.page")

CONVERSATIONS_SHOWN = 50
VERSIONS_SHOWN = 100
LIVE_SECONDS = 3600
"""A session through a gateway is shown for so long after its last request."""

CHARTED = ("spill", "digest", "squeeze", "cut", "expand", "rewind")
"""Stages that have a mark in the chart; `chart.js` has the same order."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


async def conversations(request: Request, site: Site) -> Response:
    """Answer with the conversations."""
    wanted = request.query_params.get("q", "").strip()
    named = [at for at in await site.sources.log.addresses() if wanted.lower() in str(at).lower()]
    addresses = [at for at in named if sees(request, at)]
    page = paged(addresses, request, size=CONVERSATIONS_SHOWN)
    rows = await site.glances.look(page.items)
    live = [one for one in await _live(site) if sees(request, one.at)]
    return site.answer(request, "conversations.html", rows=rows, page=page, wanted=wanted, live=live)


async def _live(site: Site) -> list[Live]:
    """Return what goes through gateways now; nothing where that cannot be read, since all else can."""
    if site.sessions is None:
        return []
    try:
        return await site.sessions.newest(since_ms=time.time_ns() // 1_000_000 - LIVE_SECONDS * 1000)
    except Unavailable as error:
        log.info("%s", error)
        return []


async def conversation(request: Request, site: Site) -> Response:
    """Answer with the timeline of one conversation."""
    story = await site.story(request)
    stage, outcome = request.query_params.get("stage", ""), request.query_params.get("outcome", "")
    rows = [row for row in reversed(story.rows) if stage in ("", row.stage) and outcome in ("", row.outcome)]
    marks = story.marks[-1] if story.marks else None
    return site.answer(
        request,
        "conversation.html",
        at=story.at,
        now=now_of(story.at, story.state),
        marks=marks,
        damage=story.folded.damage,
        page=paged(rows, request, size=VERSIONS_SHOWN),
        oldest=story.oldest,
        newest=story.newest,
        undoings=_origin(story),
        summary=_summary(story),
        stages=STAGES,
        outcomes=OUTCOMES,
        stage=stage,
        outcome=outcome,
    )


async def chart(request: Request, site: Site) -> Response:
    """Answer with the columns of the chart: version, tokens, usable, trigger, target, stage."""
    story = await site.story(request)
    columns = {
        "version": [row.version for row in story.rows],
        "tokens": [row.after_tokens for row in story.rows],
        "usable": [mark.usable for mark in story.marks],
        "trigger": [mark.trigger for mark in story.marks],
        "target": [mark.target for mark in story.marks],
        "stage": [_stage_applied(row) for row in story.rows],
    }
    return Response(msgspec.json.encode(columns), media_type="application/json")


async def goto(request: Request, site: Site) -> Response:
    """Lead from a form to the version that was typed in."""
    path = f"/c/{address_in(request)}"
    version = whole(request, "version", default=0)
    return Response(status_code=303, headers={"Location": f"{path}/v/{version}" if version else path})


async def goto_why(request: Request, site: Site) -> Response:
    """Lead from a form to the message that was typed in."""
    path = f"/c/{address_in(request)}/why/{whole(request, 'message', default=0)}"
    return Response(status_code=303, headers={"Location": link(path, {}, v=whole(request, "v", default=0) or "")})


def _origin(story: Story) -> list[tuple[int, str, Undoing]]:
    """Return the origin of *story* if it is a fork, and its erasure; each behind its version."""
    found = []
    for row, decision in zip(story.rows, story.folded.commits, strict=True):
        if not row.facts.keys().isdisjoint(("ConversationForked", "ConversationErased", "ConversationRepaired")):
            found += [(row.version, name, fact) for name, fact in undoings(decision.commit)]
    return found


def _stage_applied(row: Version) -> int:
    """Return the place in `CHARTED` of the stage that changed the view, from 1; 0: none did."""
    return CHARTED.index(row.stage) + 1 if row.outcome == "applied" and row.stage in CHARTED else 0


def _summary(story: Story) -> dict[str, int]:
    """Return each stage's counts: changes of the view, failures, views served."""
    found: dict[str, int] = {}
    for row in story.rows:
        name = row.stage or "other"
        if row.outcome != "noop":
            name = name if row.outcome == "applied" else f"{name} {row.outcome}"
        elif name == "serve":
            name = "served"
        else:
            continue
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))
