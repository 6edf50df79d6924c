"""Checks: what must hold of every served view, and of every conversation in the end."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.audit.replay import replay
from actors.audit.verify import Evidence, verify
from actors.audit.versions import rebuilt, served_fact
from actors.core.state import State
from actors.runtime.fold import decisions
from actors.runtime.fold import folded as folded_log
from protocol.context import Context
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import Address
from storage.ports import Record

Json = dict[str, Any]

POINTER = re.compile(r'read_artifact\(\\*"((?:[0-9a-f]{16,64}|messages:\d+(?:-\d+)?))\\*"')

ACCOUNT = "[Account of messages "


class Spoken:
    """What one agent has said and was acknowledged, in order, and what of it may be pointed to."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._texts: list[bytes] = []
        self._keys: set[str] = set()

    def add(self, said: Sequence[Json]) -> None:
        """Add what was acknowledged."""
        for message in said:
            self.messages.append(message)
            self._texts.append(canonical(message))
            parts = messages.parse(message).parts
            self._keys |= {
                hashlib.sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()[:16] for part in parts
            }

    def wrong(self, context: Context, *, budget: int) -> list[str]:
        """Return what is wrong with a served view."""
        found = [f"illegal: {problem}" for problem in problems(context.messages)]
        if context.tokens > context.budget or (budget and context.budget > budget):
            found.append(f"{context.tokens} tokens in a budget of {context.budget}, asked {budget}")
        if context.upto != len(self.messages):
            found.append(f"it reaches message {context.upto}, said were {len(self.messages)}")
        body = b"[" + b",".join(messages.encode(message) for message in context.messages) + b"]"
        if hashlib.sha256(body).hexdigest() != context.hash:
            found.append("its hash is that of other messages")
        return (
            found
            + self._misplaced(context.messages, context.budget)
            + self._unresolved(body.decode("utf-8", "replace"))
        )

    def _misplaced(self, view: Sequence[Json], budget: int) -> list[str]:
        """Match verbatim messages with what was said, in order; the last user must be the last of its kind.

        One that may cost more than half of the *budget* may be shortened.
        """
        found, after = [], 0
        known = set(self._texts)
        for index, message in enumerate(view):
            text = canonical(message)
            if text not in known:
                continue  # shown differently: a pointer, a digest
            try:
                after = self._texts.index(text, after) + 1
            except ValueError:
                found.append(f"message {index} of the view is out of order or there twice")
        users = [message for message in self.messages if message["role"] == "user"]
        # an account stands behind what is older than its end, and so behind a message of the user that goes on
        spoken = (message for message in view if message["role"] == "user")
        shown = [message for message in spoken if not str(message["content"]).startswith(ACCOUNT)]
        if users and len(str(users[-1]["content"]).encode("utf-8", "surrogatepass")) < min(4_000, 2 * budget):
            last = canonical(users[-1])
            if not shown or canonical(shown[-1]) != last:
                found.append("the last user message is not the last of its kind")
            elif sum(canonical(one) == last for one in shown) > self._texts.count(last):
                found.append("the last user message is there twice")
        return found

    def _unresolved(self, view: str) -> list[str]:
        found = []
        for key in pointers(view):
            if key.startswith("messages:"):
                last = int(re.split("[:-]", key)[-1])
                if not 0 < last <= len(self.messages):
                    found.append(f"the pointer {key} is beyond the {len(self.messages)} messages")
            elif key[:16] not in self._keys:
                found.append(f"the pointer {key} is of nothing that was said")
        return found


def pointers(view: str) -> list[str]:
    """Return the keys that a view tells the model to read."""
    return POINTER.findall(view)


def canonical(message: Any) -> bytes:
    """Return bytes that are equal for equal messages."""
    return json.dumps(message, sort_keys=True).encode()


@dataclass(kw_only=True)
class Audit:
    """What looking through the log of one conversation found; `rebuilt` counts the contexts that were served."""

    rebuilt: int = 0
    commits: int = 0
    wrong: list[str] = field(default_factory=list)


def audit(
    at: Address,
    records: Sequence[Record],
    *,
    live: State,
    spoken: Sequence[Json],
    said: Sequence[Json],
    hashes: list[str],
) -> Audit:
    """Judge a conversation: *said* is what the log holds, *spoken* what was acknowledged, *hashes* what was served.

    Follows the chain of hashes, folds the log, decides each commit again, renders every context that was ever served.
    """
    out = Audit()
    if list(map(canonical, said)) != list(map(canonical, spoken)):
        out.wrong.append(f"the log holds {len(said)} messages, acknowledged were {len(spoken)}{_first(said, spoken)}")
    judged = verify(Evidence(at=at, records=records))
    out.commits = judged.commits
    out.wrong += [f"the chain is broken: {problem.where}: {problem.reason}" for problem in judged.problems]
    if judged.problems:
        return out  # nothing can be folded
    replayed = replay(at, records)
    if replayed.divergence is not None:
        out.wrong.append(f"replay differs: {replayed.divergence}")
    folded = folded_log(at, records)
    if folded != live:
        differing = [name for name in folded.__struct_fields__ if getattr(folded, name) != getattr(live, name)]
        out.wrong.append(f"the live state is not the fold of the log: {differing}")
    _rebuild(at, records, hashes, out)
    return out


def _rebuild(at: Address, records: Sequence[Record], hashes: list[str], out: Audit) -> None:
    """Render every context that the log says was served, and find among them, in order, what agents were served."""
    recorded: list[str] = []
    for decision in decisions(at, records):
        fact = served_fact(decision)
        if fact is None:
            continue
        recorded.append(fact.view_hash)
        again = rebuilt(decision)
        body = again.view.body if again.view else b""
        # agents compared the same hash with the bytes that they got, see `Spoken.wrong`
        if hashlib.sha256(body).hexdigest() == fact.view_hash:
            out.rebuilt += 1
        else:
            out.wrong.append(f"version {again.version} was served, and its bytes are not rebuilt: {again.refused}")
    left = iter(recorded)
    if not all(one in left for one in hashes):
        out.wrong.append("a served view is not recorded, or in another order")


def _first(said: Sequence[Json], spoken: Sequence[Json]) -> str:
    differing = (number for number, (a, b) in enumerate(zip(said, spoken, strict=False), 1) if a != b)
    number = next(differing, None)
    return f"; they differ first in number {number}" if number else ""
