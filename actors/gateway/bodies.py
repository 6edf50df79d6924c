"""Bodies: a request taken apart without reading more of it than is needed, and put together with other messages.

Its fields and messages stay the bytes that they were; a request of a megabyte is looked through once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol.errors import BadMessage, Rejected
from protocol.formats.messages import INSTRUCTION_ROLES
from protocol.jsonbytes import decode, decode_value, encode_value

from .apis import Api
from .encodings import unfolded
from .identity import Earlier, scope_of
from .incoming import Incoming
from .reasons import Unmanaged
from .repeated import Hashed, Parts, Repeated

MESSAGES_MAX, VALUES_MAX = 50_000, 1_000_000
"""Of a request that is managed, as its commas tell how many values it has: more are read for seconds, and by nobody
else meanwhile."""

TOOLS_MAX = 128
"""Of OpenAI's APIs."""

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


_FIELDS, _LISTED = dict[str, msgspec.Raw], list[msgspec.Raw]


class _Peek(msgspec.Struct):
    """What is asked of every message without reading it."""

    role: Any = None


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """One request: instructions at the head and the tail of its list, and the messages between them."""

    api: Api
    fields: Mapping[str, bytes]
    """As they came; that of the list is empty, which is told by what follows."""
    head: tuple[bytes, ...]
    messages: tuple[bytes, ...]
    tail: tuple[bytes, ...]
    earlier: Earlier | None = None
    """What stands before its messages, where it does not repeat that."""
    changed: bool = False
    """It is not what its bytes say: something was added that its agent only named."""
    conversation: str = ""
    """The id of the one that its provider keeps, and all of it was put before what came."""
    own: tuple[bytes, ...] = ()
    """What came, and is to be added there."""
    hashed: Hashed = msgspec.field(default_factory=Hashed)

    @property
    def skipped(self) -> int:
        """Return how many messages of its conversation are not in it."""
        return self.earlier.length if self.earlier else 0

    def given(self, start: int, end: int) -> tuple[bytes, ...]:
        """Return messages by their places in the conversation. Raises `Rejected` for what is not in the request."""
        if start < self.skipped:
            raise Unmanaged("messages of an earlier request are not in the log yet")
        return self.messages[start - self.skipped : end - self.skipped]

    def field(self, name: str) -> Any:
        """Return the value of a field; None where there is none, or it cannot be read."""
        raw = self.fields.get(name)
        try:
            return None if raw is None else decode_value(raw)
        except BadMessage:
            return None

    @property
    def model(self) -> str:
        """Return the agent's name for the model; empty where it names none."""
        model = self.field("model")
        return model if isinstance(model, str) else ""

    def scope(self, headers: Mapping[str, str]) -> str:
        """Return its agent's word on which conversation it is; empty if there is none."""
        fields = {name: self.field(name) for name in ("metadata", "prompt_cache_key")}
        return scope_of(headers, {**fields, "conversation": self.conversation})

    def behind(self, items: Sequence[bytes], *, conversation: str) -> Body:
        """Return the request as one that brings *items* of a conversation itself. Raises `Rejected`."""
        own = (*self.head, *self.messages, *self.tail)
        head, messages, tail = _parted([*items, *own])
        fields = {name: raw for name, raw in self.fields.items() if name != "conversation"}
        said = {"head": head, "messages": messages, "tail": tail, "own": own}
        return replace(self, fields=fields, changed=True, conversation=conversation, **said)

    @property
    def continues_a_thread(self) -> bool:
        """Tell whether it goes on with a thread that Anthropic keeps, and brings what is new of it alone."""
        thread = self.field("thread") if self.api.name == "messages" else None
        return isinstance(thread, dict) and thread.get("previous_message_id") is not None

    @property
    def instructions(self) -> bytes:
        """Return all that stands beside the conversation and costs tokens."""
        beside = (self.fields[name] for name in self.api.instructions if name in self.fields)
        return b"\n".join((*beside, *self.head, *self.tail))

    @property
    def has_tools(self) -> bool:
        """Tell whether the model is given any tool."""
        return self._tools > 0

    @property
    def takes_tool(self) -> bool:
        """Tell whether it may be given one more."""
        return self._tools > 0 and (self._tools < TOOLS_MAX or self.api.host != "openai")

    @property
    def _tools(self) -> int:
        try:
            return len(msgspec.json.decode(self.fields.get("tools", b"[]"), type=list[msgspec.Raw]))
        except UNREADABLE:
            return 0

    @property
    def answer_tokens(self) -> int:
        """Return the tokens that the answer may have; 0 where nothing is said of it."""
        asked = (self.field(name) for name in self.api.answer)
        return next((value for value in asked if isinstance(value, int) and not isinstance(value, bool)), 0)

    def written(self, messages: Sequence[bytes] | None = None, **others: bytes) -> bytes:
        """Return the request with other *messages* between its head and its tail, and other fields."""
        shown = self.messages if messages is None else messages
        listed = [piece for one in (*self.head, *shown, *self.tail) for piece in (b",", one)]
        # a megabyte is copied once, not with each pair of brackets around it
        pieces: list[bytes] = []
        for name, raw in {**self.fields, self.api.field: b"", **others}.items():
            pieces += (b",", encode_value(name), b":")
            pieces += (raw,) if name != self.api.field else (b"[", *listed[1:], b"]")
        return b"".join((b"{", *pieces[1:], b"}"))


