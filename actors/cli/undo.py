"""Undo: what `expand`, `rewind`, `fork` and `erase` do."""

from __future__ import annotations

import time

from actors.audit.forking import Forking
from actors.audit.trail import versioned
from actors.core.flow import next_actor
from actors.core.text.slices import numbers_of
from actors.host.bootstrap import Runtime
from actors.runtime.fold import erased
from actors.services.undo import Undo
from protocol.errors import NotFound, Rejected
from protocol.ids import Address, written_address
from protocol.service_messages import ExpandAsked, ForkAsked, Rewound

from .options import StackOptions, WrongUsage
from .session import connected, printed, said, shown


def expand(stack: StackOptions, conv: str, *, messages: str, artifact: str, as_json: bool) -> int:
    """Put back; see `jettison expand --help`."""
    if bool(messages) == bool(artifact):
        raise WrongUsage("say what to expand: --messages such as 4-9 or #4, or --artifact and its key")
    if messages:
        check_range(messages)

    async def main(running: Runtime) -> int:
        at = written_address(conv)
        found = await _undo(running).expand(at, ExpandAsked(messages=messages, artifact=artifact), headers={})
        await _wake(running, at)
        text = (
            f"{at}@{found.version}: {len(found.restored)} messages and {found.parts} parts put back, "
            f"{found.before_tokens:,} -> {found.after_tokens:,} tokens\n"
        )
        if not found.restored and not found.parts:
            text = f"{at}: the view shows it in full already\n"
        shown(found, text, as_json=as_json)
        return 0

    return connected(main, stack, role="expand")


def rewind(stack: StackOptions, conv: str, *, to: int, as_json: bool) -> int:
    """Go back; see `jettison rewind --help`."""

    async def main(running: Runtime) -> int:
        at = written_address(conv)
        found = await _undo(running).rewind(at, to=to, headers={})
        await _wake(running, at)
        shown(found, rewound_text(at, found), as_json=as_json)
        return 0

    return connected(main, stack, role="rewind")


def rewound_text(at: Address, found: Rewound) -> str:
    """Return the lines about a rewind, and how what left the view by it comes back."""
    text = (
        f"{at}@{found.version}: the context is that of version {found.to_version} again, up to message {found.upto}, "
        f"{found.before_tokens:,} -> {found.after_tokens:,} tokens\n"
    )
    if found.left:
        first, last = found.left
        leave = "messages leave" if last > first else "message leaves"
        span = f"{first}-{last}" if last > first else f"{first}"
        of = "of " if found.left_count <= last - first else ""
        text += f"  {found.left_count} {leave} the view ({of}{span}), back by: jettison expand {at} --messages {span}\n"
    return text


def fork(stack: StackOptions, conv: str, new: str, *, as_json: bool) -> int:
    """Copy; see `jettison fork --help`."""

    (at, version), to = versioned(conv), _named(new, conv)

    async def main(running: Runtime) -> int:
        if version is not None and version < 1:
            raise NotFound(f"{at} has no version {version}; versions count from 1", address=str(at), version=version)
        forking = Forking(conversations=running.conversations, log=running.log, artifacts=running.artifacts)
        row = await forking.fork(at, ForkAsked(name=new.rpartition("/")[2], version=version or 0), to=to)
        await _wake(running, to)
        shown(row, f"{to}: begins with {at}@{row.version}, {row.records} records written\n", as_json=as_json)
        return 0

    return connected(main, stack, role="fork")


def erase(stack: StackOptions, conv: str, *, yes: bool) -> int:
    """Erase; see `jettison erase --help`."""
    at = written_address(conv)
    if not yes:
        raise WrongUsage(f"nothing brings {at} back; say --yes")

    async def main(running: Runtime) -> int:
        began_ms = time.time_ns() // 1_000_000
        found = await running.erasing().erase(at, by=running.by)
        if found.at_ms < began_ms:
            said(f"{erased(at, found.at_ms)} by {found.by}; what came since is removed")
        printed(found)
        return 0

    return connected(main, stack, role="erase")


def check_range(messages: str) -> None:
    """Raise `WrongUsage` where *messages* is no range of numbers."""
    try:
        numbers_of(messages)
    except Rejected as error:
        raise WrongUsage(str(error)) from None


def _named(new: str, conv: str) -> Address:
    """Return the address of *new*: of the tenant of *conv* where it names none."""
    if not new:
        raise WrongUsage("a fork needs a name")
    tenant = "" if "/" in new or "/" not in conv else conv.partition("/")[0] + "/"
    return written_address(tenant + new)


def _undo(running: Runtime) -> Undo:
    return Undo(conversations=running.conversations, log=running.log, artifacts=running.artifacts)


async def _wake(running: Runtime, at: Address) -> None:
    follower = next_actor(await running.conversations.load(at))
    if follower is not None:
        await running.wakes.wake(follower, at, headers={})
