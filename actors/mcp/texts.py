"""Texts: what a model reads of what was found, bounded, with what is left and how to read on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from protocol.history import Event, Found, Hit, Version, Why
from protocol.service_messages import Expanded

ANSWER_BYTES_MAX = 16_384
"""Of one answer, as of `read_artifact`: clients cut or refuse more than some 25,000 tokens."""

LEFT_BYTES = 300
SAID_CHARS = 400
REASON_CHARS = 300
_KEYS = re.compile(r"[0-9a-f]+(?: [0-9a-f]+)*\)")


def found_text(found: Found, *, conversation: str) -> str:
    """Return the hits of a search as text, the newest message first."""
    unread = f" {found.unread} uploaded texts could not be searched." if found.unread else ""
    if not found.hits:
        each = ", ".join(f'"{word}" in {count:,}' for word, count in found.each) if len(found.each) > 1 else ""
        words = f" No message has all words: {each}." if each else ""
        return f"[Nothing found in {found.looked_at:,} messages of {conversation}.{words}{unread} Try other words.]"
    lines = _bounded(["\n".join(_hit_lines(hit, conversation)) for hit in found.hits])
    shown = found.hits[: len(lines)]
    # a single hit may be all that there is room for
    head = f"[{found.messages:,} of {found.looked_at:,} messages of {conversation} match"
    if len(shown) == found.messages:
        head += f"; all of them, newest first.{unread}]"
    else:
        left = found.messages - len(shown)
        head += (
            f"; the newest {len(shown)}, newest first.{unread} {left:,} older ones, down to "
            f'"{conversation}/messages:{found.oldest}": go on with before={shown[-1].number}, or say more words.]'
        )
    return "\n".join([head, *lines])


def _hit_lines(hit: Hit, conversation: str) -> Iterable[str]:
    # the end of the line is ours: its tokens and keys
    about, keys, own = f"{conversation}/{hit.about}".rpartition(", key ")
    if keys and _KEYS.fullmatch(own):
        own = " ".join(f"{conversation}/{key}" for key in own.split(" "))
    yield f"{about}{keys}{own}"
    before = 0
    for number, text, is_found in hit.lines:
        if before and number > before + 1:
            yield "  --"
        yield f"  {number}{':' if is_found else '-'} {text}"
        before = number
    if hit.more:
        yield f"  [{hit.more:,} more lines of it match]"


def versions_text(rows: Sequence[Version], *, conversation: str, more: bool) -> str:
    """Return the versions, the newest first; *more*: there are older ones."""
    if not rows:
        return f"[{conversation} has no version before that.]"
    lines = _bounded([_version_line(row) for row in rows])
    shown = rows[: len(lines)]
    newest, oldest = shown[0].version, shown[-1].version
    left = f" Older ones: before={oldest}." if more or len(shown) < len(rows) else ""
    return "\n".join([f"[Versions {newest} to {oldest} of {conversation}, newest first.{left}]", *lines])


def _version_line(row: Version) -> str:
    facts = ", ".join(f"{name}{f' x{times}' if times > 1 else ''}" for name, times in row.facts.items())
    tokens = f"{row.after_tokens:,} tokens"
    if row.served_tokens:
        tokens = f"{row.served_tokens:,} tokens"
    elif row.before_tokens != row.after_tokens:
        tokens = f"{row.before_tokens:,} -> {tokens}"
    usable = f" of {row.usable_tokens:,}" if row.usable_tokens else ""
    why = f"; {_one_line('; '.join(row.reasons), REASON_CHARS)}" if row.reasons else ""
    stage = f"{row.stage} {row.outcome}" if row.stage else row.outcome
    return f"v{row.version} {_time(row.time)} {stage}: {facts}; {row.messages} messages, {tokens}{usable}{why}"


def explained_text(found: Why, *, conversation: str) -> str:
    """Return the fate of a message as text, and how it is read."""
    what = f"Message {found.number} ({found.role})" if found.number else "The account of what left the view"
    ways = {"verbatim": "shows it as it was said", "changed": "shows it changed", "in the view": "shows it"}
    shown = ways.get(found.now, "does not show it")
    said = f", said {_time(found.said_time)}" if found.said_time else ""
    lines = [f"[{what}{said}: the view at version {found.version} of {conversation} {shown}.]"]
    if found.text:
        lines.append(f"It begins: {_one_line(found.text, SAID_CHARS)}")
    if found.number:
        keys = dict.fromkeys(f'"{conversation}/{one.artifact[:16]}"' for one in found.history if one.artifact)
        lines.append(
            f"Read it whole: {' or '.join([*keys, f'{chr(34)}{conversation}/messages:{found.number}{chr(34)}'])}"
        )
    steps = [_step_line(one) for one in found.history]
    if not steps:
        return "\n".join([*lines, "Nothing was done to it."])
    # the newest say what is so today
    kept = _bounded(list(reversed(steps)), used=sum(len(line.encode("utf-8", "replace")) for line in lines))
    left = len(steps) - len(kept)
    older = (
        [f"[{left:,} earlier steps are left out; ask with version={found.history[left].version - 1}]"] if left else []
    )
    return "\n".join([*lines, "What was done to it:", *older, *reversed(kept)])


def _step_line(one: Event) -> str:
    tokens = f"{one.before_tokens:,} -> {one.after_tokens:,} tokens"
    return f"v{one.version} {_time(one.time)} {one.stage}: {one.did}, {tokens}; {_one_line(one.rule, REASON_CHARS)}"


def expanded_text(found: Expanded, *, key: str) -> str:
    """Return the text about what was put back."""
    if not found.restored and not found.parts:
        return f"[The view shows {key} in full already.]"
    return (
        f"[{len(found.restored)} messages and {found.parts} parts of {key} are in the view again from now on: "
        f"{found.before_tokens:,} -> {found.after_tokens:,} tokens, until the next compaction.]"
    )


def _bounded(pieces: Sequence[str], *, used: int = 0) -> list[str]:
    """Return as many of *pieces* as an answer has room for, and the first in any case, cut if need be."""
    room = ANSWER_BYTES_MAX - LEFT_BYTES - used
    kept: list[str] = []
    for piece in pieces:
        size = len(piece.encode("utf-8", "replace")) + 1
        if size > room:
            break
        room -= size
        kept.append(piece)
    if not kept and pieces:
        kept.append(pieces[0].encode("utf-8", "replace")[: max(0, room)].decode("utf-8", "ignore"))
    return kept


def _one_line(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else f"{flat[:chars]}…"


def _time(stored: str) -> str:
    """Return an RFC 3339 time to the second."""
    return stored[:19].replace("T", " ")
