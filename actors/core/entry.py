"""Entries: messages as the rules see them, measured once.

Counting is handed in as a function, so that the same bytes give the same entry in every worker and in replay.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import msgspec

from protocol.errors import BadMessage
from protocol.facts import Claim, MessageSize, SaidMessage
from protocol.formats import anthropic, chat, messages
from protocol.formats.messages import ANTHROPIC, CHAT, MEDIA, RESPONSES, Profile
from protocol.formats.neutral import as_arguments, as_object, words
from protocol.formats.render import Piece, piece
from protocol.jsonbytes import with_sound_texts
from protocol.semconv import Category

from .running_hash import RunningHash
from .saw import Saw
from .text.count import Count
from .written_words import ABORTED, ABORTED_TOKENS, LATE, ORPHAN, RUNNING, written

MESSAGE_TOKENS = 4
"""What a provider adds to each message for role and frame (OpenAI: 3 to 4); to each of several results in one too."""

CALL_TOKENS = 8
"""What a provider adds to each call; the highest of the published rules that fit (llm4s: 10 with its id)."""

ARTIFACT = "artifact:"
"""Begins the name of an uploaded image in a view: its SHA-256 follows, so that the view's hash covers it."""

IMAGE_TOKENS = 1105
"""An image of unknown size at high detail (OpenAI: 85 + 6 tiles of 170); never the length of its base64."""

EXACT_BYTES_MAX = 256 * 1024
"""Larger parts are estimated: they are spilled in any case, and 50 MB would take five seconds to count."""

ESTIMATE_BYTES_PER_TOKEN = 3

_CATEGORY_OF: Mapping[str, Category] = dict(system="system", developer="system", user="user", tool="tool_results")

CATEGORIES: tuple[Category, ...] = ("system", "user", "assistant", "tool_calls", "tool_results", "digest")


