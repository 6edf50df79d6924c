"""Every subject, stream and durable name, built and parsed only here.

ctx.v1.log.{tenant}.{conversation}.said          agents write, actors read       stream CTX_LOG
ctx.v1.log.{tenant}.{conversation}.done          actors write                    stream CTX_LOG
ctx.v1.wake.{actor}.{tenant}.{conversation}      one slot each                   stream CTX_WAKE
ctx.v1.urge.{actor}.{tenant}.{conversation}      the same, priority lane         stream CTX_WAKE
ctx.v1.dlq.{actor}.{tenant}.{conversation}       a wake-up that was given up     stream CTX_DLQ
ctx.v1.snap.{tenant}.{conversation}              two newest snapshots            stream CTX_SNAP
ctx.v1.key.{tenant}.{conversation}               its wrapped key                 stream CTX_KEYS
ctx.v1.sweep[.{partition}]                       how far the sweeper came        stream CTX_SNAP
ctx.v1.begun.{actor}.{tenant}.{conversation}     work in progress                stream CTX_SNAP
ctx.v1.list.{document}                           the list of conversations       stream CTX_LIST
ctx.v1.gate.{tenant}.{place}                     whom the gateway knows          stream CTX_GATE
ctx.v1.live.{tenant}.{conversation}.{gateway}    what a gateway tells of it      stream CTX_GATE
ctx.v1.ready.{tenant}.{conversation}             announcements, not stored
ctx.v1.ask.{verb}.{tenant}.{conversation}        requests to the context service
ctx.v1.hook.{tenant}.{conversation}.{name}       calls of a policy's hooks, not stored
ctx.v1.shard.{shard}.{…}                         log, wake, urge and snap while the server finds their stream
                                                 (`infra/nats/shards.conf`); stored under the names above
ctx.v1.move.{partition}.{…}, ctx.v1.left.{shard}.{…}   the same while a shard moves to another partition
"""

from __future__ import annotations

from typing import Literal, get_args

from .errors import BadEnvelope
from .ids import Address, Token, is_token

LOG_STREAM = "CTX_LOG"
WAKE_STREAM = "CTX_WAKE"
SNAPSHOT_STREAM = "CTX_SNAP"
KEY_STREAM = "CTX_KEYS"
DEAD_LETTER_STREAM = "CTX_DLQ"
GATEWAY_STREAM = "CTX_GATE"
LIST_STREAM = "CTX_LIST"

LOG_SUBJECTS = ("ctx.v1.log.*.*.said", "ctx.v1.log.*.*.done")
LOG_FILTER = "ctx.v1.log.*.*.*"
"""Over both."""
WAKE_SUBJECTS = "ctx.v1.wake.*.*.*"
PRIORITY_SUBJECTS = "ctx.v1.urge.*.*.*"
SNAPSHOT_SUBJECTS = "ctx.v1.snap.*.*"
KEY_SUBJECTS = "ctx.v1.key.*.*"
SWEEP_SUBJECT = "ctx.v1.sweep"
BEGUN_SUBJECTS = "ctx.v1.begun.*.*.*"
DEAD_LETTER_SUBJECTS = "ctx.v1.dlq.*.*.*"
GATEWAY_SUBJECTS = "ctx.v1.gate.*.*"
SESSION_SUBJECTS = "ctx.v1.live.*.*.*"
LIST_SUBJECTS = "ctx.v1.list.*"

SAID_SUBJECTS = "ctx.v1.log.*.*.said"
Actor = Literal["spill", "digest", "squeeze", "cut"]
ACTORS: tuple[Actor, ...] = get_args(Actor)
FIRST_ACTOR: Actor = "spill"
"""Whom the log itself wakes for a new message."""

SPILL_WAKE_TRANSFORM = f"ctx.v1.wake.{FIRST_ACTOR}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}"
"""Where the server republishes a new message's headers, so that it wakes spill by itself."""

SHARDS = 64
"""Into which conversations are parted; for ever, since what is kept is found by it (`storage/partitions.py`)."""

SHARD_WAKE_TRANSFORM = f"ctx.v1.shard.{{{{partition({SHARDS},1,2)}}}}.{SPILL_WAKE_TRANSFORM.removeprefix('ctx.v1.')}"
"""The same, to the stream that has the shard."""

