"""History: what is asked about the past of a conversation, and how it is told: by commands, page and service.

A *version* counts the commits of a conversation from 1. Tokens are counted as the conversation's tokenizer counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from .semconv import Category, Outcome

VERSIONS_MAX = 1000
"""Rows of one answer; the next ones are asked for with `after`, or `before`."""

HITS = 20
"""Messages that a search tells of, where nobody says otherwise."""

ARTIFACTS_MAX = 500
"""Of one answer; older ones are asked for with `before`."""

TEXT_CHARS = 2000
"""Of a message in an answer, where nobody says otherwise; `read_artifact("messages:N")` has the rest."""

TEXT_CHARS_MAX = 64 * 1024

Presence = Literal["absent", "retained", "recoverable", "lost"]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many values of one category are where, or steps, or sentences."""

    retained: int = 0
    recoverable: int = 0
    lost: int = 0


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """One value, and the newest message that had it."""

    category: str
    value: str
    number: int


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What one step did to the values in the messages that it changed; what it did not touch is not counted."""

    categories: dict[str, Tally]
    lost: tuple[Value, ...] = ()
    steps: Tally | None = None
    """Calls of the assistant with their outcomes; None: not counted, or there were none."""
    sentences: Tally | None = None
    """Of users and the assistant; None as with `steps`."""

    @property
    def total(self) -> Tally:
        """Return the sums over all categories of values."""
        return _summed(self.categories.values())

    @property
    def rows(self) -> dict[str, Tally]:
        """Return the steps and the sentences, by these names, and the values by category."""
        told = {"steps": self.steps, "sentences": self.sentences}
        return {name: one for name, one in told.items() if one is not None} | self.categories


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One commit in one line. `messages` is how many its writer had seen, so the number of the newest of them.

    Tokens before and after are the conversation's; what a call was shown may be less, and is `served_tokens`.
    As a message of the protocol it has `upto`: the position in the log of what the writer had seen last.
    """

    version: int
    time: str
    seq: int
    stage: str
    outcome: Outcome
    facts: dict[str, int]
    before_tokens: int
    after_tokens: int
    usable_tokens: int
    messages: int
    upto_seq: int = msgspec.field(name="upto")
    policy_hash: str
    trace_id: str
    writer: str
    hash: str
    reasons: tuple[str, ...] = ()
    loss: Loss | None = None
    served_tokens: int = 0
    """Of the view that was served; 0: none was. `reasons` say if it was cut for its call."""

    @property
    def only_served(self) -> bool:
        """Tell whether it changed nothing: it only says that a view was served."""
        return self.facts.keys() == {"ContextServed"}

    @property
    def upto(self) -> int:
        """Return the number of the newest message that its writer had seen, as `fork` and `rewind` take it."""
        return self.messages


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One message in either version. `did`: kept, new, restored, or what took it out or changed it, in `version`."""

    number: int
    role: str
    did: str
    before_tokens: int
    after_tokens: int
    before: str = ""
    after: str = ""
    version: int = 0
    fact: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens before and after."""

    before: int
    after: int


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """What lies between two versions. `stages` are the tokens that each added or, below 0, took away."""

    address: str
    older: int
    newer: int
    tokens: Change
    categories: dict[Category, Change]
    stages: dict[str, int]
    rows: tuple[Row, ...]


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """What an LLM had to do with a step. `dollars` is None where no price is known."""

    model: str
    prompt_hash: str
    input_tokens: int
    output_tokens: int
    attempts: int
    dollars: float | None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was done to the message, and the reason with its numbers."""

    version: int
    time: str
    seq: int
    stage: str
    did: str
    fact: str
    rule: str
    policy: dict[str, Any]
    before_tokens: int
    after_tokens: int
    commit_id: str
    hash: str
    policy_hash: str
    trace_id: str
    artifact: str = ""
    loss: Loss | None = None
    """What became of all values that the step took, if it was a compaction."""
    llm: ModelUse | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """One message up to one version. `number` 0 is the digest."""

    address: str
    version: int
    number: int
    role: str
    now: str
    """How the view shows it: verbatim, changed, or not."""
    said_time: str = ""
    said_seq: int = 0
    said_trace_id: str = ""
    text: str = ""
    """As it was said."""
    history: tuple[Event, ...] = ()
    read: tuple[str, ...] = ()
    """How to read what the view does not show."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Versions in which nothing changed for the text: where it stands, 0 being the digest."""

    first: int
    last: int
    kept: Presence
    messages: tuple[int, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One place outside the view that holds the text."""

    kind: Literal["log", "artifact"]
    message: int
    part: str = ""
    key: str = ""
    since: int = 0
    """The version from which on an artifact holds it."""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one text in one conversation. `now`: in the conversation, which the next view is made of."""

    address: str
    text: str
    now: Presence
    spans: tuple[Span, ...]
    places: tuple[Place, ...]
    cut_when_served: tuple[int, ...] = ()
    """Served versions that did not show it although the state had it: it was cut for that call alone."""
    unsearched: tuple[str, ...] = ()
    """Uploads that the store does not have any more, or that are too many to be searched for one answer."""
    lost: tuple[str, ...] = ()
    """Artifacts among the places that the store has no more, where who answers looked there: the command does."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A message in which something was found."""

    number: int
    about: str
    """Its line in an outline: key, role, what it calls, answers or says, tokens, artifacts."""
    lines: tuple[tuple[int, str, bool], ...]
    """Of its text: number, text, and whether it was found or stands beside; long ones are cut around what was found."""
    more: int
    """Further lines in which it was found."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, the newest message first."""

    hits: tuple[Hit, ...]
    messages: int
    """In how many it was found, of those that were looked at."""
    oldest: int
    """The first of them, 0 if there is none."""
    looked_at: int
    """Messages."""
    unread: int = 0
    """Texts that were uploaded and could not be looked at: too many, or gone."""
    each: tuple[tuple[str, int], ...] = ()
    """Where nothing holds all words: each word, and how many messages hold it."""


class KeptPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message that is an artifact."""

    key: str
    number: int
    kind: str
    bytes: int
    tokens: int


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased. It names no content; the hashes are those that anchors hold."""

    address: str
    at_ms: int
    by: str
    version: int
    """Of the tombstone."""
    tombstone: str
    """Its hash."""
    head: str
    """Hash of the last commit that was."""
    said: int
    commits: int
    messages: int
    records: int
    """Overwritten by this run."""
    snapshots: int
    keys: int
    wakes: int
    dead_letters: int
    gateway: int
    """Documents in which gateways knew of it."""
    artifacts: tuple[str, ...]
    """Objects that were deleted."""
    shared: tuple[str, ...]
    """Objects that another conversation of the tenant relies on."""
    archives: tuple[str, ...] = ()
    """Older parts of its log that were deleted from the store, by their SHA-256."""
    commits_lost: int = 0
    """Commits that were gone before it was erased, most often with an archive that was lost: neither they nor what was
    said beside them are among `said`, `commits` and `messages`."""


class VersionsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the versions behind the one numbered `after`, the oldest first, at most `most` of them."""

    after: int = 0
    most: int = VERSIONS_MAX
    losses: bool = False
    """Count anew what each step lost, and name it."""
    before: int = 0
    """Only versions with a smaller number; 0: all."""
    newest: bool = False
    """Where there are more than `most`, the newest of them."""
    changes: bool = False
    """Without the versions that only say that a view was served."""


class DiffAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what lies between two versions; of each text at most `chars` characters are told."""

    older: int
    newer: int
    chars: int = TEXT_CHARS


class WhyAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what happened to a message (0: the digest) up to a version, 0 being the newest."""

    message: int
    version: int = 0
    chars: int = TEXT_CHARS


class WhereAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask where a text stands and stood."""

    text: str


class SearchAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for messages of the whole history, whatever a view shows of it, the newest first, at most `most` of them."""

    query: str
    """Words that a message must hold, in any case; `"a phrase"` is one of them."""
    regex: bool = False
    """The query is an RE2 expression, looked for in each line."""
    before: int = 0
    """Only messages with a smaller number; 0: all."""
    most: int = HITS
    context: int = 1
    """Lines around each that is found."""


class ArtifactsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the conversation's artifacts, the newest first, each once, at most `most` of them."""

    before: int = 0
    """Only those of messages with a smaller number; 0: all."""
    most: int = ARTIFACTS_MAX


class EraseAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Ask that a conversation be erased: its records, its artifacts and its key; nothing brings it back."""

    by: str = ""


def _summed(found: Iterable[Tally]) -> Tally:
    found = tuple(found)
    return Tally(
        retained=sum(one.retained for one in found),
        recoverable=sum(one.recoverable for one in found),
        lost=sum(one.lost for one in found),
    )