class PartSize(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What one part costs, as it was said. `sha256` names the upload of a claimed part."""

    pointer: str
    kind: messages.PartKind
    bytes: int
    tokens: int
    estimated: bool
    sha256: str = ""


class ShownPart(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A part's text in the view, where it is not what was said."""

    pointer: str
    raw: bytes
    """The text in UTF-8: the one character that shortening leaves doubles a text, and a snapshot then trebles it."""
    tokens: int
    owed: bool = False
    """The store was down: the original is still to be stored."""

    @property
    def text(self) -> str:
        """Return the text that stands there."""
        return self.raw.decode()


class Noted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A note that stands behind a message in the view: a message of its own."""

    name: str
    text: str
    tokens: int
    role: str = ""  # empty: that of summaries


class ResultOf(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One result in a message: the id of its call as shown, empty without a call; its place; and the tool."""

    call: str
    at: str
    """Pointer to the id."""
    tool: str = ""
    late: str = ""
    """The call's id, as shown, where others had spoken before the result came."""

    @property
    def under(self) -> str:
        """Return the prefix of its parts' pointers."""
        return self.at.rpartition("/")[0] + "/"


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, dict=True):
    """One message in the state: verbatim bytes, sizes, and how it is shown.

    `call_ids` and `results` are as shown: ids that repeat were made distinct. `orphan`: it answers no open call, and is
    shown as a user message. `boundary`: an agent may ask for a view after it. `frame_tokens`: the most of any profile.
    """

    number: int
    raw: bytes
    role: str
    parts: tuple[PartSize, ...]
    frame_tokens: int
    call_names: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    results: tuple[ResultOf, ...] = ()
    renamed: bool = False
    orphan: bool = False
    surrogates: bool = False
    boundary: bool = False
    leading: bool = False
    """An instruction before anybody else spoke; it is never parted from the head of the conversation."""
    shown: tuple[ShownPart, ...] = ()
    answers: tuple[str, ...] = ()
    """Call ids of a batch without all its results that a written one must close, after the real ones."""
    looked: bool = False
    """Spill looked at the parts of medium size that are not `shown`, and shortening them wins too little."""
    notes: tuple[Noted, ...] = ()
    tool: str = ""
    """Name of the tool whose result this is; of several results, the first one's."""
    batch: tuple[int, ...] = ()
    """Tokens, as they were said, of the results that came before it in its batch of calls."""
    same_as: int = 0  # the first message with the same result
    same_last: int = 0  # the newest one before this
    format: Profile = CHAT
    native: tuple[Profile, ...] = (CHAT,)
    """Profiles that take it as it was said."""
    kind: str = ""
    """Where calls are of several kinds: which one it makes or answers."""
    joins: bool = False  # an item that the assistant said in one answer with the entry before it
    awaited: bool = False
    """The results of `answers` may still come."""
    late: tuple[str, ...] = ()
    """Calls of one message whose results these are, and nothing else; a view shows them in their place."""
    saw: Saw | None = None
    """Its reasoning holds behind this alone; None: anywhere, or there is none."""
    called_ms: int = 0  # when its calls were made, by who made them, where results may come late
    open: bool = False  # an operator lets its secrets stand in digests and summaries
    apart_tokens: int = 0
    """Of what no part stands for: a view has room for them, no rule decides by them (it never did)."""
    observed: bool = False  # a user's message, but what a program says: it answers a call that the assistant wrote
    notice: bool = False  # the same, but said unasked

    @cached_property
    def tokens(self) -> int:
        """Return the tokens of the message as it is shown; added up once, since every view and rule asks."""
        if not (self.shown or self.notes or self.answers):
            return sum([part.tokens for part in self.parts], self.frame_tokens)
        shown = {one.pointer: one.tokens for one in self.shown}
        parts = sum(shown.get(part.pointer, part.tokens) for part in self.parts)
        notes = sum(note.tokens for note in self.notes)
        return self.frame_tokens + parts + len(self.answers) * ABORTED_TOKENS + notes

    @cached_property
    def largest(self) -> int:
        """Return the tokens of its largest part as said; an upload is larger than any, and a tool's parts are one."""
        sizes = [sys.maxsize if part.sha256 else part.tokens for part in self.parts]
        return sum(sizes) if self.results else max(sizes, default=0)

    def without_note(self, name: str) -> Entry:
        """Return the entry without its note of that name."""
        if all(note.name != name for note in self.notes):
            return self
        return msgspec.structs.replace(self, notes=tuple(note for note in self.notes if note.name != name))

    def with_shown(self, pointer: str, text: str, tokens: int) -> Entry:
        """Return the entry with another text at *pointer*."""
        others = tuple(one for one in self.shown if one.pointer != pointer)
        shown = ShownPart(pointer=pointer, raw=text.encode(), tokens=tokens)
        return msgspec.structs.replace(self, shown=(*others, shown))

    @cached_property
    def by_category(self) -> Mapping[Category, int]:
        """Return the shown tokens by what they are."""
        category = _CATEGORY_OF.get("tool" if self.observed else self.role, "assistant")
        tokens = self.tokens + self.apart_tokens
        if not self.call_ids:
            return {category: tokens}
        shown = {one.pointer: one.tokens for one in self.shown}
        calls = sum(shown.get(part.pointer, part.tokens) for part in self.parts if part.kind == "arguments")
        return {category: tokens - calls, "tool_calls": calls} if calls else {category: tokens}

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Return the message as it is shown, with written answers to its aborted calls; made once for all views."""
        return self.answered([written(call, RUNNING if self.awaited else ABORTED) for call in self.answers])

    def answered(self, more: Sequence[Piece]) -> tuple[Piece, ...]:
        """Return the message as shown, and *more* answers behind; before it where words, even blank, follow its own."""
        shown = Piece(raw=self.raw, native=self.native) if verbatim(self) else _piece_of(self, shown_message(self))
        worded = self.results and not all(result_of(self, part.pointer) for part in self.parts)
        if worded:
            shown = msgspec.structs.replace(shown, between=not (self.boundary or self.answers))
        run = (*more, shown) if worded else (shown, *more)
        return (*(msgspec.structs.replace(one, between=True) for one in run[:-1]), run[-1])

    @cached_property
    def placed(self) -> tuple[Piece, ...]:
        """Return results that came late as they are shown behind their calls."""
        results = tuple(msgspec.structs.replace(one, call=one.late) for one in self.results)
        entry = msgspec.structs.replace(self, results=results, orphan=False, renamed=True)
        return (_piece_of(entry, shown_message(entry)),)

    @cached_property
    def running(self) -> RunningHash:
        """Return the running hash of the views that begin with this message."""
        return RunningHash()


def _piece_of(entry: Entry, shown: dict[str, Any]) -> Piece:
    try:
        found = piece(messages.encode(shown))
        more = {one for one in entry.native if one not in found.native and messages.takes(one, shown)}
        return msgspec.structs.replace(found, native=(*found.native, *sorted(more))) if more else found
    except BadMessage:
        # blocks of an unknown type, and the orphaned result that told their format became words: the words stay
        blocks = [block for block in shown["content"] if block.get("type") == "text"]
        return piece(messages.encode({"role": shown["role"], "content": blocks}))


def measure(
    said: SaidMessage, *, number: int, count: Count, declared: str = "", known: MessageSize | None = None
) -> Entry:
    """Return the entry of a message, counted where no size is *known*. Raises `BadMessage`."""
    raw: Any
    raw, plain = messages.decode_told(said.raw)
    readable = raw if plain else with_sound_texts(raw)
    parsed = messages.parse(readable)
    if not declared:
        messages.check_known(readable, parsed.format)
    claims = {claim.pointer: _checked(claim) for claim in said.claims}
    told = known.parts_tokens if known else ()
    # another release may part a message otherwise: none of its parts is left out for that
    sizes = told if len(told) == len(parsed.parts) else repeat(None)
    return Entry(
        number=number,
        raw=said.raw,
        role=parsed.role,
        parts=tuple(
            _size(part, claims.get(part.pointer), count, tokens)
            for part, tokens in zip(parsed.parts, sizes, strict=False)
        ),
        frame_tokens=known.frame_tokens if known else _frame_tokens(parsed, claimed=bool(claims), count=count),
        call_names=tuple(call.name for call in parsed.calls),
        call_ids=tuple(call.id for call in parsed.calls),
        results=tuple(ResultOf(call=result.id, at=result.at) for result in parsed.results),
        surrogates=not plain,
        format=parsed.format,
        native=_native(parsed, readable, declared),
        kind=parsed.kind,
        apart_tokens=known.apart_tokens if known else sum(_size(part, None, count).tokens for part in parsed.beside),
    )


def _native(parsed: messages.Message, message: Mapping[str, Any], declared: str) -> tuple[Profile, ...]:
    """Return the profiles that take *message* as it is, with the one that its conversation declared."""
    more = {one for one in (ANTHROPIC, CHAT) if one == declared != "" and one not in parsed.native}
    return (*parsed.native, *(one for one in more if messages.takes(one, message)))


def shown_message(entry: Entry) -> dict[str, Any]:
    """Return the message as the view shows it (not needed where the entry is verbatim), in its own format."""
    message: Mapping[str, Any] = messages.decode(entry.raw)
    message = messages.replaced(message, {one.pointer: one.text for one in entry.shown if one.raw})
    message = messages.with_leaves(message, {part.pointer: ARTIFACT + part.sha256 for part in media(entry)})
    if entry.surrogates:
        message = with_sound_texts(message)
    ids = {result.at: result.call for result in entry.results if result.call}
    if entry.call_ids:
        parsed = messages.parse(message)
        ids |= {call.at: ident for call, ident in zip(parsed.calls, entry.call_ids, strict=True)}
    out = messages.with_leaves(message, ids)
    out = messages.without_blocks(out, [one.pointer for one in entry.shown if not one.raw])
    if entry.format == CHAT:
        out = chat.accepted(out)
    for result in entry.results:
        lead = LATE if result.late else ORPHAN
        if not result.call and result.under == "/":
            return {"role": "user", "content": f"{lead}\n{text_of(out)}"}
        if not result.call:
            place = int(result.at.split("/")[2])
            text = words(messages.read({"role": "user", "content": [out["content"][place]]}).blocks)
            out["content"][place] = {"type": "text", "text": f"{lead}\n{text}"}
    return out


def tokens_of_results(entry: Entry) -> dict[str, int]:
    """Return the tokens of each result in a message, as they were said, by what its parts' pointers begin with."""
    sizes = {result.under: 0 for result in entry.results}
    for part in entry.parts:
        under = "/" if "/" in sizes else "/".join(part.pointer.split("/", 3)[:3]) + "/"
        if under in sizes:
            sizes[under] += part.tokens
    return sizes