SHARD_SUBJECTS = {
    LOG_STREAM: ("ctx.v1.shard.*.log.*.*.said", "ctx.v1.shard.*.log.*.*.done"),
    WAKE_STREAM: ("ctx.v1.shard.*.wake.*.*.*", "ctx.v1.shard.*.urge.*.*.*"),
    SNAPSHOT_STREAM: ("ctx.v1.shard.*.snap.*.*",),
}
"""What the server makes of subjects when something is published."""
SHARD_STORED = {
    LOG_STREAM: (
        "ctx.v1.*.*.log.*.*.*",
        "ctx.v1.log.{{wildcard(3)}}.{{wildcard(4)}}.{{wildcard(5)}}",
    ),
    WAKE_STREAM: (
        "ctx.v1.shard.*.*.*.*.*",
        "ctx.v1.{{wildcard(2)}}.{{wildcard(3)}}.{{wildcard(4)}}.{{wildcard(5)}}",
    ),
    SNAPSHOT_STREAM: ("ctx.v1.shard.*.snap.*.*", "ctx.v1.snap.{{wildcard(2)}}.{{wildcard(3)}}"),
}
"""And what its streams make of these when they store it: the names that they always had."""

Lane = Literal["normal", "priority"]
"""Slots of background work, and slots of conversations whose agent waits at this moment: each lane has its workers."""
LANES: tuple[Lane, ...] = get_args(Lane)
_LANE_TOKENS: dict[Lane, str] = {"normal": "wake", "priority": "urge"}
"""In subjects, which keep their names for ever."""

Reading = Literal[
    "context", "upload", "read", "expand", "open", "search", "artifacts", "versions", "diff", "why", "where"
]
"""What an agent asks about a conversation of its own."""
Changing = Literal["policy", "rewind", "fork", "erase"]
"""What changes the past or the policy: off for agents unless an operator turns it on."""
Verb = Literal[Reading, Changing]
VERBS: tuple[Verb, ...] = get_args(Verb)
CONTEXT_GROUP = "context-service"
HEARING_GROUP = "hearing"


def said(at: Address) -> str:
    """Return the subject on which agents publish messages."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.said"


def done(at: Address) -> str:
    """Return the subject on which actors commit."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.done"


def both(at: Address) -> str:
    """Return the filter over all that is in the log of *at*."""
    return f"ctx.v1.log.{at.tenant}.{at.conversation}.*"


def wake(actor: Actor, at: Address, lane: Lane = "normal") -> str:
    """Return the slot of *actor* for the conversation *at*."""
    return f"ctx.v1.{_LANE_TOKENS[lane]}.{actor}.{at.tenant}.{at.conversation}"


def wake_filter(actor: Actor, lane: Lane = "normal") -> str:
    """Return the filter over all slots of *actor* in a *lane*."""
    return f"ctx.v1.{_LANE_TOKENS[lane]}.{actor}.*.*"


def dead_letter(actor: Actor, at: Address) -> str:
    """Return the subject of the dead letter of *actor*."""
    return f"ctx.v1.dlq.{actor}.{at.tenant}.{at.conversation}"


def begun(actor: Actor, at: Address) -> str:
    """Return the subject of *actor*'s work in progress on *at*."""
    return f"ctx.v1.begun.{actor}.{at.tenant}.{at.conversation}"


def snapshot(at: Address) -> str:
    """Return the subject of the snapshots of *at*."""
    return f"ctx.v1.snap.{at.tenant}.{at.conversation}"


def key(at: Address) -> str:
    """Return the subject of the key of *at*, which is wrapped by its tenant's."""
    return f"ctx.v1.key.{at.tenant}.{at.conversation}"


def keys_of(tenant: Token) -> str:
    """Return the filter over the keys of all conversations of *tenant*."""
    return f"ctx.v1.key.{tenant}.*"


def gateway(tenant: Token, place: Token) -> str:
    """Return the subject of the conversations that a gateway knows at *place*."""
    return f"ctx.v1.gate.{tenant}.{place}"


def places_of(tenant: Token) -> str:
    """Return the filter over all that gateways know of conversations of *tenant*."""
    return f"ctx.v1.gate.{tenant}.*"


def session(at: Address, gateway: Token) -> str:
    """Return the subject on which *gateway* tells of *at*."""
    return f"ctx.v1.live.{at.tenant}.{at.conversation}.{gateway}"


