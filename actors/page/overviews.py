"""Overviews: what holds for all conversations together: what they cost, which policies they have, what was given up."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.core.spent import DAY_MS
from actors.spill.policy_layers import differing
from protocol import policy as policies
from protocol.errors import LogUnavailable, NotProvisioned
from protocol.facts import PolicySet
from storage.work_ports import StoredLetter

from .access import sees, tenants_of
from .conversation_cache import Story
from .known_list import DaySum
from .site import Site, paged

DAYS_SHOWN = 62
LETTERS_SHOWN = 100
KEYS_SHOWN = 40


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One policy of a conversation: since which version, by whom, and what it changed."""

    version: int
    time: str
    by: str
    writer: str
    hash: str
    keys: tuple[tuple[str, str, str], ...]
    """Key, value before, value since; nothing for the first one."""


async def costs(request: Request, site: Site) -> Response:
    """Answer with what calls cost and were spared, by day, model and tenant."""
    await site.list.refresh()
    progress = site.list.progress
    tenants = tenants_of(request)
    days = [msgspec.structs.replace(one, name=_date(int(one.name))) for one in await site.list.days(tenants, by="day")]
    return site.answer(
        request,
        "costs.html",
        days=days[:DAYS_SHOWN],
        total=_total(days),
        groups={
            "model": await site.list.days(tenants, by="model"),
            "tenant": await site.list.days(tenants, by="tenant"),
        },
        kept=site.list.head is not None,
        progress=progress,
    )


async def in_force(request: Request, site: Site) -> Response:
    """Answer with the policies that conversations have."""
    await site.list.refresh()
    progress = site.list.progress
    found = await site.list.policies(tenants_of(request))
    kept = site.list.head is not None
    return site.answer(request, "policies.html", found=found, kept=kept, progress=progress)


async def letters(request: Request, site: Site) -> Response:
    """Answer with the wake-ups that were given up, the newest first."""
    found: list[StoredLetter] = []
    unread = ""
    try:
        found = [one async for one in site.letters.all() if sees(request, one.letter.at)]
    except (LogUnavailable, NotProvisioned) as error:
        unread = str(error)
    page = paged(found[::-1], request, size=LETTERS_SHOWN)
    return site.answer(request, "letters.html", page=page, unread=unread)


async def policy(request: Request, site: Site) -> Response:
    """Answer with the policy of a conversation, and who changed it when."""
    story = await site.whole_story(request)
    state = story.state
    document = msgspec.to_builtins(state.policy) if state.policy else None
    return site.answer(
        request,
        "policy.html",
        at=story.at,
        changes=changes(story)[::-1],
        own=msgspec.json.format(state.terms.layer, indent=2).decode(),
        whole=msgspec.json.format(msgspec.json.encode(document), indent=2).decode() if document else "",
        usable=state.usable_tokens if state.policy else 0,
    )


def changes(story: Story) -> list[PolicyChange]:
    """Return each policy that *story* had, oldest first."""
    adopted = [one for one in story.folded.commits if one.commit.policy]
    before: list[Any] = [None, *(policies.decode(one.commit.policy) for one in adopted)]
    found = []
    for one, (old, new) in zip(adopted, pairwise(before), strict=True):
        fact = next((fact for fact in one.commit.facts if isinstance(fact, PolicySet)), None)
        keys = differing(old, new)[:KEYS_SHOWN] if old else ()
        found.append(
            PolicyChange(
                version=one.commit.version,
                time=one.record.time,
                by=fact.by if fact else "",
                writer=one.commit.writer,
                hash=one.commit.policy_hash,
                keys=tuple((key, _value(old, key), _value(new, key)) for key in keys),
            )
        )
    return found


def _value(document: object, key: str) -> str:
    value = msgspec.to_builtins(document)
    for step in key.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return msgspec.json.encode(value).decode()


def _date(day: int) -> str:
    try:
        return f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"day {day:,}"  # an agent's clock may say anything


def _total(days: list[DaySum]) -> DaySum:
    sums = ("calls", "said", "served", "dollars_saved", "dollars_spent", "unpriced")
    return DaySum(name="", **{name: sum(getattr(one, name) for one in days) for name in sums})
