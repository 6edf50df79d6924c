"""Entries: messages as the rules see them, measured once.

Counting is handed in as a function, so that the same bytes give the same entry in every worker, in
replay, and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from protocol import messages
from protocol.errors import BadMessage
from protocol.facts import Claim, SaidMessage
from protocol.policy import Policy
from protocol.semconv import Category

Count = Callable[[str], int]
"""Tokens of one text, by the tokenizer that the commits name."""

MESSAGE_TOKENS = 4
"""What a provider adds to each message for its role and frame (OpenAI: 3 to 4)."""

CALL_TOKENS = 8
"""What a provider adds to each call; the highest of the published rules that fit (llm4s: 10 with its id)."""

MEDIA: frozenset[messages.PartKind] = frozenset(("image", "audio", "file"))

ARTIFACT = "artifact:"
"""Begins the name of an uploaded image in a view: its SHA-256 follows, so that the view's hash covers it."""

CAP_TOKENS_MIN = 160
"""A pointer costs about 100 tokens: what is smaller would grow by being spilled."""

MEDIUM_TOKENS_MIN = 240
"""Below two pointers, little is left to show once one is paid for."""

IMAGE_TOKENS = 1105
"""An image of unknown size at high detail (OpenAI: 85 + 6 tiles of 170); never the length of its base64."""

EXACT_BYTES_MAX = 256 * 1024
"""Larger parts are estimated: they are spilled in any case, and 50 MB would take five seconds to count."""

ESTIMATE_BYTES_PER_TOKEN = 3

CATEGORIES: tuple[Category, ...] = ("system", "user", "assistant", "tool_calls", "tool_results", "digest")


