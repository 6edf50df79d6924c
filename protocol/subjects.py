"""Every subject, stream and durable name, built and parsed only here.

ctx.v1.log.{tenant}.{conversation}.said          agents write, actors read       stream CTX_LOG
ctx.v1.log.{tenant}.{conversation}.done          actors write                    stream CTX_LOG
ctx.v1.wake.{actor}.{tenant}.{conversation}      one slot each                   stream CTX_WAKE
ctx.v1.snap.{tenant}.{conversation}              two newest snapshots            stream CTX_SNAP
ctx.v1.ready.{tenant}.{conversation}             announcements, not stored
ctx.v1.ask.{verb}.{tenant}.{conversation}        requests to the context service
"""

from __future__ import annotations

from typing import Literal, get_args

from .errors import BadEnvelope
from .ids import Address, Token

LOG_STREAM = "CTX_LOG"
WAKE_STREAM = "CTX_WAKE"
SNAPSHOT_STREAM = "CTX_SNAP"

LOG_SUBJECTS = "ctx.v1.log.*.*.*"
WAKE_SUBJECTS = "ctx.v1.wake.*.*.*"
SNAPSHOT_SUBJECTS = "ctx.v1.snap.*.*"

SAID_SUBJECTS = "ctx.v1.log.*.*.said"
SPILL_WAKE_TRANSFORM = "ctx.v1.wake.spill.{{wildcard(1)}}.{{wildcard(2)}}"
"""Where the server republishes a new message's headers, so that it wakes spill by itself."""

Actor = Literal["spill", "digest", "squeeze", "cut"]
ACTORS: tuple[Actor, ...] = get_args(Actor)

Verb = Literal["context", "upload", "read"]
VERBS: tuple[Verb, ...] = get_args(Verb)
CONTEXT_GROUP = "context-service"


def said(at: Address) -> str:
    """Return where agents publish what they say."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.said"


def done(at: Address) -> str:
    """Return where actors commit what they did."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.done"


def both(at: Address) -> str:
    """Return the filter over all that is in the log of *at*."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.*"


def wake(actor: Actor, at: Address) -> str:
    """Return the slot of *actor* for the conversation *at*."""
    return f"ctx.v1.wake.{actor}.{at.tenant}.{at.conversation}"


def wake_filter(actor: Actor) -> str:
    """Return the filter over all slots of *actor*."""
    return f"ctx.v1.wake.{actor}.*.*"


def snapshot(at: Address) -> str:
    """Return where snapshots of *at* are kept."""
    return f"ctx.v1.snap.{at.tenant}.{at.conversation}"


def ready(at: Address) -> str:
    """Return where a ready snapshot of *at* is announced."""
    return f"ctx.v1.ready.{at.tenant}.{at.conversation}"


def ask(verb: Verb, at: Address) -> str:
    """Return where the context service is asked for *verb* about *at*."""
    return f"ctx.v1.ask.{verb}.{at.tenant}.{at.conversation}"


def ask_filter(verb: Verb) -> str:
    """Return the filter over all requests of one *verb*."""
    return f"ctx.v1.ask.{verb}.*.*"


def durable(actor: Actor) -> str:
    """Return the durable consumer's name of *actor*."""
    return f"actor-{actor}"


def address_of(subject: str) -> Address:
    """Return the address that any subject of ours carries; raise `BadEnvelope` for others."""
    parts = subject.split(".")
    match parts:
        case ["ctx", "v1", "log", tenant, conversation, "said" | "done"]:
            pass
        case ["ctx", "v1", "wake" | "ask", _, tenant, conversation]:
            pass
        case ["ctx", "v1", "snap" | "ready", tenant, conversation]:
            pass
        case _:
            raise BadEnvelope("not a subject of ours", subject=subject[:200])
    return Address(tenant=Token(tenant), conversation=Token(conversation))
