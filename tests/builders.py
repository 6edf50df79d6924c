"""Builders for tests of the rules: messages, policies, and one conversation folded by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.core.apply_done import apply_done
from actors.core.apply_said import apply_said
from actors.core.entry import ARTIFACT, media
from actors.core.flow import next_actor
from actors.core.older_rules import under
from actors.core.rewind import Transition
from actors.core.seal import sealed
from actors.core.state import State, initial
from actors.core.text.count import Count
from actors.core.view import View, view
from actors.model_info.tokens import counter
from actors.runtime.decided import Outside
from actors.runtime.registry import ACTOR_SPECS
from actors.squeeze.decide import Ask, Completion, squeeze
from protocol import codec
from protocol import policy as policies
from protocol.errors import BadMessage
from protocol.facts import Claim, CompactionDeclined, DoneFact, MessagesAppended, SaidFact, SaidMessage
from protocol.formats import messages
from protocol.formats.uploads import filled
from protocol.ids import Address, address
from protocol.policy import Policy
from protocol.prepared import large_parts, without_parts
from storage.ports import Record

COUNT = counter("o200k_base")
AT = address("tested", "tests")
SAMPLE = Path(__file__).parent / "data" / "sample.json"


def sample() -> list[dict[str, Any]]:
    """Return the messages of the recorded agent run."""
    found: list[dict[str, Any]] = json.loads(SAMPLE.read_text(encoding="utf-8"))["messages"]
    return found


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None = None, *calls: str, arguments: str = "{}") -> dict[str, Any]:
    """Return an assistant message that calls the tool `look` under the ids *calls*."""
    made = [{"id": ident, "type": "function", "function": {"name": "look", "arguments": arguments}} for ident in calls]
    return {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})


def result(ident: str, text: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


def words(tokens: int, seed: str = "word") -> str:
    """Return a text of exactly *tokens* tokens (the default) that holds nothing worth a digest."""
    return " ".join([seed] * tokens)


PLAIN: dict[str, dict[str, Any]] = {
    "shape": {"overdue_seconds": 0},
    "trigger": {"ratio": 0.85},
    "target": {"low_water": 0.35},
    "spill": {
        "of_result": "part",
        "share": 0.15,
        "tokens": 25_000,
        "bytes": 65_536,
        "batch": 0.3,
        "medium": 0.03,
        "preview": 0.4,
        "index": 0.6,
    },
    "digest": {"style": "values", "cap": 0.25},
    "squeeze": {"mode": "off", "prompt_version": "v1", "cap": 0.15, "cap_tokens": None},
    "cut": {"kept": "take"},
}
"""A policy of the sections' own defaults: the preset `jettison` is tuned on real runs."""


def policy(window: int = 1000, **sections: Mapping[str, Any]) -> Policy:
    """Return a policy whose usable tokens are *window*, with *sections* over the defaults.

    It begins at 85 % and goes down to 35 %, and keeps no account: what a test of the rules says does not depend on
    tuned defaults. Tests of the account give `ACCOUNT` as sections.
    """
    return policies.resolve([{"budget": {"window": window, "reserve": 0}}, PLAIN, sections])


def appended(new: Iterable[Mapping[str, Any]]) -> MessagesAppended:
    return MessagesAppended(messages=tuple(SaidMessage(raw=messages.encode(message)) for message in new))


def claimed(message: Mapping[str, Any]) -> tuple[SaidMessage, dict[str, bytes]]:
    """Return *message* as a client says it, and by its SHA-256 what it uploads first: parts that are large."""
    raw = messages.encode(message)
    try:
        parts = large_parts(raw, messages.parse(messages.decode(raw)))
    except BadMessage:
        parts = []  # a client of ours says no such message
    claims = [Claim(pointer=at, sha256=hashlib.sha256(body).hexdigest(), bytes=len(body)) for at, body in parts]
    said = SaidMessage(raw=without_parts(message, claims) if claims else raw, claims=tuple(claims))
    return said, {claim.sha256: body for claim, (_, body) in zip(claims, parts, strict=True)}


