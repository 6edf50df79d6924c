"""Version pages: one version in full, two versions compared, why a message is as it is, and where a text is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.audit.call_views import cut_view
from actors.audit.diff import diff, grouped, text_diff
from actors.audit.loss import loss
from actors.audit.text import digest_text, text_of
from actors.audit.trail import DIGEST, touches
from actors.audit.versions import Rebuilt, rebuilt, served_fact
from actors.audit.where import claimed, in_short, where
from actors.audit.why import why
from actors.core.state import State
from actors.core.view import View, message_bytes, view
from actors.runtime.fold import Decision, count_of
from protocol.errors import ArtifactDamaged, BudgetRefused, NotFound, NotReady, Rejected
from protocol.formats.messages import Profile
from protocol.history import Diff, Row, Span, Where
from storage.ports import Artifacts

from .change_rows import undoings
from .conversation_cache import Story
from .escape import Clipped, shown
from .site import Site, number_of, paged, whole

GROUPS_SHOWN = 100
LINES_SHOWN = 60
"""Of one change in a diff, unless all are asked for."""

FULL_LINES_SHOWN = 5_000
LINE_CHARS_SHOWN = 4_000

SPANS_SHOWN = 100
PLACES_SHOWN = 100
PROFILES = get_args(Profile)


class MessageShown(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a view. `number` 0 is the digest."""

    number: int
    role: str
    tokens: int
    changed: bool
    text: Clipped


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbours in a diff to which the same was done; one alone has its `lines`."""

    did: str
    rows: Sequence[Row]
    lines: Sequence[str] = ()
    left: int = 0
    """Lines that are not shown."""

    @property
    def before_tokens(self) -> int:
        """Return the tokens before."""
        return sum(row.before_tokens for row in self.rows)

    @property
    def after_tokens(self) -> int:
        """Return the tokens after."""
        return sum(row.after_tokens for row in self.rows)

    @property
    def versions(self) -> tuple[int, ...]:
        """Return the first and the last version that did it."""
        found = sorted({row.version for row in self.rows if row.version})
        return (found[0], found[-1]) if found else ()


async def version(request: Request, site: Site) -> Response:
    """Answer with one version in full: its messages, or with `as=sent` the bytes of each."""
    story = await site.story(request)
    number = number_of(request.path_params["version"], "a version")
    index = story.index(number)
    decision = story.folded.commits[index]
    profile = request.query_params.get("profile", "")
    if profile and profile not in PROFILES:
        raise Rejected(f"a profile is one of {', '.join(PROFILES)}, not {profile!r:.40}")
    seen, refused, served = await asyncio.to_thread(_seen, decision, cast(Profile, profile) if profile else None)
    state = decision.before if served is not None else decision.after
    as_sent = request.query_params.get("as") == "sent"
    changed = touches(decision)
    call = await asyncio.to_thread(cut_view, decision)
    lost = await asyncio.to_thread(loss, decision.before, decision.after) if changed else None
    return site.answer(
        request,
        "version.html",
        at=story.at,
        row=story.rows[index],
        commit=decision.commit,
        marks=story.marks[index],
        oldest=story.oldest,
        newest=story.newest,
        erased=decision.after.erased,
        undoings=undoings(decision.commit),
        seen=seen,
        refused=refused,
        served=served,
        sent=[shown(_pretty(raw)) for raw in seen.messages] if seen is not None and as_sent else [],
        as_sent=as_sent,
        messages=[] if as_sent else _messages(state, seen),
        touches=(*changed, *(call.touches if call is not None else ())),
        loss=lost if lost is not None and lost.rows else None,
        profile=profile,
        profiles=PROFILES,
    )


async def served_bytes(request: Request, site: Site) -> Response:
    """Answer with the exact bytes of a served context, to be kept as a file."""
    story = await site.story(request)
    number = number_of(request.path_params["version"], "a version")
    decision = story.folded.commits[story.index(number)]
    if served_fact(decision) is None:
        raise NotFound(f"no context was served at version {number} of {story.at}")
    found = await asyncio.to_thread(rebuilt, decision)
    if not found.same or found.view is None:
        raise NotFound(f"version {number} cannot be rebuilt as it was served: {found.refused or 'other bytes'}")
    name = f"{story.at.conversation}-{number}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}
    return Response(found.view.body, media_type="application/json", headers=headers)


async def difference(request: Request, site: Site) -> Response:
    """Answer with what lies between two versions."""
    story = await site.whole_story(request)
    newest = story.newest
    newer = whole(request, "b", default=newest)
    older = whole(request, "a", default=max(1, newer - 1))
    found: Diff = await asyncio.to_thread(diff, story.at, story.folded, older=older, newer=newer)
    full = request.query_params.get("full") == "1"
    changed = request.query_params.get("only") == "changed"
    rows = [row for row in found.rows if row.did != "kept"] if changed else found.rows
    page = paged([Group(did=did, rows=some) for did, some in grouped(rows)], request, size=GROUPS_SHOWN)
    groups = await asyncio.to_thread(lambda: [_with_lines(group, full=full) for group in page.items])
    return site.answer(
        request,
        "diff.html",
        at=story.at,
        found=found,
        page=page,
        groups=groups,
        newest=newest,
        full=full,
        changed=changed,
    )


async def explanation(request: Request, site: Site) -> Response:
    """Answer with the history of one message."""
    story = await site.whole_story(request)
    number = number_of(request.path_params["message"], "a message")
    upto = whole(request, "v", default=0) or None
    found = await asyncio.to_thread(why, story.at, story.folded, number=number, version=upto)
    return site.answer(
        request, "why.html", at=story.at, found=found, text=shown(found.text), upto=upto, newest=story.newest
    )


async def search(request: Request, site: Site) -> Response:
    """Answer with where a text is."""
    story = await site.whole_story(request)
    text = request.query_params.get("text", "")
    found: Where | None = None
    spans: tuple[Span, ...] = ()
    if text:
        uploads = {key: await _upload(story, key, site.sources.artifacts) for key in claimed(story.at, story.folded)}
        found = await asyncio.to_thread(where, story.at, story.folded, text=text, uploads=uploads)
        spans = in_short(found)
    return site.answer(
        request,
        "where.html",
        at=story.at,
        text=text,
        found=found,
        spans=spans[-SPANS_SHOWN:],
        earlier=max(0, len(spans) - SPANS_SHOWN),
        places=found.places[:PLACES_SHOWN] if found else (),
    )


def _seen(decision: Decision, profile: Profile | None) -> tuple[View | None, str, Rebuilt | None]:
    """Return the view at a version, why there is none, and the served context that it was made for."""
    if served_fact(decision) is not None and profile is None:
        found = rebuilt(decision)
        return found.view, found.refused, found
    state = decision.after
    if state.policy is None:
        return None, "there is no policy yet", None
    try:
        return view(state, budget=state.usable_tokens, count=count_of(state), profile=profile), "", None
    except (BudgetRefused, NotReady) as error:
        return None, str(error), None


def _messages(state: State, seen: View | None) -> list[MessageShown]:
    """Return the messages in the view with the digest in its place; where there is no view, what the state holds."""
    entries = state.entries
    if seen is not None:
        there = set(seen.numbers)
        entries = tuple(entry for entry in entries if entry.number in there)
    found = [
        MessageShown(
            number=entry.number,
            role=entry.role,
            tokens=entry.tokens,
            changed=message_bytes(entry) != [entry.raw],
            text=shown(text_of(entry)),
        )
        for entry in entries
    ]
    if state.digest is None or (seen is not None and not seen.categories.get("digest")):
        return found
    text = shown(digest_text(state))
    digest = MessageShown(number=DIGEST, role="digest", tokens=state.digest.tokens, changed=True, text=text)
    head = next((index for index, entry in enumerate(entries) if not entry.leading), len(entries))
    return [*found[:head], digest, *found[head:]]


def _pretty(raw: bytes) -> str:
    """Return a message's JSON with line ends; what it says is not changed."""
    return msgspec.json.format(raw, indent=2).decode("utf-8", "replace")


def _with_lines(group: Group, *, full: bool) -> Group:
    if len(group.rows) > 1 or group.did == "kept":
        return group
    (row,) = group.rows
    if row.before and row.after:
        lines = text_diff(row.before, row.after)
    else:
        lines = [*("-" + line for line in _lines(row.before)), *("+" + line for line in _lines(row.after))]
    first = lines[: FULL_LINES_SHOWN if full else LINES_SHOWN]
    return msgspec.structs.replace(group, lines=[*map(_line, first)], left=len(lines) - len(first))


def _line(text: str) -> str:
    """Return a line of a diff, a very long one without its end."""
    found = shown(text, chars_max=LINE_CHARS_SHOWN)
    return f"{found.text} … {found.left:,} more characters" if found.left else text


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


async def _upload(story: Story, key: str, artifacts: Artifacts) -> str | None:
    try:
        return (await artifacts.get(story.at.tenant, key)).decode("utf-8", "replace")
    except (NotFound, ArtifactDamaged):
        return None
