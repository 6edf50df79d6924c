"""Known facts: what there is to know of each kind, in one place; a test holds it against `protocol/facts.py`.

How a fact changes the state is in `apply_said` and `apply_done`, and why it was written in the `decide` of its actor.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from protocol import facts
from protocol.facts import DoneFact, SaidFact
from protocol.subjects import Actor

Whose = (
    Actor | Literal["agent", "serve", "expand", "rewind", "policy", "fork", "erase", "repair", "archive", "any stage"]
)
"""Who writes it: an agent, an actor, or what somebody wished for; `any stage`: the fact says it in a field."""

Tokens = Literal["same", "fewer", "more", "either"]


class Known(NamedTuple):
    """One kind of fact. `tokens` is what it does to those of the view."""

    whose: Whose
    tokens: Tokens = "same"
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

KNOWN: dict[type, Known] = {
    facts.ConversationOpened: Known("agent"),
    facts.MessagesAppended: Known("agent", "more"),
    facts.UsageReported: Known("agent"),
    facts.CompactionRequested: Known("agent"),
    facts.OverflowReported: Known("agent"),
    facts.ToolOutputSpilled: Known(
        "spill",
        "fewer",
        did="spilled",
        measured=("tokens", "text_tokens"),
        rests_on=(*_CAPS, "spill.medium", "spill.per_tool"),
    ),
    facts.ToolOutputTrimmed: Known(
        "spill",
        "fewer",
        did="shortened",
        measured=("tokens", "text_tokens"),
        rests_on=("spill.on_store_error", *_CAPS),
    ),
    facts.MessageRepaired: Known("spill", left="repaired"),
    facts.HistoryDigested: Known(
        "digest",
        "fewer",
        did="digested",
        rests_on=("trigger.ratio", "target.low_water", "digest.keep_blocks", "digest.keep_tokens", "digest.cap"),
    ),
    facts.HistoryAccounted: Known(
        "digest",
        "fewer",
        did="digested",
        rests_on=("trigger.ratio", "target.low_water", "digest.style", "digest.cap"),
    ),
    facts.DigestSqueezed: Known("squeeze", "fewer", did="squeezed", rests_on=_LLM),
    facts.HistorySummarized: Known("squeeze", "fewer", did="summarized", rests_on=_LLM),
    facts.AccountSqueezed: Known("squeeze", "fewer", did="summarized", rests_on=(*_LLM, "squeeze.prompt_version")),
    facts.HistoryCut: Known("cut", "fewer", did="cut", rests_on=("target.low_water", "cut.pins", "cut.on_overflow")),
    facts.CompactionDeclined: Known("any stage", left="left as it is"),
    facts.StageFailed: Known("any stage", left="failed"),
    facts.ContextServed: Known("serve"),
    facts.HookFired: Known("spill"),
    facts.ReminderInjected: Known("spill", "more"),
    facts.HistoryExpanded: Known("expand", "more", did="restored"),
    facts.ConversationRewound: Known("rewind", "either", did="rewound"),
    facts.PolicySet: Known("policy"),
    facts.ConversationForked: Known("fork"),
    facts.ConversationErased: Known("erase"),
    facts.ConversationRepaired: Known("repair"),
    facts.ConversationArchived: Known("archive"),
}

STAGES = tuple(dict.fromkeys(one.whose for one in KNOWN.values() if one.whose not in ("agent", "any stage")))
"""Who commits: the actors, and what people and agents wish for."""

STRANGE = Known("any stage")
"""What is known of a fact that this version does not know."""


def known(fact: object) -> Known:
    """Return what is known of *fact*."""
    return KNOWN.get(type(fact), STRANGE)


def whose(fact: object) -> str:
    """Return the actor, or the wish, that *fact* is of; empty where nothing says it."""
    found = known(fact).whose
    return str(getattr(fact, "stage", "")) if found == "any stage" else found


def written_by(actor: str) -> tuple[str, ...]:
    """Return the names of the facts that *actor* alone writes."""
    return tuple(kind.__name__ for kind, one in KNOWN.items() if one.whose == actor)


def every_fact() -> tuple[type, ...]:
    """Return all kinds of facts that the log can hold."""
    return (*get_args(SaidFact), *get_args(DoneFact))
