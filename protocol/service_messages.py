"""What is asked of the context service, and how it answers: the wire between client and service.

An answer is one frame with an `Answer` and, where it has a body, as many frames of bytes as it names. Before it come
signs of life: empty frames with the status `WORKING`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import msgspec

from . import errors
from .errors import JettisonError
from .formats.messages import Profile
from .ids import Address
from .limits import WHOLE_MAX

Whole = Annotated[int, msgspec.Meta(ge=-WHOLE_MAX, le=WHOLE_MAX)]
"""A number that anybody may ask with."""

WORKING = "100"
"""The header `Status` of a sign of life; NATS' own number for it."""

WORKING_SECONDS = 0.5
"""Between two signs of life."""

WAIT_SECONDS = 10.0
"""For an answer, where nobody says otherwise."""


class SaidAt(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an agent was told is durable: an envelope by its writer and count, and its place in the log."""

    seq: Whole
    writer: str
    count: Whole


class ContextAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the view for the next call. `upto_seq` is the newest thing the agent has said."""

    upto_seq: Whole = 0
    budget: Whole = 0
    """Tokens of this view; 0: the standing budget, else as the policy says."""
    model: str = ""
    """Model that the view is for, where its window may be smaller than the policy's; empty: the conversation's."""
    wait_seconds: float = WAIT_SECONDS
    unfinished: bool = False
    """Serve within an unfinished batch of calls too: for who looks at it, since no provider takes it."""
    soon: bool = False
    """While a compaction is under way that the trigger began, serve what stood before it, if that fits."""
    have: str = ""
    """Hash of a view that who asks still has, and nobody else spoke since: what both begin with may be left out."""
    said: SaidAt | None = None
    """The newest thing that who asks has said: where the log has it not, it lost its end, and nothing is served."""
    doubted: tuple[SaidAt, ...] = ()
    """What it had said before its connection broke off: looked for in the log itself."""
    unsent: tuple[Whole, ...] = ()
    """Versions of views that it was handed before and that it gave no model: they came too late, or were of no use."""
    coming: SaidAt | None = None
    """What who asks says at the same time, at a place that it does not know yet (`seq` is 0): it is waited for."""


class ReadAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a part of an artifact (`key`: the first digits of its SHA-256) or of messages (`messages:4-9`, `#4`).

    Of several messages that are too long for an answer it is an outline; with a pattern, the hits by messages.
    """

    key: str
    lines: str = ""
    """First and last line, from 1: `"20-80"`, `"20-"`."""
    bytes: str = ""
    """First and last byte of the text as UTF-8, from 1."""
    pattern: str = ""
    """RE2 expression; matching lines with `context` lines around each."""
    context: int = 2
    json_path: str = ""
    """JSONPath (RFC 9535); what it finds is the text that the ranges and the pattern are taken of."""
    bytes_max: int = 16_384
    """Bound on the answer, and no more than `READ_BYTES_MAX`."""
    media: bool = False
    """An image, a sound or a file is given whole, as the URL that it was said as."""
    own: bool = False
    """Of artifacts only those that this conversation's log names; others of the tenant are not found."""


class ExpandAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for what has left the view to be in it again: messages (`4-9`, `#4`), or an artifact by its key."""

    messages: str = ""
    artifact: str = ""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What a wish did to the view."""

    version: int
    """The newest one after it."""
    before_tokens: int
    """Of the view before."""
    after_tokens: int
    """Of the view since."""


class Expanded(Changed, frozen=True, kw_only=True):
    """What was put back, and what the view costs since. Nothing, where the view showed it all."""

    restored: tuple[int, ...]
    """Numbers of messages."""
    parts: int
    """Spilled parts that are shown in full."""


class RewindAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the context of an earlier version: the one with this number, or the newest within the first messages."""

    version: int = 0
    upto: int = 0
    """Messages that had been said by then, at most; 0: the version is named."""


class Rewound(Changed, frozen=True, kw_only=True):
    """What a rewind did."""

    to_version: int
    """Whose context it is again."""
    upto: int
    """Number of the last message that is left. The next one has the number after all that were ever said."""
    left: tuple[int, ...] = ()
    """First and last number of the messages that left the view; empty: none did. `expand` shows them again."""
    left_count: int = 0
    """How many left; fewer than lie between those two where the view did not show all of them."""


class ForkAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a new conversation of the same tenant, called *name*, that begins as this one at a version.

    It is the one with this number, or the newest within the first messages; without either, the newest one.
    """

    name: str = ""
    version: int = 0
    upto: int = 0


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """What a fork did."""

    address: str
    """Of the new conversation."""
    parent: str
    """The address of the one that it began as."""
    version: int
    """Of the parent."""
    records: int
    """Written now; none, when it was there already."""
    upto: int = 0
    """Messages that are in it: those that were said before that version."""


class OpenAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask whether a conversation can be opened so: nothing is changed."""

    model: str = ""
    policy: dict[str, Any] = {}
    """The agent's own layer."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """It can; `notes` say what is not known, and what to set. `budget` is the standing one that was asked for."""

    notes: tuple[str, ...] = ()
    budget: int = 0


class PolicyAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for other values of a conversation's policy from now on; what is not named stays."""

    policy: dict[str, Any]
    upto_seq: int = 0
    by: str = ""
    said: SaidAt | None = None
    doubted: tuple[SaidAt, ...] = ()
    """Both as in `ContextAsked`."""


class PolicyChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Since which version a policy holds, and the keys that have another value since; none: it was so already."""

    version: int
    """The first one with it."""
    keys: tuple[str, ...]
    """That have another value since."""
    notes: tuple[str, ...] = ()
    """What is not known, and what to set."""


class UploadAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a URL to which the bytes with this SHA-256 can be PUT, and no other number of them."""

    sha256: str
    bytes: int = 0
    """How many there are. A client from before it was asked for says none, and gets no URL."""


class ContextMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a served view, beside its messages."""

    version: int
    """Of the conversation: `show CONV@N` rebuilds this view."""
    upto: int
    """Number of the newest message that it is of."""
    tokens: int
    """What its messages cost as `tokenizer` counts, frames included."""
    budget: int
    """Tokens that it might have: the smallest of what was asked, the standing budget and the model's window."""
    hash: str
    """SHA-256 of its messages, to be named in `report_usage` and `report_overflow`."""
    level: str
    """How much this call's budget took of the standing view. `none`: nothing; `units`: whole units left, the oldest
    first; `floor`: texts were shortened and the floor of the policy stays; `fewer`: units of a soft floor left too;
    `shrink`: texts of all that must stay were shortened; `bare`: that, and what stands for older messages is gone."""
    profile: Profile
    """The API that `messages` are written for."""
    tokenizer: str
    """By which tokens are counted."""
    estimated: bool
    """It is not the model's own."""
    squeezing: bool
    """An LLM is still shortening the digest: the next view may be smaller."""
    standing: int = 0
    """The budget that views have where a call names none, and what is compacted to."""
    left_out: str = ""
    """Messages that the standing budget would show and this view does not: `4-9,12`."""
    shortened: str = ""
    """Messages of which a text is shortened in this view, and would not be."""
    repeated: bool = False
    """The call before asked for the same budget, which is not the standing one."""
    compacted: bool = False
    """Messages have left the view, or were shortened to make room: `gen_ai.conversation.compacted` of the call."""
    same: int = 0
    """Messages at the beginning of the view that who asked has and that were not sent."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the service, to be raised again at the client."""

    kind: str
    message: str
    fields: dict[str, Any] = {}


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Announced when nobody has anything left to do: the state that the next view is made of."""

    version: int
    """The newest one."""
    upto: int
    """Number of the newest message in it."""
    tokens: int
    """Of the standing view."""
    pressure: float
    """Its tokens / the tokens usable."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame of an answer; `frames` frames of bytes follow."""

    frames: int = 0
    context: ContextMeta | None = None
    url: str = ""
    fault: Fault | None = None


def fault_of(error: JettisonError) -> Fault:
    """Return *error* as it travels; fields that are not JSON become text."""
    fields = {
        key: value if isinstance(value, (str, int, float, bool)) else str(value) for key, value in error.fields.items()
    }
    return Fault(kind=type(error).__name__, message=str(error), fields=fields)


def raised(fault: Fault) -> JettisonError:
    """Return the error that *fault* describes, of its own type where this version knows it."""
    kind: Any = getattr(errors, fault.kind, JettisonError)
    fields: Mapping[str, Any] = fault.fields
    known = isinstance(kind, type) and issubclass(kind, JettisonError)
    return kind(fault.message, **fields) if known else JettisonError(fault.message, **fields)


Answering = Callable[[Address, bytes], Awaitable[bytes]]
"""From the bytes of a question to those of its answer, which is for one conversation."""
