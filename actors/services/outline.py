"""Outline: messages of a range told in a line each, with the key that each is read by.

A range that is too long for one answer is read on from its lines: who reads knows then what to ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from actors.core.entry import Entry, measure
from actors.core.message_texts import MessageText, texts_of
from actors.core.text.slices import LEFT_BYTES
from actors.digest.calls import target_of
from actors.digest.clips import clipped, one_line
from actors.model_info.tokens import counter, tokenizer_for
from actors.runtime.said_log import said_facts
from actors.spill.labels import KEY_CHARS
from protocol import codec
from protocol.errors import BadEnvelope, BadMessage
from protocol.facts import ConversationOpened, MessagesAppended, SaidMessage, ToolOutputSpilled
from protocol.formats import messages
from protocol.ids import Address
from storage.ports import Record

ABOUT_CHARS = 100
"""Of what a message calls or says: a line of 116 messages is some 3,000 tokens then."""

KEYS_MAX = 4
"""Of one message in its line."""


class Outline(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The messages of a conversation, each of which has a line."""

    said: Sequence[SaidMessage]
    model: str
    done: Sequence[Record]
    """Commits, which tell what was spilled."""

    @classmethod
    def of(cls, at: Address, records: Iterable[Record]) -> Outline:
        """Read the whole log of *at*."""
        records = list(records)
        said: list[SaidMessage] = []
        model = ""
        for _, fact in said_facts(at, records):
            if isinstance(fact, MessagesAppended):
                said += fact.messages
            elif isinstance(fact, ConversationOpened):
                model = model or fact.model
        return cls(said=said, model=model, done=[record for record in records if record.side == "done"])

    @cached_property
    def spills(self) -> tuple[ToolOutputSpilled, ...]:
        """Return the parts that spill stored."""
        found: list[ToolOutputSpilled] = []
        for record in self.done:
            # most commits spill nothing, and need not be read for this
            if b"ToolOutputSpilled" not in record.body:
                continue
            try:
                facts = codec.decode_commit(record.body).facts
            except BadEnvelope:
                # a damaged commit must not hide what was said
                continue
            found += (fact for fact in facts if isinstance(fact, ToolOutputSpilled))
        return tuple(found)

    @cached_property
    def spilled(self) -> dict[int, list[str]]:
        """Return the keys of what spill stored, by messages."""
        found: dict[int, list[str]] = {}
        for fact in self.spills:
            found.setdefault(fact.number, []).append(fact.sha256)
        return found

    @property
    def artifacts(self) -> set[str]:
        """Return the SHA-256 of all artifacts that the conversation names."""
        return {claim.sha256 for one in self.said for claim in one.claims} | {fact.sha256 for fact in self.spills}

    def keys(self, number: int) -> list[str]:
        """Return the keys of what was uploaded or spilled of a message."""
        all_of_it = [claim.sha256 for claim in self.said[number - 1].claims] + self.spilled.get(number, [])
        return [key[:KEY_CHARS] for key in dict.fromkeys(all_of_it)]

    def is_claimed(self, number: int) -> bool:
        """Tell whether a text of the message was uploaded, and is not in the log."""
        said = self.said[number - 1]
        if not said.claims:
            return False
        try:
            parts = messages.parse(messages.decode(said.raw)).parts
        except BadMessage:
            return False
        media = {part.pointer for part in parts if part.kind in messages.MEDIA}
        return any(claim.pointer not in media for claim in said.claims)

    def line(self, number: int) -> str:
        """Return the line of a message: number, role, what it calls, answers or says, tokens, and its own keys."""
        try:
            entry = measure(self.said[number - 1], number=number, count=counter(tokenizer_for(self.model).encoding))
        except BadMessage as error:
            return f"{span(number, number)} cannot be read: {clipped(one_line(str(error)), ABOUT_CHARS)}"
        keys = self.keys(number)
        own = f", key {' '.join(keys[:KEYS_MAX])}" if keys else ""
        about = clipped(one_line(self._about(entry)), ABOUT_CHARS)
        return " ".join(filter(None, (span(number, number), entry.role, about, f"({entry.tokens:,} tokens{own})")))

    def _about(self, entry: Entry) -> str:
        parts = texts_of([entry])
        if calls := [f"{part.tool} {target_of(part)}" for part in parts if part.tool]:
            return "; ".join(calls)
        answered = [self._call(result.call, before=entry.number) for result in entry.results]
        return "; ".join(filter(None, answered)) or next((part.text for part in parts if part.text.strip()), "")

    def tool_of(self, ident: str, *, before: int) -> str:
        """Return the name of the tool that the newest call of that id asked for; empty where there is none."""
        found = self._calling(ident, before=before)
        return found.tool if found else ""

    def _call(self, ident: str, *, before: int) -> str:
        """Return the newest call of that id before a message, empty where there is none."""
        found = self._calling(ident, before=before)
        return f"{found.tool} {target_of(found)}" if found else ""

    def _calling(self, ident: str, *, before: int) -> MessageText | None:
        for number in range(before - 1, 0, -1):
            said = self.said[number - 1]
            # looked for in the bytes, since few messages need to be read then
            if ident.encode("utf-8", "replace") not in said.raw:
                continue
            try:
                entry = measure(said, number=number, count=len)
            except BadMessage:
                continue
            for part in texts_of([entry]):
                if part.tool and part.call == ident:
                    return part
        return None


def outlined(outline: Outline, *, first: int, last: int, most: int) -> str:
    """Return the lines of messages *first* to *last*, as many as *most* bytes hold, and how to go on."""
    lines = [
        f"[Messages {first}-{last}, one line each: who, what is called or said, tokens. One in full: "
        'read_artifact("messages:N"); what has a key of its own, by that key. Or give a pattern.]'
    ]
    room = most - LEFT_BYTES - len(lines[0])
    for number in range(first, last + 1):
        line = outline.line(number)
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0 and number > first:
            return "\n".join([*lines, further(number, last)])
        lines.append(line)
    return "\n".join(lines)


def further(number: int, last: int) -> str:
    """Return the sentence that says how to go on with messages *number* to *last*."""
    return f'[… {last - number + 1:,} more messages; go on with "{span(number, last)}"]'


def span(first: int, last: int) -> str:
    """Return the key of messages *first* to *last*."""
    return f"messages:{first}-{last}" if first < last else f"messages:{first}"
