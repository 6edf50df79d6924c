"""One tool result of the recorded run followed through the four actors, as text for `infra/docs/architecture.md`.

Everything in it is what the rules did today with the real bytes; only the model's answer is scripted.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator

from actors.squeeze.decide import Ask
from protocol import codec, subjects
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
    ToolOutputSpilled,
)
from storage.ports import Record
from tests.builders import Talk, policy, sample

FOLLOWED = 14
"""The message that is followed: what a payment gateway answered, as JSON."""

COMPACTED_AFTER = 38
"""Messages after which the agent asks for a smaller context, so that every actor has to act."""

BUDGET = 6_000
SHOWN_CHARS = 420
VALUES_SHOWN = 3
_VALUE = re.compile(r"(?=\w*\d)[\w-]{8,}")


def walkthrough() -> str:
    """Return the whole story as Markdown."""
    talk = Talk(policy(9_000, squeeze={"mode": "squeeze", "model": "scripted"}, target={"min_gain": 0.01}))
    talk.answer = _answer
    talk.play(*sample()[: FOLLOWED - 1])
    said_at = len(talk.records)
    talk.append(sample()[FOLLOWED - 1])
    said = talk.records[said_at]
    lines = [*_heard(talk, said)]
    talk.settle()
    lines += _spilled(talk, talk.records[said_at + 1])
    talk.play(*sample()[FOLLOWED:COMPACTED_AFTER])
    before = len(talk.records)
    talk.say(CompactionRequested(budget=BUDGET))
    talk.settle()
    for record in talk.records[before + 1 :]:
        lines += _stage(talk, record)
    lines += _ended(talk)
    return "\n".join(lines)


def _answer(asked: Ask) -> str:
    """Return what a model might say: each line of the notes, with the end of its words left out."""
    notes = asked.user.partition("\n")[2].rpartition("\n</history")[0]
    lines = (line.split(" ") for line in notes.splitlines()[1:])
    return "\n".join(" ".join(words[: max(3, len(words) * 6 // 10)]) for words in lines)


def _heard(talk: Talk, said: Record) -> Iterator[str]:
    entry = talk.state.entries[-1]
    yield f"**The agent says it.** `{subjects.said(talk.at)}`, {_bytes(said)}:"
    yield from _quoted(repr(said.body)[2:-1])
    yield f"Message {entry.number}, {entry.tokens:,} tokens. Nobody has looked at it: it waits, and no view shows it."
    yield ""


def _spilled(talk: Talk, record: Record) -> Iterator[str]:
    fact = next(one for one in _commit(record).facts if isinstance(one, ToolOutputSpilled))
    body = talk.bodies[fact.sha256]
    yield f"**Spill** puts the part into S3, {len(body):,} bytes named `{fact.sha256[:16]}…`, and commits"
    yield f"{_step(record)}. In its place the view shows, {fact.text_tokens:,} tokens:"
    yield from _quoted(fact.text)


def _stage(talk: Talk, record: Record) -> Iterator[str]:
    fact = _commit(record).facts[0]
    digest = talk.past[_commit(record).version].after.digest
    match fact:
        case HistoryDigested():
            yield f"**Digest** lets old messages go, up to {fact.through}, and commits {_step(record)}."
            yield "For them stands:"
            yield from _quoted(digest.text if digest else "")
            yield from (_left(digest.text if digest else ""), "")
        case DigestSqueezed():
            yield f"**Squeeze** asks a model (scripted here), checks its answer, and commits {_step(record)}."
            yield "Now stands there:"
            yield from _quoted(digest.text if digest else "")
            yield from (_left(digest.text if digest else ""), "")
        case HistoryCut():
            dropped = ", ".join(map(str, fact.dropped)) or "none"
            yield f"**Cut** drops whole units, messages {dropped}, and commits {_step(record)}."
            yield ""
        case CompactionDeclined():
            yield f"**{fact.stage.capitalize()}** declines, and commits {_step(record)}: {fact.reason}."
            yield ""
        case _:
            raise AssertionError(f"{type(fact).__name__} is no step of a compaction")


def _ended(talk: Talk) -> Iterator[str]:
    seen = talk.view()
    raw = sum(talk.count(json.dumps(message)) for message in sample()[:COMPACTED_AFTER])
    messages, tokens = f"{len(seen.messages)} messages for {talk.state.messages}", f"{seen.tokens:,} tokens"
    yield f"**The view** that the model is sent has {messages}, and {tokens} for some {round(raw, -3):,};"
    yield f"its SHA-256 is `{seen.hash[:16]}…`."


def _commit(record: Record) -> codec.Commit:
    return codec.decode_commit(record.body)


def _step(record: Record) -> str:
    """Return a commit in words: its first fact, its version and its size."""
    commit = _commit(record)
    return f"`{type(commit.facts[0]).__name__}` as version {commit.version} ({_bytes(record)})"


def _left(text: str) -> str:
    """Return what of the followed message still stands in *text*."""
    content = sample()[FOLLOWED - 1]["content"]
    words = [word for word in dict.fromkeys(_VALUE.findall(text)) if word in content]
    shown = ", ".join(f"`{word}`" for word in words[:VALUES_SHOWN])
    return f"Of message {FOLLOWED} it names {len(words)} values{shown and f': {shown} …'}"


def _bytes(record: Record) -> str:
    return f"{len(record.body):,} bytes"


def _quoted(text: str) -> Iterator[str]:
    short = text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS * 2 // 3]} […] {text[-SHOWN_CHARS // 3 :]}"
    yield "```text"
    for line in short.splitlines():
        yield from textwrap.wrap(line, 118) or [""]
    yield "```"
