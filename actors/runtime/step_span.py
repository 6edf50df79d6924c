"""The span and the metrics of one step: what was looked at, what came out, tokens before and after."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.trace import Span, get_current_span

from actors.core.entry import CATEGORIES
from actors.core.loss_told import TOLD
from actors.core.outcome import outcome_of
from actors.core.seal import Step
from actors.core.state import State
from actors.model_info.tokens import tokenizer_for
from actors.telemetry.setup import record_artifact, record_step
from protocol import semconv
from protocol.facts import DoneFact, MessageRepaired, ToolOutputSpilled
from protocol.ids import Address
from protocol.semconv import Category
from protocol.subjects import Actor
from protocol.tracing import span

from .fold import tokens_of
from .handed import Handed
from .worked import WORKED

log = logging.getLogger("jettison.worker")


@dataclass(kw_only=True)
class StepSpan:
    """The open span of one step."""

    actor: Actor
    at: Address
    span: Span
    before: State
    started: float

    def decided(self, step: Step, after: State | None) -> None:
        """Say what the step did; *after* is the state with it, None if another writer came first."""
        outcome = outcome_of(step.facts, landed=after is not None)
        removed = max(0, tokens_of(self.before) - tokens_of(after)) if after is not None else 0
        seconds = time.perf_counter() - self.started
        record_step(self.actor, outcome, seconds=seconds, tokens_removed=removed)
        WORKED.add(self.actor, outcome, seconds=seconds, removed=removed)
        if after is not None:
            for fact in step.facts:
                if isinstance(fact, ToolOutputSpilled):
                    record_artifact(fact.kind, size_bytes=fact.bytes)
            _log_repairs(self.at, step)
        if self.span.is_recording():
            self.span.set_attribute(semconv.OUTCOME, outcome)
            self.span.set_attributes(_of_facts(step.facts) | (_of_state(after) if after is not None else {}))


def _log_repairs(at: Address, step: Step) -> None:
    """Log what was repaired or refused, and nothing of what a message says."""
    for fact in step.facts:
        # what is not known of a model was said when its policy was adopted, once for all conversations
        if isinstance(fact, MessageRepaired) and step.adopt is None:
            what = f"message {fact.number}: {fact.kind}" if fact.number else f"{fact.kind}: {fact.detail}"
            log.warning("%s: %s", at, what)


def _of_facts(facts: tuple[DoneFact, ...]) -> dict[str, int]:
    """Return the attributes that say what was decided."""
    spilled = [fact for fact in facts if isinstance(fact, ToolOutputSpilled)]
    left = [fate for fact in facts for fate in getattr(fact, "fates", ()) if fate.category not in TOLD]
    cost = sum(getattr(fact, "cost_microdollars", 0) for fact in facts)
    told = {semconv.ARTIFACTS_COUNT: len(spilled), semconv.ARTIFACTS_BYTES: sum(fact.bytes for fact in spilled)}
    if left:
        told[semconv.VALUES_RETAINED] = sum(fate.retained for fate in left)
        told[semconv.VALUES_RECOVERABLE] = sum(fate.recoverable for fate in left)
        told[semconv.VALUES_LOST] = sum(fate.lost for fate in left)
    return told | ({semconv.COST_MICRODOLLARS: cost} if cost else {})


def _of_state(after: State) -> dict[str, int]:
    """Return the attributes that say what the conversation is now."""
    return {
        semconv.SNAPSHOT_VERSION: after.version,
        semconv.STREAM_SEQUENCE: after.position.done_seq,
        semconv.AFTER_TOKENS: tokens_of(after),
        semconv.MESSAGES_AFTER: len(after.live) + len(after.arrived),
        **_by_category(after, semconv.AFTER_TOKENS_OF),
    }


@contextmanager
def step_span(actor: Actor, at: Address, state: State) -> Iterator[StepSpan]:
    """Open the span of one step of *actor* on *state*."""
    with span(semconv.compact(actor)) as current:
        if current.is_recording():
            tokenizer = tokenizer_for(state.terms.model)
            current.set_attributes(
                {
                    semconv.STAGE: actor,
                    **semconv.of_conversation(at.tenant, at.conversation),
                    semconv.SNAPSHOT_PARENT_VERSION: state.version,
                    semconv.BEFORE_TOKENS: tokens_of(state),
                    semconv.LIMIT_TOKENS: state.usable_tokens if state.policy else 0,
                    semconv.MESSAGES_BEFORE: len(state.live) + len(state.arrived),
                    semconv.TOKENIZER: tokenizer.id,
                    semconv.TOKENIZER_ESTIMATED: tokenizer.estimate,
                    **_by_category(state, semconv.BEFORE_TOKENS_OF),
                }
            )
        yield StepSpan(actor=actor, at=at, span=current, before=state, started=time.perf_counter())


def tell_versions(state: State, given: Handed | None) -> None:
    """Say in the open span which version was handed over, and which one is worked on."""
    current = get_current_span()
    current.set_attribute(semconv.WORKED_VERSION, state.version)
    if given is not None:
        current.set_attribute(semconv.HANDED_VERSION, given.version)


def _by_category(state: State, names: dict[Category, str]) -> dict[str, int]:
    sums = dict.fromkeys(CATEGORIES, 0)
    for entry in (*state.live, *state.arrived):
        for category, tokens in entry.by_category.items():
            sums[category] += tokens
    sums["digest"] = state.digest.tokens if state.digest else 0
    return {names[category]: tokens for category, tokens in sums.items()}
