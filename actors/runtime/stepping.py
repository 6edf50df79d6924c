"""Stepping: load a conversation, decide, and commit, until an actor has nothing left to do in it.

What an actor does stands beside its rule: spill's is `actors/spill/act.py` (`registry.py` names all). It loads nothing
and retries nothing, and what its facts promise is done: bytes are stored before the fact that points to them, an answer
is there before the fact that uses it. The commit goes through `conversations.py` to the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from actors.core.flow import next_actor
from actors.core.older_rules import under
from actors.core.seal import Step
from actors.core.state import State
from actors.spill.policy_layers import NO_LAYERS, Layers
from protocol import codec
from protocol.errors import Contended
from protocol.facts import DoneFact, HookFired
from protocol.ids import Address
from protocol.subjects import Actor
from protocol.tracing import traced
from storage.ports import Artifacts
from storage.work_ports import Announcer

from .conversations import Conversations
from .fold import count_of
from .handed import Handed
from .retries import BEATEN_MAX, FAULTS_MAX, Failures, is_passed_by, pause_when_beaten
from .step_span import step_span, tell_versions

if TYPE_CHECKING:  # the rules of all actors, with what they need: a process that only reads is put together without
    from actors.squeeze.model import Model

    from .registry import Effect, Tools

log = logging.getLogger("jettison.worker")


@dataclass(kw_only=True)
class Effects:
    """What the actors of one process do, with what they need from outside."""

    artifacts: Artifacts
    layers: Layers = NO_LAYERS
    """What the policy of a new conversation lies on."""
    model: Model | None = None

    @cached_property
    def by_actor(self) -> dict[Actor, Effect]:
        """What each actor does, made for the first step."""
        from .registry import ACTOR_SPECS

        return {actor: one.make_effect(self.tools) for actor, one in ACTOR_SPECS.items()}

    @property
    def tools(self) -> Tools:
        """Return the tools that the actors work with."""
        from .registry import Tools

        return Tools(artifacts=self.artifacts, layers=self.layers, model=self.model)

    async def step(
        self,
        actor: Actor,
        at: Address,
        state: State,
        *,
        rules: str = codec.RULES_VERSION,
        release_credit: Callable[[], None] = lambda: None,
    ) -> Step:
        """Return the step of *actor* on *state* by *rules*; *release_credit* is called where it begins to wait.

        Raises `ArtifactsUnavailable` while spill should wait, `Busy` while too many others do.
        """
        return await self.by_actor[actor].step(
            at, under(rules, state), count=count_of(state), release_credit=release_credit
        )


@dataclass(frozen=True, kw_only=True)
class Stepping:
    """The work of *actor* on conversations, one at a time each."""

    actor: Actor
    conversations: Conversations
    effects: Effects
    announcer: Announcer
    failures: Failures

    async def work(
        self,
        at: Address,
        *,
        given: Handed | None = None,
        upto: int = 0,
        release_credit: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[State]:
        """Step until this actor has nothing left to do; yield the state before each step, and the last one.

        With *upto*, a record's sequence, the first state may lack what lies behind it in the log.
        Raises `LogRegression`, `ChainBroken` where the log has not the state that was *given* along.
        """
        state = await self.conversations.receive(at, given, upto=upto)
        tell_versions(state, given)
        yield state
        beaten = 0
        while beaten < BEATEN_MAX:
            if next_actor(state) != self.actor:
                return
            after = await self._one_step(at, state, release_credit)
            beaten = beaten + 1 if after is None else 0
            if after is None:
                await asyncio.sleep(pause_when_beaten(beaten))
                after = await self.conversations.load(at)
            state = after
            yield state
        raise Contended(f"{self.actor} of {at}: other writers were faster, too often", address=str(at))

    async def _one_step(self, at: Address, state: State, release_credit: Callable[[], None]) -> State | None:
        """Decide and commit once; return the state with it, or None if another writer came first."""
        with step_span(self.actor, at, state) as recorded:
            headers = traced()
            try:
                rules = self.conversations.rules
                step = await self.effects.step(self.actor, at, state, rules=rules, release_credit=release_credit)
                await self._call_hooks(at, step.facts, headers)
                landed = await self.conversations.commit(at, state, step.facts, headers=headers, adopt=step.adopt)
            except Exception as error:
                if not is_passed_by(error) or self.failures.of(at) + 1 < FAULTS_MAX:
                    raise
                log.exception("%s of %s gives up", self.actor, at)
                from .registry import given_up

                try:
                    step = given_up(self.actor, state, error)
                except Exception:
                    raise error from None  # there is nothing to pass by: the first reason is the one to tell
                landed = await self.conversations.commit(at, state, step.facts, headers=headers, adopt=step.adopt)
            after = await self.conversations.load(at) if landed else None
            recorded.decided(step, after)
        return after

    async def _call_hooks(self, at: Address, facts: tuple[DoneFact, ...], headers: dict[str, str]) -> None:
        """Publish what hooks of the policy call. It comes before the commit: at least once, and never not at all."""
        for fact in facts:
            if isinstance(fact, HookFired) and fact.action == "call":
                body = msgspec.json.encode({"hook": fact.hook, "number": fact.number, "name": fact.detail})
                await self.announcer.call(at, fact.detail, body, headers=headers)
