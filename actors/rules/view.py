"""View: the messages that a model is sent, a pure function of state and budget.

Instructions, the digest, then what is live, in order. A view is never above its budget, never parts a
call from its results, and shows untouched messages byte for byte as they were said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from protocol import messages
from protocol.errors import BudgetRefused, NotReady
from protocol.semconv import Category

from .cut import plan_cut
from .digest_text import render
from .entry import ABORTED, CATEGORIES, Count, Entry, oversized, shown_message, verbatim
from .state import State
from .units import instructions


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One rendered view. `messages` are JSON objects; `level` names the step of cut that was needed."""

    messages: tuple[bytes, ...]
    tokens: int
    level: str
    upto: int
    numbers: tuple[int, ...]
    categories: dict[Category, int]

    @property
    def body(self) -> bytes:
        """Return the view as one JSON array."""
        return b"[" + b",".join(self.messages) + b"]"

    @property
    def hash(self) -> str:
        """Return the SHA-256 of the JSON array, hex: what was served can be proved by it."""
        return hashlib.sha256(self.body).hexdigest()


def unspilled(state: State) -> tuple[int, ...]:
    """Return the numbers of messages that a view would show in full although they are too big."""
    if state.policy is None:
        return tuple(entry.number for entry in state.arrived)
    policy = state.policy
    return tuple(entry.number for entry, usable in state.coming if oversized(entry, policy, usable))


def view(state: State, *, budget: int, count: Count) -> View:
    """Return the view of *state* within *budget* tokens.

    Raises `NotReady` while a large part is not spilled, `BudgetRefused` if the least legal view is larger.
    """
    held = unspilled(state)
    if held:
        raise NotReady(f"messages {held[:5]} are not spilled yet", numbers=held)
    entries = state.entries
    plan = plan_cut(state, entries, down_to=budget, within=budget, count=count)
    gone = frozenset(plan.dropped)
    staying = [entry for entry in entries if entry.number not in gone]
    for trim in plan.trimmed:
        staying = [
            entry.with_shown(trim.pointer, trim.text, trim.tokens) if entry.number == trim.number else entry
            for entry in staying
        ]
    rendered, categories = _rendered(state, staying, with_digest=not plan.digest_dropped)
    if plan.tokens > budget:
        raise BudgetRefused(f"the view needs {plan.tokens} tokens", tokens=plan.tokens, budget=budget)
    return View(
        messages=rendered,
        tokens=plan.tokens,
        level=plan.level,
        upto=state.messages,
        numbers=tuple(entry.number for entry in staying),
        categories=categories,
    )


def digest_message(state: State) -> bytes | None:
    """Return the message that stands for the digested history, as JSON."""
    if state.digest is None:
        return None
    assert state.policy is not None
    text = render(state.digest.items, prose=state.digest.prose, through=state.digest.through, form=state.digest.form)
    return msgspec.json.encode({"role": state.policy.shape.summary_role, "content": text})


def _rendered(
    state: State, staying: Sequence[Entry], *, with_digest: bool
) -> tuple[tuple[bytes, ...], dict[Category, int]]:
    assert state.policy is not None
    role = state.policy.shape.summary_role
    head = len(instructions(staying))
    digest = digest_message(state) if with_digest else None
    out: list[bytes] = []
    categories: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
    for index, entry in enumerate(staying):
        if index == head and digest is not None:
            out.append(digest)
        out += message_bytes(entry)
        out += [msgspec.json.encode({"role": role, "content": note.text}) for note in entry.notes]
        for category, tokens in entry.by_category().items():
            categories[category] += tokens
    if digest is not None:
        if head >= len(staying):
            out.append(digest)
        assert state.digest is not None
        categories["digest"] = state.digest.tokens
    return tuple(out), categories


def message_bytes(entry: Entry) -> list[bytes]:
    """Return the JSON of an entry as the view shows it, with the written answers to its aborted calls."""
    shown = entry.raw if verbatim(entry) else messages.encode(shown_message(entry))
    closing = [
        msgspec.json.encode({"role": "tool", "tool_call_id": ident, "content": ABORTED}) for ident in entry.answers
    ]
    return [shown, *closing]