def read_of(asked: Incoming, api: Api, *, bytes_max: int, repeated: Repeated) -> Body | Rejected:
    """Return the body of a request, unfolded where it came compressed; the reason, where it cannot be read."""
    if asked.rest is not None:
        return Rejected(f"the request has more than {bytes_max:,} bytes")
    try:
        raw = unfolded(asked.body, asked.header("content-encoding"), bytes_max=bytes_max)
        return body_of(raw, api, repeated=repeated)
    except Rejected as error:
        return error


def body_of(raw: bytes, api: Api, *, repeated: Repeated) -> Body:
    """Return a request taken apart. Raises `Rejected` for one without a conversation that we can read."""
    # a text has commas, too
    if raw.count(b",") > VALUES_MAX and _TEXT.sub(b"", raw).count(b",") > VALUES_MAX:
        raise Rejected(f"the request has more than {VALUES_MAX:,} values")
    try:
        try:
            fields, listed, hashed = repeated.parts(raw, api.field) or _parts(raw, api, repeated)
        except UNREADABLE:
            # msgspec refuses the escapes of lone surrogates, which agents write where they cut a text within a sign
            fields, listed, hashed = _parts(raw, api, repeated, read=_read)
        head, messages, tail = _parted(listed)
    except KeyError:
        raise Rejected(f"the request has no {api.field}") from None
    except (BadMessage, *UNREADABLE):
        raise Rejected(f"the request's {api.field} cannot be read") from None
    if len(listed) > MESSAGES_MAX:
        raise Rejected(f"the request has more than {MESSAGES_MAX:,} messages")
    if not messages and "previous_response_id" not in fields:
        raise Rejected("the request brings no message of a conversation")
    return Body(api=api, fields=fields, head=head, messages=messages, tail=tail, hashed=hashed)


def _raw(raw: bytes, kind: Any) -> Any:
    """Return the parts of an object or a list as the bytes that they are. Raises one of `UNREADABLE`."""
    return msgspec.json.decode(raw, type=kind)


def _read(raw: bytes, kind: Any) -> Any:
    """Return the same of JSON with lone surrogates, its parts written anew. Raises `BadMessage`."""
    value = decode_value(raw)
    if isinstance(value, dict) and kind == _FIELDS:
        return {name: encode_value(one) for name, one in value.items()}
    if isinstance(value, list) and kind == _LISTED:
        return [encode_value(one) for one in value]
    raise BadMessage("not what was expected", at="")


def _parts(raw: bytes, api: Api, repeated: Repeated, *, read: Callable[[bytes, Any], Any] = _raw) -> Parts:
    fields = {name: bytes(value) for name, value in read(raw, _FIELDS).items()}
    named = "previous_response_id" in fields and api.field not in fields
    given = b"[]" if named else fields[api.field].strip()
    fields[api.field] = b""
    if given.startswith(b'"') and api.name == "responses":
        # there a bare text is the user's; other providers refuse it
        return Parts(fields, [b'{"role":"user","content":' + given + b"}"], Hashed())
    listed = [bytes(one) for one in read(given, _LISTED)]
    return Parts(fields, listed, repeated.remember(raw, api.field, listed))


_Messages = tuple[bytes, ...]


def _parted(listed: Sequence[bytes]) -> tuple[_Messages, _Messages, _Messages]:
    """Return the instructions that a list begins with, its messages, and the instructions that it ends with."""
    start, end = 0, len(listed)
    while start < end and _instructs(listed[start]):
        start += 1
    while end > start and _instructs(listed[end - 1]):
        end -= 1
    return tuple(listed[:start]), tuple(listed[start:end]), tuple(listed[end:])


def _instructs(raw: bytes) -> bool:
    try:
        role = msgspec.json.decode(raw, type=_Peek).role
    except UNREADABLE:
        role = decode(raw).get("role")
    return isinstance(role, str) and role in INSTRUCTION_ROLES
