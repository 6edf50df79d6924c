"""Where: in which versions of a conversation a text stands in the view, and where else it is kept.

One pass over the log; a message is looked into when it arrives and when a step changes it, never again. The words
are those of `loss`: at a version a text is *retained* if it stands verbatim in the view, *recoverable* if a
pointer in the view leads to it, *lost* if nothing in the view says so; the places that hold it are named for people.
At a version that served a view which was cut for its call, the view is that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.core.entry import Entry
from actors.core.loss import reachable
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.runtime.fold import Decision
from actors.runtime.said_log import Saying, sayings
from protocol.errors import BadMessage, NotFound, Rejected
from protocol.formats import messages
from protocol.history import Place, Presence, Span, Where
from protocol.ids import Address
from storage.ports import Artifacts, Record

from .call_views import CallView, cut_view
from .text import digest_text, said_text, text_of
from .trail import DIGEST, trail


class _Finder:
    """Remember what a text was looked for in, by the object that holds it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[int, tuple[Entry, bool]] = {}
        self._live: tuple[Entry, ...] = ()
        self._found: tuple[int, ...] = ()
        self._digest: tuple[object, bool] = (None, False)

    def places(self, state: State) -> tuple[int, ...]:
        """Return the numbers of the entries in which the text stands, with the digest's."""
        if self._digest[0] is not state.digest:
            self._digest = (state.digest, self._text in digest_text(state))
        digest = (DIGEST,) if self._digest[1] else ()
        if self._live is not state.live:
            self._live = state.live
            self._found = tuple(entry.number for entry in state.live if self._stands(entry))
        return (*digest, *self._found, *(entry.number for entry in state.arrived if self._stands(entry)))

    def _stands(self, entry: Entry) -> bool:
        known = self._known.get(entry.number)
        if known is None or known[0] is not entry:
            known = (entry, self._text in text_of(entry))
            self._known[entry.number] = known
        return known[1]


def claimed(at: Address, records: Iterable[Record]) -> tuple[str, ...]:
    """Return the SHA-256 of all uploads: what they hold is not in the log."""
    keys = (claim.sha256 for saying in sayings(at, records) for claim in saying.message.claims)
    return tuple(dict.fromkeys(keys))


def where(at: Address, records: Sequence[Record], *, text: str, uploads: Mapping[str, str | None]) -> Where:
    """Return the places of *text*. *uploads* holds the text of each of `claimed`, None for one that is gone.

    Raises `Rejected` for an empty text.
    """
    if not text:
        raise Rejected("where is what? the text is empty")
    places = [place for saying in sayings(at, records) for place in _said(saying, text, uploads)]
    parts = {(place.message, place.part) for place in places}
    finder, spans, hidden = _Finder(text), list[Span](), list[int]()
    seen = False
    now: Presence = "absent"
    for decision in trail(at, records):
        state, version = decision.after, decision.commit.version
        standing = finder.places(state)
        places += _spilled(decision, parts)
        said = [place.message for place in places if place.message <= state.messages]
        seen = seen or bool(standing or said)
        now = _kept(standing, said, state.entries, state.digest) if seen else "absent"
        kept, there = now, standing
        if seen and (call := cut_view(decision, about={*standing, *said})):
            there = _shown_in(call, standing, text)
            kept = _kept(there, said, call.entries.values(), call.digest)
            if standing and not there:
                hidden.append(version)
        _extend(spans, Span(first=version, last=version, kept=kept, messages=there))
    return Where(
        address=str(at),
        text=text,
        now=now,
        spans=tuple(spans),
        places=tuple(places),
        cut_when_served=tuple(hidden),
        unsearched=tuple(key for key, upload in uploads.items() if upload is None),
    )


async def with_lost(found: Where, at: Address, artifacts: Artifacts) -> Where:
    """Return *found* with those of its artifacts that the store has no more. Raises `ArtifactsUnavailable`."""
    lost = []
    for key in dict.fromkeys(place.key for place in found.places if place.key):
        try:
            await artifacts.find(at.tenant, key)
        except NotFound:
            lost.append(key)
    return msgspec.structs.replace(found, lost=tuple(lost))


def in_short(found: Where) -> tuple[Span, ...]:
    """Return the spans as a person reads them: one for as long as the text was kept in the same way.

    Calls that were served without it are left out; of the messages, those of a span's last version are named.
    """
    cut = frozenset(found.cut_when_served)
    told: list[Span] = []
    for span in found.spans:
        if cut.issuperset(range(span.first, span.last + 1)):
            continue
        if told and _way(told[-1]) == _way(span):
            span = msgspec.structs.replace(span, first=told.pop().first)
        told.append(span)
    return tuple(told)


def _way(span: Span) -> tuple[Presence, bool, bool]:
    """Tell a text that stands in messages from one that only the digest has."""
    return span.kept, DIGEST in span.messages, set(span.messages) > {DIGEST}


def _kept(standing: Sequence[int], said: Iterable[int], entries: Iterable[Entry], digest: Digest | None) -> Presence:
    """Tell whether the text stands in the view, or the view leads to one of the messages that *said* it."""
    if standing:
        return "retained"
    by_number = {entry.number: entry for entry in entries}
    found = any(reachable(number, by_number.get(number), digest) for number in said)
    return "recoverable" if found else "lost"


def _shown_in(call: CallView, standing: Sequence[int], text: str) -> tuple[int, ...]:
    """Return those of the *standing* places that the call was shown."""
    entries = {one for one in standing if one in call.entries and text in text_of(call.entries[one])}
    return tuple(one for one in standing if (call.digest is not None if one == DIGEST else one in entries))


def _said(saying: Saying, text: str, uploads: Mapping[str, str | None]) -> Iterable[Place]:
    """Yield the places of *text* in a message as it was said: in the log, or in what was uploaded before."""
    if text in said_text(saying.message.raw):
        for part in _parts(saying, text) or ("",):
            yield Place(kind="log", message=saying.number, part=part)
    for claim in saying.message.claims:
        if text in (uploads.get(claim.sha256) or ""):
            yield Place(kind="artifact", message=saying.number, part=claim.pointer, key=claim.sha256)


def _parts(saying: Saying, text: str) -> list[str]:
    try:
        parsed = messages.parse(messages.decode(saying.message.raw))
    except BadMessage:
        return []
    return [part.pointer for part in parsed.parts if text in part.text]


def _spilled(decision: Decision, parts: set[tuple[int, str]]) -> Iterable[Place]:
    """Yield the artifacts that this step made of parts that hold the text."""
    for fact in decision.commit.facts:
        number, pointer = getattr(fact, "number", 0), getattr(fact, "pointer", "")
        key = getattr(fact, "sha256", "")
        if key and (number, pointer) in parts:
            yield Place(kind="artifact", message=number, part=pointer, key=key, since=decision.commit.version)


def _extend(spans: list[Span], new: Span) -> None:
    if spans and msgspec.structs.replace(spans[-1], first=new.first, last=new.last) == new:
        spans[-1] = msgspec.structs.replace(spans[-1], last=new.last)
    else:
        spans.append(new)