class Talk:
    """One conversation, every step of it in the hand of the test, with its log."""

    def __init__(
        self, wanted: Policy | None = None, *, at: Address = AT, count: Count = COUNT, rules: str = ""
    ) -> None:
        self.at = at
        self.count = count
        self.state: State = initial(codec.genesis(at))
        self.records: list[Record] = []
        self.bodies: dict[str, bytes] = {}
        self.uploads: dict[str, str | None] = {}
        self.answer: str | Callable[[Ask], str] = ""
        """What the model says when it is asked; empty: there is no model."""
        self.rules = rules or codec.RULES_VERSION
        self.past: dict[int, Transition] = {}
        self._counts: dict[str, int] = {}
        if wanted is not None:
            self.land(self.sealed((), adopt=wanted))

    @property
    def commits(self) -> list[codec.Commit]:
        return [codec.decode_commit(record.body) for record in self.records if record.side == "done"]

    @property
    def facts(self) -> list[DoneFact]:
        """Return all facts that actors committed, in order."""
        return [fact for commit in self.commits for fact in commit.facts]

    def say(self, *facts: SaidFact, writer: str = "w", at_ms: int = 0) -> bytes:
        """Publish one envelope and return its bytes."""
        self._counts[writer] = self._counts.get(writer, 0) + 1
        body = codec.encode_said(codec.Said(writer=writer, count=self._counts[writer], facts=facts, at_ms=at_ms))
        self.hear(body)
        return body

    def hear(self, body: bytes) -> None:
        seq = self.state.seq + 1
        self.records.append(Record(seq=seq, side="said", body=body))
        self.state = apply_said(self.state, body, seq=seq, count=self.count)

    def resume(self) -> None:
        """Go on behind the envelopes that were heard, as a writer does that comes back."""
        self._counts = dict(self.state.heard.writers)

    def append(self, *new: Mapping[str, Any], at_ms: int = 0) -> None:
        """Say *new* in one envelope, as a client does at a time; nobody acts yet."""
        said = [claimed(message) for message in new]
        for _, bodies in said:
            self.bodies |= bodies
            self.uploads |= {key: body.decode("utf-8", "replace") for key, body in bodies.items()}
        self.say(MessagesAppended(messages=tuple(message for message, _ in said)), at_ms=at_ms)

    def play(self, *new: Mapping[str, Any], at_ms: int = 0) -> None:
        """Say *new* one by one at a time, and let the actors act after each."""
        for message in new:
            self.append(message, at_ms=at_ms)
            self.settle()

    def decided(self) -> codec.Commit | None:
        """Return the next commit as it is decided on the present state, or none if nobody has to act."""
        actor = next_actor(self.state)
        seen = under(self.rules, self.state)
        if actor is None:
            return None
        decided = ACTOR_SPECS[actor].rule(seen, Outside(uploads=self.uploads, ask=self._answered), self.count)
        assert decided.facts, f"{actor} was asked and found nothing"
        self.bodies |= {hashlib.sha256(body).hexdigest(): body for body in decided.bodies}
        return self.sealed(decided.facts)

    def sealed(self, facts: tuple[DoneFact, ...], *, adopt: Policy | None = None) -> codec.Commit:
        """Return *facts* as the commit that follows the present state."""
        return sealed(self.state, facts, rules=self.rules, writer="test", tokenizer="o200k_base", adopt=adopt)

    def land(self, commit: codec.Commit) -> None:
        """Fold *commit* as it comes out of the log, perhaps after messages that its writer had not seen."""
        seq = self.state.seq + 1
        body = codec.encode_commit(commit)
        self.records.append(Record(seq=seq, side="done", body=body))
        before = self.state
        self.state = apply_done(before, codec.decode_commit(body), seq=seq, size=len(body), past=self.past)
        self.past[commit.version] = Transition(before=before, after=self.state)

    def step(self) -> bool:
        commit = self.decided()
        if commit is not None:
            self.land(commit)
        return commit is not None

    def settle(self) -> None:
        """Let the next actor act until there is none."""
        for _ in range(200 + 10 * self.state.messages):
            if not self.step():
                return
        raise AssertionError("the actors never come to rest")

    def until(self, actor: str) -> None:
        """Let the actors act until *actor* is the next one."""
        while next_actor(self.state) != actor:
            assert self.step(), f"{actor} never has to act"

    def view(self, budget: int | None = None) -> View:
        """Return the view within *budget* tokens, or what the policy allows."""
        return view(self.state, budget=budget or self.state.usable_tokens, count=self.count)

    def shown(self, budget: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of the view, parsed; uploaded images are put back, as the service does."""
        raws = self.view(budget).messages
        for sha256 in {part.sha256 for entry in self.state.entries for part in media(entry)}:
            text = self.bodies.get(sha256, b"").decode()
            raws = tuple(filled(raw, ARTIFACT + sha256, text) if text else raw for raw in raws)
        return [json.loads(raw) for raw in raws]

    def _answered(self, asked: Ask) -> Completion | DoneFact:
        if not self.answer:
            return CompactionDeclined(boundary=asked.boundary, stage="squeeze", reason="no model")
        return said_by_model(self.answer if isinstance(self.answer, str) else self.answer(asked))


def said_by_model(text: str, *, finish_reason: str = "stop", tool_calls: bool = False) -> Completion:
    return Completion(
        text=text, finish_reason=finish_reason, tool_calls=tool_calls, input_tokens=1, output_tokens=1, attempts=1
    )


def asked_of(talk: Talk) -> Ask:
    """Return the request that squeeze makes now."""
    asked = squeeze(talk.state, count=COUNT)
    assert isinstance(asked, Ask)
    return asked