def sessions_of(at: Address) -> str:
    """Return the filter over what gateways tell of *at*."""
    return f"ctx.v1.live.{at.tenant}.{at.conversation}.*"


def listed(document: str) -> str:
    """Return the subject of one document of the list of conversations."""
    return f"ctx.v1.list.{document}"


def hook(at: Address, name: str) -> str:
    """Return the subject on which a hook of the policy of *at* calls; *name* is a token that the policy checked."""
    return f"ctx.v1.hook.{at.tenant}.{at.conversation}.{name}"


def ready(at: Address) -> str:
    """Return the subject on which *at* is announced as ready."""
    return f"ctx.v1.ready.{at.tenant}.{at.conversation}"


def ask(verb: Verb, at: Address) -> str:
    """Return the subject of questions for *verb* about *at*."""
    return f"ctx.v1.ask.{verb}.{at.tenant}.{at.conversation}"


def ask_filter(verb: Verb) -> str:
    """Return the filter over all requests of one *verb*."""
    return f"ctx.v1.ask.{verb}.*.*"


def durable(actor: Actor, lane: Lane = "normal") -> str:
    """Return the name of *actor*'s durable consumer of a *lane*."""
    return f"actor-{actor}" if lane == "normal" else f"urgent-{actor}"


def sweep(partition: int) -> str:
    """Return the subject of how far the sweepers came in a *partition*."""
    return f"{SWEEP_SUBJECT}.{partition}" if partition else SWEEP_SUBJECT


def sharded(stream: str, shard: int) -> list[str]:
    """Return the subjects of a stream that has a *shard* of the log, of wake-ups or of snapshots."""
    return [pattern.replace("*", str(shard), 1) for pattern in SHARD_SUBJECTS[stream]]


def shard_in(pattern: str) -> int | None:
    """Return the shard that a *pattern* of `sharded` is of; None for others."""
    parts = pattern.split(".")
    return int(parts[3]) if parts[:3] == ["ctx", "v1", "shard"] and parts[3].isdigit() else None


def leaving(shard: int) -> str:
    """Return the subject of a stream of the log that a *shard* is leaving: nobody says anything there."""
    return f"ctx.v1.left.{shard}.log.*.*.*"


def leaving_in(pattern: str) -> int | None:
    """Return the shard that a *pattern* of `leaving` is of; None for others."""
    parts = pattern.split(".")
    return int(parts[3]) if parts[:3] == ["ctx", "v1", "left"] else None


def arriving(subject: str, partition: int) -> str:
    """Return the subject on which *subject* of the log is published for a *partition*, whoever has its shard."""
    return subject.replace("ctx.v1.", f"ctx.v1.move.{partition}.", 1)


def barrier(partition: int) -> str:
    """Return the subject of a message that arrives behind all that was on its way to a *partition* of the log."""
    return f"ctx.v1.move.{partition}.behind"


def address_in(subject: str) -> Address | None:
    """Return the address that a stored message's *subject* carries; None where it is no subject of ours.

    A server stores what anybody who may write a conversation's subject calls that conversation.
    """
    try:
        return address_of(subject)
    except BadEnvelope:
        return None


def address_of(subject: str) -> Address:
    """Return the address that any subject of ours carries; raise `BadEnvelope` for others."""
    parts = subject.split(".")
    match parts:
        case ["ctx", "v1", "log", tenant, conversation, "said" | "done"]:
            pass
        case ["ctx", "v1", "wake" | "urge" | "dlq" | "begun" | "ask", _, tenant, conversation]:
            pass
        case ["ctx", "v1", "live", tenant, conversation, _]:
            pass
        case ["ctx", "v1", "snap" | "key" | "ready", tenant, conversation]:
            pass
        case _:
            raise BadEnvelope(f"{subject[:200]!r} is not a subject of ours", subject=subject[:200])
    for one in (tenant, conversation):
        if not is_token(one):
            raise BadEnvelope(
                f"{one[:80]!r} in a subject is not the safe form of an id: [A-Za-z0-9_-], 1 to 64 of them, which "
                "infra/docs/protocol.md makes of any name",
                subject=subject[:200],
            )
    return Address(tenant=Token(tenant), conversation=Token(conversation))