class PartSize(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one part costs, as it was said. `sha256` names the upload of a claimed part."""

    pointer: str
    kind: messages.PartKind
    bytes: int
    tokens: int
    estimated: bool
    sha256: str = ""


class Shown(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A part's text in the view, where it is not what was said."""

    pointer: str
    text: str
    tokens: int


class Noted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A note that stands behind a message in the view: a message of its own."""

    name: str
    text: str
    tokens: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One message in the state: verbatim bytes, sizes, and how it is shown.

    `call_ids` and `result_of` are as shown: ids that repeat were made distinct. `loose` marks a result
    without a call, shown as a user message. `boundary` says that an agent may ask for a view after it.
    """

    number: int
    raw: bytes
    role: str
    parts: tuple[PartSize, ...]
    frame_tokens: int
    call_names: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    result_of: str = ""
    renamed: bool = False
    loose: bool = False
    surrogates: bool = False
    boundary: bool = False
    leading: bool = False
    """An instruction before anybody else spoke; it is never parted from the head of the conversation."""
    shown: tuple[Shown, ...] = ()
    answers: tuple[str, ...] = ()
    """Call ids of an aborted batch that a written result must close, after the real ones."""
    looked: bool = False
    """Spill looked at the parts of medium size that are not `shown`, and shortening them wins too little."""
    notes: tuple[Noted, ...] = ()
    tool: str = ""
    """Name of the tool whose result this is."""
    batch: tuple[int, ...] = ()
    """Tokens, as they were said, of the results that came before it in its batch of calls."""
    same_as: int = 0
    """Number of the first message with the same result."""

    @property
    def tokens(self) -> int:
        """Return the tokens of the message as it is shown."""
        shown = {one.pointer: one.tokens for one in self.shown}
        parts = sum(shown.get(part.pointer, part.tokens) for part in self.parts)
        notes = sum(note.tokens for note in self.notes)
        return self.frame_tokens + parts + len(self.answers) * ABORTED_TOKENS + notes

    def without_note(self, name: str) -> Entry:
        """Return the entry without its note of that name."""
        if all(note.name != name for note in self.notes):
            return self
        return msgspec.structs.replace(self, notes=tuple(note for note in self.notes if note.name != name))

    def with_shown(self, pointer: str, text: str, tokens: int) -> Entry:
        """Return the entry with another text at *pointer*."""
        others = tuple(one for one in self.shown if one.pointer != pointer)
        return msgspec.structs.replace(self, shown=(*others, Shown(pointer=pointer, text=text, tokens=tokens)))

    def by_category(self) -> dict[Category, int]:
        """Return the shown tokens by what they are."""
        shown = {one.pointer: one.tokens for one in self.shown}
        calls = sum(shown.get(part.pointer, part.tokens) for part in self.parts if part.kind == "arguments")
        category: Category = "assistant"
        if self.role in messages.INSTRUCTION_ROLES:
            category = "system"
        elif self.role == "user":
            category = "user"
        elif self.role == "tool":
            category = "tool_results"
        return {category: self.tokens - calls, "tool_calls": calls} if calls else {category: self.tokens}


LOOSE = "[Result of a tool call that is not in this conversation]"
LOOSE_TOKENS = 16
"""Bound on `LOOSE` with its line end, in both encodings (a test counts it)."""

ABORTED = "[No result was recorded: the call was aborted.]"
ABORTED_TOKENS = 20
"""Bound on `ABORTED` with its frame, in both encodings (a test counts it)."""


def measure(said: SaidMessage, *, number: int, count: Count) -> tuple[Entry, messages.Message]:
    """Return the entry of a message, and its parsed form. Raises `BadMessage`."""
    raw: Any = messages.decode(said.raw)
    plain = messages.is_plain(said.raw)
    parsed = messages.parse(raw if plain else _without_surrogates(raw))
    claims = {claim.pointer: _checked(claim) for claim in said.claims}
    sizes = []
    for part in parsed.parts:
        claim = claims.get(part.pointer)
        if claim is not None:
            tokens = IMAGE_TOKENS if part.kind in MEDIA else claim.bytes // ESTIMATE_BYTES_PER_TOKEN
            sizes.append(_size(part, claim.bytes, tokens, True, claim.sha256))
            continue
        length = len(part.text.encode("utf-8", "surrogatepass"))
        tokens, exact = _tokens(part, length, count)
        sizes.append(_size(part, length, tokens, not exact, ""))
    frame = MESSAGE_TOKENS + sum(CALL_TOKENS + count(call.name) for call in parsed.calls)
    entry = Entry(
        number=number,
        raw=said.raw,
        role=parsed.role,
        parts=tuple(sizes),
        frame_tokens=frame + (count(parsed.name) if parsed.name else 0),
        call_names=tuple(call.name for call in parsed.calls),
        call_ids=tuple(call.id for call in parsed.calls),
        result_of=parsed.result_of or "",
        surrogates=not plain,
    )
    return entry, parsed


def cap_tokens(policy: Policy, usable_tokens: int) -> int:
    """Return the tokens that one part may have before it is spilled."""
    return max(CAP_TOKENS_MIN, min(int(usable_tokens * policy.spill.share), policy.spill.tokens))


def medium_tokens(policy: Policy, usable_tokens: int) -> int:
    """Return the tokens above which a tool's result is shortened, if that wins enough."""
    return max(MEDIUM_TOKENS_MIN, int(usable_tokens * policy.spill.medium))


def oversized(entry: Entry, policy: Policy, usable_tokens: int) -> tuple[PartSize, ...]:
    """Return the parts that spill must look at before the message may be shown.

    Equality is allowed. Instructions are never spilled, and neither is what the assistant said: both are
    shortened by cut if nothing else helps. A claimed text is not in the message and must be spilled; a claimed
    image is shown by its name. A tool's result of medium size is looked at once: it is shortened, or spill declines.
    """
    if not entry.role:
        return ()
    there = {one.pointer for one in entry.shown}
    spillable = entry.role in ("tool", "user")
    medium = medium_tokens(policy, usable_tokens) if entry.role == "tool" and not entry.looked else None
    return tuple(
        part
        for part in entry.parts
        if part.pointer not in there
        and (
            (part.sha256 and part.kind not in MEDIA)
            or (
                spillable
                and part.kind == "text"
                and (over_cap(part, policy, usable_tokens) or (medium is not None and part.tokens > medium))
            )
        )
    )


def over_cap(part: PartSize, policy: Policy, usable_tokens: int) -> bool:
    """Tell whether a part of a tool or a user must leave the window."""
    return part.tokens > cap_tokens(policy, usable_tokens) or part.bytes > policy.spill.bytes


def shown_message(entry: Entry) -> dict[str, Any]:
    """Return the message as the view shows it (not needed where the entry is verbatim)."""
    message: Mapping[str, Any] = messages.decode(entry.raw)
    message = messages.replaced(message, {one.pointer: one.text for one in entry.shown})
    message = messages.with_leaves(message, {part.pointer: ARTIFACT + part.sha256 for part in media(entry)})
    if entry.surrogates:
        message = _without_surrogates(message)
    out = dict(message)
    if entry.call_ids and "tool_calls" in out:
        out["tool_calls"] = [
            {**call, "id": ident} for call, ident in zip(out["tool_calls"], entry.call_ids, strict=True)
        ]
    if out.get("tool_calls") == []:
        del out["tool_calls"]
    if entry.role == "tool" and out.get("content") is None:
        out["content"] = ""
    if entry.loose:
        return {"role": "user", "content": f"{LOOSE}\n{text_of(out)}"}
    if entry.role == "tool":
        out["tool_call_id"] = entry.result_of
    return out


def media(entry: Entry) -> tuple[PartSize, ...]:
    """Return the uploaded images, sounds and files that the view shows by their names."""
    there = {one.pointer for one in entry.shown}
    return tuple(part for part in entry.parts if part.sha256 and part.kind in MEDIA and part.pointer not in there)


def verbatim(entry: Entry) -> bool:
    """Tell whether the view shows the message byte for byte as it was said."""
    changed = media(entry) or entry.shown or entry.renamed or entry.loose or entry.surrogates
    bare = (entry.role == "tool" and not entry.parts) or b'"tool_calls":[]' in entry.raw
    return not changed and not bare


def text_of(message: Mapping[str, Any]) -> str:
    """Return all text of a message, parts joined by line ends."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or () if isinstance(part, dict))


def _size(part: messages.Part, length: int, tokens: int, estimated: bool, sha256: str) -> PartSize:
    return PartSize(
        pointer=part.pointer, kind=part.kind, bytes=length, tokens=tokens, estimated=estimated, sha256=sha256
    )


def _tokens(part: messages.Part, length: int, count: Count) -> tuple[int, bool]:
    if part.kind in MEDIA:
        return IMAGE_TOKENS, False
    if length > EXACT_BYTES_MAX:
        return length // ESTIMATE_BYTES_PER_TOKEN, False
    return count(part.text), True


def _checked(claim: Claim) -> Claim:
    """Refuse what cannot name an upload: the hash becomes a key of the store."""
    if claim.bytes < 0 or len(claim.sha256) != 64 or not set(claim.sha256) <= set("0123456789abcdef"):
        raise BadMessage("a claim needs the SHA-256 and the size of its upload", at=claim.pointer)
    return claim


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return messages.without_surrogates(value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value
