"""Steps: what each actor does with a state, rule and effect together.

A step loads nothing and retries nothing. It returns the facts to commit, after whatever they promise is
done: bytes are stored before the fact that points to them, an answer is there before the fact that uses it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from actors.core.older_rules import under
from actors.core.state import State
from actors.core.text.count import Count
from actors.cut.decide import cut
from actors.digest.decide import digest
from actors.spill.decide import claims, degraded, spill
from actors.squeeze.act import Asking
from actors.squeeze.model import Model
from protocol import codec
from protocol import policy as policies
from protocol.errors import ArtifactsUnavailable, Busy, NotFound
from protocol.facts import DoneFact, MessageRepaired, StageFailed
from protocol.ids import Address
from protocol.subjects import Actor
from protocol.warned import warn
from storage.ports import Artifacts

from .fold import count_of
from .policy_layers import NO_LAYERS, Layers
from .retries import Failures

log = logging.getLogger("jettison.worker")

DEGRADE_AFTER_ATTEMPTS = 4
"""Attempts (about 4 s of a store that is down) before spill goes on without it."""

DEGRADE_AFTER_SECONDS = 5.0
"""The same where an attempt takes long itself: of a store that hangs, one is enough."""

STORING_MAX = 32
"""Conversations of one process that wait for the store, with what they store in memory; others pause, and come back."""

BYTES_AT_ONCE_MAX = 65_536
"""Looked at on the loop itself, some ten milliseconds; for more a rule gets a thread, and the loop goes on."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Facts to commit; `adopt` is the policy that a new conversation begins with."""

    facts: tuple[DoneFact, ...] = ()
    adopt: policies.Policy | None = None


@dataclass(kw_only=True)
class Steps:
    """The four actors' steps, with what they need from outside."""

    artifacts: Artifacts
    layers: Layers = NO_LAYERS
    """What the policy of a new conversation lies on."""
    model: Model | None = None
    _asking: Asking = field(init=False)
    _outages: Failures = field(default_factory=Failures)
    """How often the store was not there for each conversation: the server's deliveries count other things too."""

    _at_store: int = 0

    def __post_init__(self) -> None:
        self._asking = Asking(model=self.model)

    async def step(
        self,
        actor: Actor,
        at: Address,
        state: State,
        *,
        rules: str = codec.RULES_VERSION,
        make_room: Callable[[], None] = lambda: None,
    ) -> Step:
        """Return the step of *actor* on *state* by *rules*; *make_room* is called where it begins to wait for the
        store.

        Raises `ArtifactsUnavailable` while spill should wait, `Busy` while too many others do.
        """
        count = count_of(state)
        state = under(rules, state)
        match actor:
            case "spill":
                return await self._spill(at, state, count, make_room)
            case "digest":
                # a window of 128,000 tokens takes a fifth of a second: the loop goes on beside it
                return Step(facts=await asyncio.to_thread(digest, state, count=count))
            case "squeeze":
                return Step(facts=await self._asking.facts(state, count=count))
            case "cut":
                return Step(facts=cut(state, count=count))

    async def _spill(self, at: Address, state: State, count: Count, make_room: Callable[[], None]) -> Step:
        if state.policy is None:
            return self._adopt(at, state)
        began = time.monotonic()
        try:
            uploads = {}
            if wanted := claims(state):
                with self._storing(make_room):
                    uploads = {sha256: await self._upload(at, sha256) for sha256 in wanted}
            if _bytes_coming(state) > BYTES_AT_ONCE_MAX:
                spilled = await asyncio.to_thread(spill, state, uploads=uploads, count=count)
            else:
                spilled = spill(state, uploads=uploads, count=count)
            if spilled and spilled.bodies:
                with self._storing(make_room):
                    for body in spilled.bodies:
                        await self.artifacts.put(at.tenant, body)
        except ArtifactsUnavailable as error:
            attempts = self._outages.add(at)
            early = attempts < DEGRADE_AFTER_ATTEMPTS and time.monotonic() - began < DEGRADE_AFTER_SECONDS
            if state.policy.spill.on_store_error == "wait" or early:
                raise
            spilled = degraded(state, reason=f"{error}"[:120], count=count)
        self._outages.forget(at)
        return Step(facts=spilled.facts if spilled else ())

    @contextmanager
    def _storing(self, make_room: Callable[[], None]) -> Iterator[None]:
        """Wait for the store among a bounded number: each holds its bodies in memory, and no other slot up."""
        if self._at_store >= STORING_MAX:
            raise Busy(f"{STORING_MAX} conversations wait for the store already")
        self._at_store += 1
        make_room()
        try:
            yield
        finally:
            self._at_store -= 1

    async def _upload(self, at: Address, sha256: str) -> str | None:
        try:
            return (await self.artifacts.get(at.tenant, sha256)).decode("utf-8", "replace")
        except NotFound:
            return None

    def _adopt(self, at: Address, state: State) -> Step:
        """Adopt the policy of a new conversation; what of it cannot be used is left out, and that is a fact."""
        found = self.layers.adopted(at.tenant, model=state.terms.model, layer=state.terms.layer)
        warn(found.notes)
        if found.refused:
            log.warning("%s: what its agent asked for is left out: %s", at, found.refused)
        notes = (found.refused, *found.notes) if found.refused else found.notes
        facts = tuple(MessageRepaired(number=0, kind="refused", detail=note[:200]) for note in notes)
        return Step(adopt=found.policy, facts=facts)


def tell(at: Address, step: Step) -> None:
    """Log what was repaired or refused, and nothing of what a message says."""
    for fact in step.facts:
        # what is not known of a model was said when its policy was adopted, once for all conversations
        if isinstance(fact, MessageRepaired) and step.adopt is None:
            what = f"message {fact.number}: {fact.kind}" if fact.number else f"{fact.kind}: {fact.detail}"
            log.warning("%s: %s", at, what)


def given_up(actor: Actor, state: State, error: Exception) -> Step:
    """Return the step that goes on without *actor*, whose own step fails by a fault of ours.

    Spill shows what it can without its rule's help; the other stages are passed by. Raises *error* where
    there is nothing to pass by.
    """
    if actor == "spill":
        count = count_of(state)
        spilled = degraded(state, reason=f"fault: {type(error).__name__}", count=count)
        if spilled is None:
            raise error
        return Step(facts=spilled.facts)
    if state.episode is None:
        raise error
    failed = StageFailed(boundary=state.episode.boundary, stage=actor, error=type(error).__name__)
    return Step(facts=(failed,))


def _bytes_coming(state: State) -> int:
    """Return the bytes of the messages that spill looks at."""
    return sum(part.bytes for entry in state.arrived for part in entry.parts)
