"""Read back: slices of what left the context, for the agent's `read_artifact` tool and for people.

An answer is bounded, so that reading back cannot overflow the window that spilling had saved. A range of messages
that is too long for one answer is told in an outline.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from actors.core.text.slices import ANSWER_BYTES_MIN, LEFT_BYTES, NOTHING_MATCHES, bound_of, numbers_of, part_of
from actors.runtime.fold import check_living
from actors.spill.labels import KEY_CHARS
from protocol.errors import BadMessage, NotFound
from protocol.facts import SaidMessage
from protocol.formats import messages
from protocol.ids import Address, Token
from protocol.service_messages import ReadAsked
from storage.ports import Artifacts, EventLog

from .outline import Outline, further, outlined, span

MESSAGES_PREFIX = "messages:"


async def read_back(asked: ReadAsked, *, at: Address, log: EventLog, artifacts: Artifacts) -> bytes:
    """Return the asked part of an artifact or of messages as text.

    Raises `NotFound`, `Erased`, `Rejected` (a bad range, pattern or path), `ArtifactDamaged`, `Unavailable`.
    """
    if asked.key.startswith((MESSAGES_PREFIX, "#")):
        return (await _messages(asked, at=at, log=log, artifacts=artifacts)).encode("utf-8", "replace")
    key = await _own(asked.key, at=at, log=log) if asked.own else asked.key
    text = (await artifact(key, tenant=at.tenant, artifacts=artifacts)).decode("utf-8", "replace")
    if text.startswith("data:") and not (asked.lines or asked.bytes or asked.pattern):
        media = text[len("data:") : 100].partition(";")[0]
        # base64 is no text that a model reads
        told = f"[{media}, {len(text):,} bytes as it was sent; an agent shows it with answer_read_content]"
        return (text if asked.media else told).encode("utf-8", "replace")
    # in a thread: an artifact may have megabytes, and others wait for their views
    return (await asyncio.to_thread(part_of, text, asked)).encode("utf-8", "replace")


async def artifact(key: str, *, tenant: Token, artifacts: Artifacts) -> bytes:
    """Return the bytes of the artifact whose SHA-256 is or begins with *key*."""
    if not key or not all(char in "0123456789abcdef" for char in key):
        raise NotFound(f"{key!r:.80} is not an artifact's key, such as 61151668f0b120d1 or messages:4", key=key)
    whole = key if len(key) == 64 else await artifacts.find(tenant, key)
    return await artifacts.get(tenant, whole)


async def _own(key: str, *, at: Address, log: EventLog) -> str:
    """Return the SHA-256 that *key* begins, of those that the log of *at* names. Raises `NotFound`."""
    named = (await outline_of(at, log=log)).artifacts
    found = [sha256 for sha256 in named if sha256.startswith(key)]
    if not key or len(found) != 1:
        raise NotFound(f"no artifact of {at} begins with {key!r:.80}", prefix=key)
    return found[0]


async def outline_of(at: Address, *, log: EventLog) -> Outline:
    """Return all messages of *at*, each to be told in a line. Raises `Erased`."""
    records = await log.read(at, after=0)
    check_living(at, records)
    # in a thread: a log may have ten thousands, and others wait for their views
    return await asyncio.to_thread(Outline.of, at, records)


async def _messages(asked: ReadAsked, *, at: Address, log: EventLog, artifacts: Artifacts) -> str:
    written = asked.key.removeprefix(MESSAGES_PREFIX)
    first, last = numbers_of(written)
    outline = await outline_of(at, log=log)
    if not outline.said:
        raise NotFound(f"nothing was ever said in {at}", address=str(at))
    last = min(last, len(outline.said))
    if first > last:
        raise NotFound(f"there are no messages {written:.40}; the last one is {last}", first=first, last=last)
    several = first < last and not (asked.lines or asked.bytes or asked.json_path)
    if several and not asked.pattern:
        return await asyncio.to_thread(_shown, outline, first, last, bound_of(asked))
    uploads = await uploads_of(outline.said[first - 1 : last], at, artifacts)
    if several:
        return await asyncio.to_thread(_hits, asked, outline, first, last, uploads)
    return await asyncio.to_thread(_slice, asked, outline, first, last, uploads)


def _slice(asked: ReadAsked, outline: Outline, first: int, last: int, uploads: Mapping[str, str]) -> str:
    """Return the parts that are asked for of all messages, one below the other."""
    numbers = range(first, last + 1)
    return part_of("\n".join(text_of(number, outline.said[number - 1], uploads) for number in numbers), asked)


def _shown(outline: Outline, first: int, last: int, most: int) -> str:
    """Return the messages whole; else those that were not spilled, with the lines of the others; else all lines."""
    numbers = range(first, last + 1)
    for away in (outline.is_claimed, outline.keys):
        parts: list[str] = []
        room = most + 1
        for number in numbers:
            parts.append(outline.line(number) if away(number) else text_of(number, outline.said[number - 1], {}))
            room -= len(parts[-1].encode("utf-8", "replace")) + 1
            if room < 0:
                break
        else:
            return "\n".join(parts)
    return outlined(outline, first=first, last=last, most=most)


def _hits(asked: ReadAsked, outline: Outline, first: int, last: int, uploads: Mapping[str, str]) -> str:
    """Return the lines that match, below the line of their message and numbered as in it."""
    shown: list[str] = []
    room = bound_of(asked) - LEFT_BYTES
    # of one message at most half an answer, so that it does not hide the hits of all others
    each = max(bound_of(asked) // 2, ANSWER_BYTES_MIN)
    for number in range(first, last + 1):
        one = replace(asked, key=span(number, number), bytes_max=each)
        found = part_of(text_of(number, outline.said[number - 1], uploads), one)
        if found == NOTHING_MATCHES:
            continue
        found = f"{outline.line(number)}\n{found}"
        room -= len(found.encode("utf-8", "replace")) + 1
        if room < 0 and shown:
            return "\n".join([*shown, further(number, last)])
        shown.append(found)
    return "\n".join(shown) or NOTHING_MATCHES


def text_of(number: int, said: SaidMessage, uploads: Mapping[str, str]) -> str:
    """Return a message's texts and arguments; one that cannot be read must not hide the others of its range."""
    texts = {claim.pointer: uploads[claim.sha256] for claim in said.claims if claim.sha256 in uploads}
    try:
        message = messages.decode(said.raw)
        parsed = messages.parse(message)
        # a claim may name nothing
        if texts := {part.pointer: texts[part.pointer] for part in parsed.parts if part.pointer in texts}:
            parsed = messages.parse(messages.with_leaves(message, texts))
    except BadMessage as error:
        return f"--- message {number} cannot be read: {error} ---"
    read = (_shown_part(part) for part in parsed.parts)
    return "\n".join([f"--- message {number} ({parsed.role}) ---", *filter(None, read)])


def _shown_part(part: messages.Part) -> str:
    """Return the text of a part; of what is none its kind, and the key of the artifact that it is once it left."""
    if part.kind in ("text", "arguments"):
        return part.text
    body = part.text.encode("utf-8", "surrogatepass")
    key = hashlib.sha256(body).hexdigest()[:KEY_CHARS]
    return f"[{part.kind} of {len(body):,} bytes: {key}]" if part.kind in messages.MEDIA and body else ""


async def uploads_of(said: Iterable[SaidMessage], at: Address, artifacts: Artifacts) -> dict[str, str]:
    """Return the texts that were uploaded; in the place of one that is not there stands why."""
    found = {}
    for key in dict.fromkeys(claim.sha256 for one in said for claim in one.claims):
        try:
            found[key] = (await artifacts.get(at.tenant, key)).decode("utf-8", "replace")
        except NotFound as error:
            found[key] = f"[cannot be read: {error}]"
    return found