def media(entry: Entry) -> tuple[PartSize, ...]:
    """Return the uploaded images, sounds and files that the view shows by their names."""
    there = {one.pointer for one in entry.shown}
    return tuple(part for part in entry.parts if part.sha256 and part.kind in MEDIA and part.pointer not in there)


def verbatim(entry: Entry) -> bool:
    """Tell whether the message stays byte for byte as it was said, where its provider takes it so."""
    if entry.shown or entry.renamed or entry.orphan or entry.surrogates or (entry.format == CHAT and not entry.native):
        return False
    for part in entry.parts:
        if part.sha256 and part.kind in MEDIA:
            return False
    return all(result.call for result in entry.results)


def text_of(message: Mapping[str, Any]) -> str:
    """Return all text of a message, parts joined by line ends."""
    content = message.get("content")
    return content if isinstance(content, str) else words(messages.read(message).blocks)


def said_by(entry: Entry, pointer: str) -> str:
    """Return the role of who said a part: in a message of the user's, a tool may speak too."""
    return "tool" if entry.observed or result_of(entry, pointer) else entry.role


def result_of(entry: Entry, pointer: str) -> ResultOf | None:
    """Return the result that the part at *pointer* belongs to; of many in one message it is looked up, not searched."""
    if not entry.results:
        return None
    at = 0
    if len(entry.results) > 1:
        at = bisect_left(entry.results, _place(pointer), key=lambda one: _place(one.at))
    found = entry.results[min(at, len(entry.results) - 1)]
    return found if pointer.startswith(found.under) else None


