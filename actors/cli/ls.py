"""The command `ls`: conversations by last activity, from the list that is kept of them."""

from __future__ import annotations

import gc
import sys
import time
from datetime import UTC, datetime
from typing import Any, cast, get_args

from actors.core.listed import ERASED, NOT_READ, About, Listed, about
from actors.host.bootstrap import Runtime
from actors.runtime.listed_places import Places, PlacesShown, PlacesWanted, Sort, chosen, name_at, places, saved_tokens
from protocol.errors import BadEnvelope, Damaged, JettisonError, KeysUnavailable, NotReady
from protocol.ids import Address

from .options import StackOptions, WrongUsage
from .session import connected, printed, said
from .terminal_text import one_line

ROLE = "reader"

OLD_SECONDS = 60.0
"""A list is older only where nobody sweeps, or the log runs away from who does."""


def wanted(text: str, *, sort: str, page: int, limit: int) -> PlacesWanted:
    """Return the rows that the options ask for. Raises `WrongUsage`."""
    if sort not in get_args(Sort):
        raise WrongUsage(f"--sort is one of {', '.join(get_args(Sort))}, not {sort!r:.40}")
    return PlacesWanted(text=text, sort=cast(Sort, sort), first=(page - 1) * limit, most=limit)


def ls(stack: StackOptions, text: str, *, sort: str, page: int, limit: int, as_json: bool) -> int:
    """List conversations; see `jettison ls --help`."""
    asked = wanted(text, sort=sort, page=page, limit=limit)

    # 100,000 tuples that stay, and a process that ends: looking for garbage takes longer than all else
    gc.disable()

    async def main(running: Runtime) -> int:
        listing = running.listing()
        found = await places(listing, changes=running.changes, log=running.log)
        opener = await listing.opener(found.sections)
        shown = chosen(found, asked, opener)
        faults = [fault for row in shown.rows if (fault := await _row_shown(running, row, shown, as_json))]
        _say(found, shown, asked)
        if faults:
            raise faults[0]  # after all others were listed, for the exit code
        return 0

    return connected(main, stack, role=ROLE)


async def _row_shown(running: Runtime, row: Listed, shown: PlacesShown, as_json: bool) -> JettisonError | None:
    """Write one row; return what is wrong with its conversation."""
    try:
        is_old = row.at in shown.stale or row.about.fault == NOT_READ
        known = about(await running.conversations.load(row.at)) if is_old else row.about
        if known.fault and known.fault != ERASED:
            raise _fault(row.at, known)
    except (KeysUnavailable, NotReady, Damaged, BadEnvelope) as error:
        said(f"{row.at} cannot be read: {error}")
        return error
    printed(_json(row, known)) if as_json else sys.stdout.write(_line(row, known) + "\n")
    return None


def _fault(at: Address, known: About) -> JettisonError:
    kind = KeysUnavailable if known.fault == "no key" else Damaged
    return kind(f"{known.fault}: {known.why or 'see `jettison doctor`'}", address=str(at))


def _json(row: Listed, known: About) -> dict[str, Any]:
    return {
        "address": str(row.at),
        "name": known.name or name_at(row.at).partition("/")[2],
        "active_ms": row.at_ms,
        "version": known.version,
        "messages": known.messages,
        "log_tokens": known.log_tokens,
        "tokens": known.tokens,
        "usable": known.usable,
        "state": _state(known),
        "model": known.model,
        "policy": known.policy_hash,
        "calls": sum(one.calls for one in known.days),
        "saved_tokens": saved_tokens(known),
        "cost_microdollars": sum(one.microdollars for one in known.days),
    }


def _state(known: About) -> str:
    return known.condition or "ready"


def _line(row: Listed, known: About) -> str:
    when = f"{datetime.fromtimestamp(row.at_ms / 1000, UTC):%Y-%m-%d %H:%M}" if row.at_ms else "-" * 16
    name = one_line(known.name or name_at(row.at).partition("/")[2], chars=60)
    sizes = f"{known.messages:,} messages  {known.tokens:,} of {known.usable:,} tokens"
    told = f"{when}  {row.at}  v{known.version}  {sizes}  {_state(known)}"
    return told if name == row.at.conversation else f"{told}  {name}"


def _say(found: Places, shown: PlacesShown, wanted: PlacesWanted) -> None:
    """Say what is not shown, and how old the list is where that matters."""
    if not found.all:
        return said("no conversations yet")
    if not shown.total:
        return said(f"no conversation with {wanted.text!r}")
    if not shown.rows:
        pages = -(-shown.total // wanted.most)
        said(f"page {wanted.first // wanted.most + 1} is empty: {shown.total:,} conversations are on {pages:,} pages")
    elif len(shown.rows) < shown.total:
        page = wanted.first // max(1, wanted.most) + 1
        said(f"page {page}: {len(shown.rows):,} of {shown.total:,} conversations; --page {page + 1}, --limit 0 for all")
    age = time.time() - found.head.at_ms / 1000
    if not found.is_kept:
        said("no list is kept here, or it may not be read: times are not known, and each one was looked up")
    elif age > OLD_SECONDS:
        said(f"the list was written {age:,.0f} s ago; what the log got since is looked up where it is little")
