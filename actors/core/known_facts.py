"""Known facts: what there is to know of each kind, in one place; a test holds it against `protocol/facts.py`.

How a fact changes the state is in `apply_said` and `apply_done`, and why it was written in the `decide` of its actor.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from protocol import facts
from protocol.subjects import Actor

Whose = (
    Actor | Literal["agent", "serve", "expand", "rewind", "policy", "fork", "erase", "repair", "archive", "any stage"]
)
"""Who writes it: an agent, an actor, or what somebody wished for; `any stage`: the fact says it in a field."""

TokensChange = Literal["same", "fewer", "more", "either"]


class KnownFact(NamedTuple):
    """One kind of fact. `tokens` is what it does to those of the view."""

    whose: Whose
    tokens: TokensChange = "same"
    did: str = ""
    """How people read what it did to a message."""
    left: str = ""
    """How they read it of a message that it left as it was."""
    measured: tuple[str, str] = ("before_tokens", "after_tokens")
    """Its fields with the tokens before and after, where it makes them fewer."""
    rests_on: tuple[str, ...] = ()
    """Keys of the policy that decided it."""


_CAPS = ("spill.share", "spill.tokens", "spill.bytes")
_LLM = ("squeeze.mode", "squeeze.model", "squeeze.cap", "target.low_water")

KNOWN: dict[type, KnownFact] = {
    facts.ConversationOpened: KnownFact("agent"),
    facts.MessagesAppended: KnownFact("agent", "more"),
    facts.UsageReported: KnownFact("agent"),
    facts.CompactionRequested: KnownFact("agent"),
    facts.OverflowReported: KnownFact("agent"),
    facts.ToolOutputSpilled: KnownFact(
        "spill",
        "fewer",
        did="spilled",
        measured=("tokens", "text_tokens"),
        rests_on=(*_CAPS, "spill.medium", "spill.per_tool"),
    ),
    facts.ToolOutputTrimmed: KnownFact(
        "spill",
        "fewer",
        did="shortened",
        measured=("tokens", "text_tokens"),
        rests_on=("spill.on_store_error", *_CAPS),
    ),
    facts.MessageRepaired: KnownFact("spill", left="repaired"),
    facts.HistoryDigested: KnownFact(
        "digest",
        "fewer",
        did="digested",
        rests_on=("trigger.ratio", "target.low_water", "digest.keep_blocks", "digest.keep_tokens", "digest.cap"),
    ),
    facts.HistoryAccounted: KnownFact(
        "digest",
        "fewer",
        did="digested",
        rests_on=("trigger.ratio", "target.low_water", "digest.style", "digest.cap"),
    ),
    facts.DigestSqueezed: KnownFact("squeeze", "fewer", did="squeezed", rests_on=_LLM),
    facts.HistorySummarized: KnownFact("squeeze", "fewer", did="summarized", rests_on=_LLM),
    facts.AccountSqueezed: KnownFact("squeeze", "fewer", did="summarized", rests_on=(*_LLM, "squeeze.prompt_version")),
    facts.HistoryCut: KnownFact(
        "cut", "fewer", did="cut", rests_on=("target.low_water", "cut.pins", "cut.on_overflow")
    ),
    facts.CompactionDeclined: KnownFact("any stage", left="left as it is"),
    facts.StageFailed: KnownFact("any stage", left="failed"),
    facts.ContextServed: KnownFact("serve"),
    facts.HookFired: KnownFact("spill"),
    facts.ReminderInjected: KnownFact("spill", "more"),
    facts.HistoryExpanded: KnownFact("expand", "more", did="restored"),
    facts.ConversationRewound: KnownFact("rewind", "either", did="rewound"),
    facts.PolicySet: KnownFact("policy"),
    facts.ConversationForked: KnownFact("fork"),
    facts.ConversationErased: KnownFact("erase"),
    facts.ConversationRepaired: KnownFact("repair"),
    facts.ConversationArchived: KnownFact("archive"),
}

STAGES = tuple(dict.fromkeys(one.whose for one in KNOWN.values() if one.whose not in ("agent", "any stage")))
"""Who commits: the actors, and what people and agents wish for."""

STRANGE = KnownFact("any stage")
"""What is known of a fact that this version does not know."""


def known(fact: object) -> KnownFact:
    """Return the registry's row of *fact*."""
    return KNOWN.get(type(fact), STRANGE)


def whose(fact: object) -> str:
    """Return the actor, or the wish, that *fact* is of; empty where nothing says it."""
    found = known(fact).whose
    return str(getattr(fact, "stage", "")) if found == "any stage" else found
