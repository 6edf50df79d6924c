"""Codec of envelopes: MessagePack arrays whose fields are append-only.

One NATS message is one envelope. `Said` is what an agent publishes; `Commit` is one step of an actor
with all its facts. A commit's hash covers its own bytes, the commit before it, and every `Said` body
between the two, so that no message and no step can be changed, dropped or reordered unseen.
"""

from __future__ import annotations

import hashlib

import msgspec

from .errors import UNREADABLE, BadEnvelope, UnknownRules
from .facts import ConversationErased, DoneFact, SaidFact
from .ids import Address

RULES_VERSIONS = ("1", "2", "3")
"""The versions of the rules that this release reads, the newest last. A commit says which one decided it. What older
ones decided is folded and rests on the record; a commit of any other version is not readable."""

RULES_VERSION = RULES_VERSIONS[-1]
"""The version that this release decides by if nobody asks for an older one, and that replay decides again."""

RULES_WRITTEN = ("1", "2", "3")
"""Versions that this release can decide by: the newest, and the ones before it while workers may be left that read no
newer one (the setting `rules.write`)."""

ENCRYPTED = b"\xc1\x01"
"""What an encrypted record of the log begins with, and no envelope: MessagePack has no 0xC1. Then its version."""


def is_encrypted(kept: bytes) -> bool:
    """Tell whether a record of the log is encrypted (`cipher`); others are envelopes in plain text."""
    return kept.startswith(ENCRYPTED)


class Said(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="said.1", tag_field="envelope"):
    """What one writer says at once. `count` is the writer's own counter, from 1."""

    writer: str
    count: int
    facts: tuple[SaidFact, ...]
    at_ms: int = 0
    """When, by the writer's clock: milliseconds since 1970."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="commit.1", tag_field="envelope"):
    """One step of an actor. Hashes are SHA-256, raw bytes.

    It never gets another field: its own hash is the end of its bytes. What is new is a fact.
    """

    version: int
    commit_id: str
    writer: str
    upto: int
    """Stream sequence of the last `Said` that the step looked at."""
    prev_hash: bytes
    said_hash: bytes
    """Rolling hash over all `Said` bodies up to `upto`."""
    policy_hash: str
    rules_version: str
    tokenizer: str
    facts: tuple[DoneFact, ...]
    policy: bytes = b""
    """The resolved policy, in the commit that adopts it."""
    hash: bytes = b""

    @property
    def is_tombstone(self) -> bool:
        """Tell whether it is what an erased conversation leaves."""
        return any(isinstance(fact, ConversationErased) for fact in self.facts)


HASH_BYTES = 32
_NO_HASH = b"\xc4\x00"
"""An empty hash as MessagePack has it; a full one has two bytes before it too."""

_ENCODER = msgspec.msgpack.Encoder()
_SAID = msgspec.msgpack.Decoder(Said)
_COMMIT = msgspec.msgpack.Decoder(Commit)


def encode_said(said: Said) -> bytes:
    """Return the bytes of *said*."""
    return _ENCODER.encode(said)


def decode_said(body: bytes) -> Said:
    """Return the envelope in *body*; raises `BadEnvelope` for anything else or newer."""
    try:
        return _SAID.decode(body)
    except UNREADABLE as error:
        raise BadEnvelope(_unreadable("`said` envelope", body, error), bytes=len(body)) from None


def seal(commit: Commit) -> Commit:
    """Return *commit* with its own hash."""
    return msgspec.structs.replace(commit, hash=_hash_of(_ENCODER.encode(msgspec.structs.replace(commit, hash=b""))))


def encode_commit(commit: Commit) -> bytes:
    """Return the bytes of a sealed *commit*."""
    assert commit.hash, "seal the commit first"
    return _ENCODER.encode(commit)


def decode_commit(body: bytes) -> Commit:
    """Return the commit in *body*; raises `BadEnvelope` for anything else, newer or with a wrong hash.

    `UnknownRules` where its bytes are sound and a newer release wrote them, by its form or by its rules.
    """
    try:
        commit = _COMMIT.decode(body)
    except UNREADABLE as error:
        if is_whole(body):
            raise UnknownRules(f"a newer release wrote this commit: {error}"[:300], bytes=len(body)) from None
        raise BadEnvelope(_unreadable("commit", body, error), bytes=len(body)) from None
    # over the bytes as they are kept: encoded anew, an old commit has the fields that facts got since
    if len(commit.hash) != HASH_BYTES or _hash_of(body[: -HASH_BYTES - 2] + _NO_HASH) != commit.hash:
        raise BadEnvelope("the commit's bytes do not match its hash", version=commit.version)
    if commit.rules_version not in RULES_VERSIONS:
        # never skipped and never believed: a version that somebody made up must not end the checking
        raise UnknownRules(
            f"version {commit.version} was decided by rules {commit.rules_version!r:.40}, and this release knows "
            f"{', '.join(RULES_VERSIONS)}: read it with the release that wrote it",
            version=commit.version,
            rules_version=commit.rules_version,
        )
    return commit


def is_whole(body: bytes) -> bool:
    """Tell whether *body* ends with its own hash: then nobody changed it, and who cannot read it is older."""
    return len(body) > HASH_BYTES + 2 and _hash_of(body[: -HASH_BYTES - 2] + _NO_HASH) == body[-HASH_BYTES:]


def genesis(at: Address) -> bytes:
    """Return the hash that the first commit of a conversation follows."""
    return hashlib.sha256(f"jettison:1:{at}".encode()).digest()


def roll(said_hash: bytes, body: bytes) -> bytes:
    """Return the rolling hash after one more `Said` *body*."""
    return hashlib.sha256(said_hash + hashlib.sha256(body).digest()).digest()


def commit_id(*, prev_hash: bytes, step: str) -> str:
    """Return the id of a step: the same for every worker that repeats it, unguessable from outside.

    A repeated step therefore lands at most once, and nobody who does not know the chain can squat it.
    """
    return hashlib.sha256(prev_hash + step.encode()).hexdigest()[:32]


def _unreadable(what: str, body: bytes, error: Exception) -> str:
    if is_encrypted(body):
        return f"an encrypted {what} that the conversation's key does not open: changed, or of another one"
    return f"not a readable {what}: {error}"[:300]


def _hash_of(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
