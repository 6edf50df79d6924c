"""Chunks: history as a summarizer reads it, in pieces that fit its window.

Calls and their results are included, each in its place. What is cut out of a result is said to be, so that
nobody concludes from a part that the rest is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actors.core.entry import ARTIFACT, Entry, said_by, shown_message
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.text.secrets import without_secrets
from actors.core.written_words import ABORTED, RUNNING
from protocol.formats import messages
from protocol.formats.messages import MEDIA

RESULT_TOKENS_MAX = 1500
"""Of one tool's result: its values are kept beside the summary anyway (Digitorn cuts at 2,000 characters)."""

HEAD_SHARE = 0.6
"""Of a cut result; the rest is its end, where errors stand."""

TITLE_TOKENS = 16
"""Bound on a piece's title with its line ends."""

PIECE_TOKENS_MIN = 32
"""Less than this of a message is not worth a part of its own."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One message, or a part of one that is too large for a request."""

    title: str
    text: str
    tokens: int
    part: int = 0

    @property
    def shown(self) -> str:
        """Return the piece under its title."""
        part = f", part {self.part}" if self.part else ""
        return f"[{self.title}{part}]\n{self.text}"


def piece(title: str, text: str, *, count: Count) -> Piece:
    """Return *text* as a piece."""
    return Piece(title=title, text=text, tokens=count(text) + TITLE_TOKENS)


def pieces(entries: Iterable[Entry], *, count: Count, result_tokens_max: int = RESULT_TOKENS_MAX) -> tuple[Piece, ...]:
    """Return *entries* as a summarizer reads them, in order."""
    found = (
        piece(_title(entry), _text(entry, result_tokens_max, count=count), count=count)
        for entry in entries
        if entry.role
    )
    return tuple(one for one in found if one.text)


def within(all_pieces: tuple[Piece, ...], room: int) -> tuple[Piece, ...]:
    """Return the newest pieces that fit *room* tokens, under a note that others are not shown.

    Only where squeeze was declined again and again is there more than all its requests can hold.
    """
    first = len(all_pieces)
    for index in range(len(all_pieces) - 1, -1, -1):
        room -= all_pieces[index].tokens
        if room < 0 and index < len(all_pieces) - 1:
            break
        first = index
    if not first:
        return all_pieces
    note = Piece(title=f"{first} earlier messages are not shown here", text="", tokens=2 * TITLE_TOKENS)
    return (note, *all_pieces[first:])


def packed(left: Sequence[Piece], room: int, *, count: Count) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Return the pieces that fit *room* tokens, and the others; a piece too large for any request is parted.

    Nothing is taken if not even the beginning of one fits.
    """
    taken: list[Piece] = []
    whole = room // 4
    free = room
    for index, one in enumerate(left):
        if one.tokens <= free:
            taken.append(one)
            free -= one.tokens
            continue
        if (taken and one.tokens <= whole) or free < PIECE_TOKENS_MIN + TITLE_TOKENS:
            return tuple(taken), tuple(left[index:])
        first, rest = _parted(one, free - TITLE_TOKENS, count=count)
        return (*taken, first), (rest, *left[index + 1 :])
    return tuple(taken), ()


def _parted(one: Piece, room: int, *, count: Count) -> tuple[Piece, Piece]:
    """Return the beginning of a piece, at most *room* tokens of it, and the rest; at a line's end if one is near."""
    at = max(1, len(one.text) * room // one.tokens)
    while at > 1 and count(one.text[:at]) > room:
        at = at * 9 // 10
    at = one.text.rfind("\n", at // 2, at) + 1 or at
    number = one.part or 1
    used = count(one.text[:at])
    # the rest is not counted again, or parting a long text would cost its square
    rest = max(1, one.tokens - TITLE_TOKENS - used) + TITLE_TOKENS
    return (
        Piece(title=one.title, text=one.text[:at], tokens=used + TITLE_TOKENS, part=number),
        Piece(title=one.title, text=one.text[at:], tokens=rest, part=number + 1),
    )


def redacted(state: State, text: str, number: int) -> str:
    """Return a *text* of ours as a model reads it: a handle for each secret, unless an operator says otherwise."""
    shows = state.policy is not None and state.policy.digest.secrets == "show"
    return text if shows else without_secrets(text, number)


def _title(entry: Entry) -> str:
    of = f" of {entry.tool[:40]}" if entry.tool else ""
    return f"message {entry.number}, {'result' + of if entry.role == 'tool' or entry.observed else entry.role}"


def _text(entry: Entry, most: int, *, count: Count) -> str:
    message = shown_message(entry)
    lines: list[str] = []
    names = iter(entry.call_names)
    for part in messages.parse(message).parts:
        if part.kind in MEDIA:
            # an uploaded one shows its artifact's name; one that was sent along would be its bytes
            name = part.text if part.text.startswith(ARTIFACT) else "in the message itself"
            lines.append(f"[{part.kind}: {name}]")
            continue
        # before anything is cut: half a secret has no shape
        text = messages.without_surrogates(part.text)
        text = text if entry.open else without_secrets(text, entry.number)
        if part.kind == "arguments":
            lines.append(f"calls {next(names, 'a tool')}({text})")
        else:
            lines.append(_cut(text, most, count=count) if said_by(entry, part.pointer) == "tool" else text)
    lines += [RUNNING if entry.awaited else ABORTED] * len(entry.answers)
    return "\n".join(line for line in lines if line.strip())


def _cut(text: str, most: int, *, count: Count) -> str:
    tokens = count(text)
    if tokens <= most:
        return text
    keep = max(2, len(text) * most // tokens)
    head = int(keep * HEAD_SHARE)
    gone = len(text) - keep
    return f"{text[:head]}\n[{gone} characters are not shown here]\n{text[len(text) - (keep - head) :]}"
