"""Offline: the same rules on one conversation in this process, without log, store or model.

What the workers decide over NATS is decided here in a loop. It serves who wants to look at a policy (and
the laws in the tests): artifacts stay in memory, and a squeeze is declined for want of a model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from actors.core.apply_done import apply_done
from actors.core.apply_said import apply_said
from actors.core.flow import next_actor
from actors.core.seal import sealed
from actors.core.state import State, initial
from actors.core.text.count import Count
from actors.core.view import View, view
from actors.cut.decide import cut
from actors.digest.decide import digest
from actors.model_info.tokens import counter
from actors.spill.decide import spill
from protocol import codec, policy
from protocol.facts import CompactionDeclined, DoneFact, MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import Address, address


class OfflineConversation:
    """One conversation, folded and lightened step by step."""

    def __init__(self, wanted: policy.Policy, *, at: Address | None = None, count: Count | None = None) -> None:
        self.at = at or address("offline")
        self.count = count or counter("o200k_base")
        self.artifacts: dict[str, bytes] = {}
        self.commits: list[codec.Commit] = []
        self.state: State = initial(codec.genesis(self.at))
        self._said = 0
        self._commit((), adopt=wanted)

    def append(self, new: Iterable[Mapping[str, Any]]) -> None:
        """Append OpenAI chat messages and let the actors act until the view is ready. Raises `BadMessage`."""
        said = tuple(SaidMessage(raw=messages.encode(message)) for message in new)
        self._said += 1
        body = codec.encode_said(codec.Said(writer="w", count=self._said, facts=(MessagesAppended(messages=said),)))
        self.state = apply_said(self.state, body, seq=self.state.seq + 1, count=self.count)
        self.settle()

    def view(self, budget: int | None = None) -> View:
        """Return the view within *budget* tokens, or what the policy allows."""
        return view(self.state, budget=budget or self.state.usable_tokens, count=self.count)

    def settle(self) -> None:
        """Let the next actor act until there is none."""
        while (actor := next_actor(self.state)) is not None:
            self._commit(self._decide(actor))

    def _decide(self, actor: str) -> tuple[DoneFact, ...]:
        if actor == "spill":
            spilled = spill(self.state, uploads={}, count=self.count)
            assert spilled is not None, "spill was asked and found nothing"
            for body in spilled.bodies:
                self.artifacts[hashlib.sha256(body).hexdigest()] = body
            return spilled.facts
        if actor == "digest":
            return digest(self.state, count=self.count)
        if actor == "cut":
            return cut(self.state, count=self.count)
        assert self.state.episode is not None
        boundary = self.state.episode.boundary
        return (CompactionDeclined(boundary=boundary, stage="squeeze", reason="no model offline"),)

    def _commit(self, facts: tuple[DoneFact, ...], *, adopt: policy.Policy | None = None) -> None:
        commit = sealed(
            self.state, facts, rules=codec.RULES_VERSION, writer="offline", tokenizer="o200k_base", adopt=adopt
        )
        self.commits.append(commit)
        self.state = apply_done(self.state, commit, seq=self.state.seq + 1)