def _place(pointer: str) -> int:
    """Return the place of a block in its message; results stand in this order."""
    steps = pointer.split("/", 3)
    return int(steps[2]) if len(steps) > 2 and steps[2].isdecimal() else -1


def _frame_tokens(parsed: messages.Message, *, claimed: bool, count: Count) -> int:
    """Return the tokens added to the parts, in the profile that adds most."""
    within = tuple(result.at.rpartition("/")[0] + "/" for result in parsed.results)
    # blank words beside results: elsewhere they are a message of their own, in which something must stand
    beside = [part for part in parsed.parts if within and not part.pointer.startswith(within)]
    bare = (parsed.role == "tool" and not beside) or (parsed.format == RESPONSES and parsed.calls)
    texts = [part for part in parsed.parts if part.kind == "text"]
    frames = (0 if bare else 1) + len(parsed.results)
    if parsed.role == "assistant":
        # as items of their own
        frames += max(0, len(texts) - 1)
    tokens = frames * MESSAGE_TOKENS + sum(CALL_TOKENS + count(call.name) for call in parsed.calls)
    silent = not claimed and not any(part.kind != "text" or part.text.strip() for part in beside or parsed.parts)
    if silent and (beside or parsed.role in ("user", *messages.INSTRUCTION_ROLES)):
        tokens += count(anthropic.EMPTY)
    for text in (parsed.name or "", *parsed.fixed):
        tokens += count(text) if len(text) <= EXACT_BYTES_MAX else len(text) // ESTIMATE_BYTES_PER_TOKEN
    return tokens


def _size(part: messages.Part, claim: Claim | None, count: Count, known: int | None = None) -> PartSize:
    length = claim.bytes if claim else len(part.text.encode("utf-8", "surrogatepass"))
    exact = part.kind not in MEDIA and not claim and length <= EXACT_BYTES_MAX
    written_anew = part.kind == "arguments" and not claim and known is None
    # as an object they may cost more than as the text that the model wrote
    other = as_arguments(as_object(part.text)) if written_anew else part.text
    if known is not None:
        tokens = known
    elif part.kind in MEDIA:
        tokens = IMAGE_TOKENS
    elif exact:
        tokens = max(count(part.text), count(other) if other != part.text else 0)
    else:
        tokens = max(length, 0 if claim else len(other)) // ESTIMATE_BYTES_PER_TOKEN
    sha256 = claim.sha256 if claim else ""
    return PartSize(
        pointer=part.pointer, kind=part.kind, bytes=length, tokens=tokens, estimated=not exact, sha256=sha256
    )


def _checked(claim: Claim) -> Claim:
    if not claim.names_upload:
        raise BadMessage("a claim needs the SHA-256 and the size of its upload", at=claim.pointer)
    return claim
