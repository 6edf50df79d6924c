"""Read back: slices of what left the context, for the agent's `read_artifact` tool and for people.

An answer is bounded, so that reading back cannot overflow the window that spilling had saved.
"""

from __future__ import annotations

import asyncio

from actors.core.text.slices import part_of, range_of
from actors.runtime.said_log import sayings
from protocol.errors import BadMessage, NotFound
from protocol.facts import Claim, SaidMessage
from protocol.formats import messages
from protocol.ids import Address, Token
from protocol.service_messages import ReadAsked
from storage.ports import Artifacts, EventLog

MESSAGES_PREFIX = "messages:"


async def read_back(asked: ReadAsked, *, at: Address, log: EventLog, artifacts: Artifacts) -> bytes:
    """Return the asked part of an artifact or of messages as text.

    Raises `NotFound`, `Rejected` (a bad range, pattern or path), `ArtifactDamaged`, `Unavailable`.
    """
    if asked.key.startswith(MESSAGES_PREFIX):
        first, last = range_of(asked.key.removeprefix(MESSAGES_PREFIX))
        text = await _messages(at, first, last, log=log, artifacts=artifacts)
    else:
        text = (await artifact(asked.key, tenant=at.tenant, artifacts=artifacts)).decode("utf-8", "replace")
    # in a thread: an artifact may have megabytes, and others wait for their views
    return (await asyncio.to_thread(part_of, text, asked)).encode("utf-8", "replace")


async def artifact(key: str, *, tenant: Token, artifacts: Artifacts) -> bytes:
    """Return the bytes of the artifact whose SHA-256 is or begins with *key*."""
    if not key or not all(char in "0123456789abcdef" for char in key):
        raise NotFound(f"{key!r:.80} is not an artifact's key", key=key)
    whole = key if len(key) == 64 else await artifacts.find(tenant, key)
    return await artifacts.get(tenant, whole)


async def said_messages(at: Address, *, log: EventLog) -> list[SaidMessage]:
    """Return all messages of *at* as they were said, repeats left out, in order of their numbers."""
    # in a thread: a log may have ten thousands, and others wait for their views
    said = await asyncio.to_thread(list, sayings(at, await log.read(at, after=0)))
    return [one.message for one in said]


async def _messages(at: Address, first: int, last: int, *, log: EventLog, artifacts: Artifacts) -> str:
    found = (await said_messages(at, log=log))[first - 1 : last]
    if not found:
        raise NotFound(f"there are no messages {first}-{last}", first=first, last=last)
    lines = []
    for number, said in enumerate(found, first):
        try:
            message = messages.decode(said.raw)
            for claim in said.claims:
                message = messages.with_leaves(message, {claim.pointer: await _claimed(claim, at, artifacts)})
            parsed = messages.parse(message)
        except (BadMessage, NotFound) as error:
            # one message that cannot be read must not hide the others of its range
            lines.append(f"--- message {number} cannot be read: {error} ---")
            continue
        lines.append(f"--- message {number} ({parsed.role}) ---")
        lines += [part.text for part in parsed.parts if part.kind in ("text", "arguments")]
    return "\n".join(lines)


async def _claimed(claim: Claim, at: Address, artifacts: Artifacts) -> str:
    return (await artifacts.get(at.tenant, claim.sha256)).decode("utf-8", "replace")
