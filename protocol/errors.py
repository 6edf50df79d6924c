"""Every error of Jettison, split by whose fault it is.

    JettisonError
    ├── Rejected             their bug: never retried, nothing was changed
    │   ├── BadId            an id that is empty or not text
    │   ├── BadMessage       not a provider message; says which field
    │   ├── BadPolicy        an unknown, locked or impossible key or value; says which key
    │   │   └── PolicyDiffers  the conversation has another policy than it is opened with
    │   ├── BadEnvelope      bytes in the log that are not an envelope of ours
    │   │   └── UnknownRules a step of rules that this release does not know: a newer one wrote it, or nobody of ours
    │   ├── BudgetRefused    what must stay is larger than the budget; says what to remove
    │   ├── NotProvisioned   a stream, consumer or server is not there, or not as the workers need it
    │   ├── Erased           the conversation was erased; nothing brings it back
    │   └── NotFound         no such conversation, version or artifact
    ├── Unavailable          bad luck: retried, says what was tried
    │   ├── Busy             full or over its limits; nothing was stored: slow down and try again
    │   ├── LogUnavailable
    │   ├── NotPermitted     NATS does not let this user in, or do this: a setting or its configuration must change
    │   ├── OutcomeUnknown   sent, not confirmed: it may land, and sending it again is harmless
    │   ├── ArtifactsUnavailable
    │   ├── KeysUnavailable  the tenant's key is not where this process looks for it
    │   ├── ModelUnavailable
    │   ├── NotReady         the actors have not caught up within the wait
    │   ├── CallsOpen        results of a batch of calls have not been appended within the wait; names the calls
    │   └── Contended        other writers were faster, too often
    ├── Deadly               a conversation, work on which ends the process
    └── Damaged              what was kept is not what was written: writes of that conversation stop
        ├── ArtifactDamaged
        ├── ArchiveDamaged   the older part of a log is not in the store, or not as it was written
        ├── ChainBroken
        │   └── PastNeeded   a commit goes back to a version that its reader has not at hand: fold the whole log
        └── LogRegression
            └── LogMoved     what a reader knows of it is from before it moved to another partition: read it anew

Our own bugs are assertions. An expected conflict is a return value, not an error.
"""

import msgspec


class JettisonError(Exception):
    """Carry the sentence for a person and the fields for a program."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields


class Rejected(JettisonError):
    """The caller's input cannot be accepted as it is."""


class BadId(Rejected):
    """An id is empty or not text."""


class BadMessage(Rejected):
    """A message is not what the provider's format allows; `at` says where."""


class BadPolicy(Rejected):
    """A configuration key or value cannot be used; `key` names it."""


class PolicyDiffers(BadPolicy):
    """A conversation is opened with another policy than it has; `set_policy` changes it."""


class BadEnvelope(Rejected):
    """Bytes on a log subject are not an envelope that this version can read."""


class UnknownRules(BadEnvelope):
    """A newer release wrote a step: its form or its rules are not known to this one. Nothing is damaged."""


class BudgetRefused(Rejected):
    """Not even the smallest legal view fits the budget; `parts` names what is large."""


class NotProvisioned(Rejected):
    """A stream or consumer is not on this server, or cannot be worked with, or the server is not set up for it."""


class Erased(Rejected):
    """The conversation was erased: its tombstone is all that is left, and nothing brings it back."""


class NotFound(Rejected):
    """There is no such conversation, version or artifact."""


class Unavailable(JettisonError):
    """A service did not do its part in time; the same call may succeed later."""


class Busy(Unavailable):
    """A stream or a service is at its limits. Nothing was stored; the same call may be made again, later."""


class LogUnavailable(Unavailable):
    """NATS JetStream could not be reached or did not answer in time."""


class NotPermitted(LogUnavailable):
    """NATS does not let this user in, or do this; nothing was stored. Retried by workers alone, since rights change."""


class OutcomeUnknown(LogUnavailable):
    """Something was sent and not confirmed; it may still land, and a repeat is stored once."""


class ArtifactsUnavailable(Unavailable):
    """The S3 store could not be reached or answered with a server error."""


class KeysUnavailable(Unavailable):
    """What is asked for is encrypted, and this process has no key of the tenant that opens it; says what to set."""


class ModelUnavailable(Unavailable):
    """The LLM endpoint could not be reached, refused for load, or was too slow."""


class NotReady(Unavailable):
    """The actors have not reached the asked position within the wait."""


class CallsOpen(Unavailable):
    """Calls have no result yet, and no provider takes a view that ends with them; `calls` names them."""


class Contended(Unavailable):
    """Other writers committed first, more often than we are willing to retry."""


class Deadly(JettisonError):
    """A process that worked on one conversation, and nothing else, died of it."""


class Damaged(JettisonError):
    """Stored bytes differ from what was written."""


class ArtifactDamaged(Damaged):
    """An artifact's bytes do not hash to its key."""


class ArchiveDamaged(Damaged):
    """The archive with the older part of a log is not there, or not as it was written."""


class ChainBroken(Damaged):
    """A commit does not follow from the one before it."""


class PastNeeded(ChainBroken):
    """A commit goes back to a version that is not at hand; of a whole log, one that never was."""


class LogRegression(Damaged):
    """A snapshot is ahead of the log: the log lost its end."""


class LogMoved(LogRegression):
    """The log is in another partition, with other sequences, and all that was in it."""


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what was expected: its own errors, text that is no UTF-8, depth."""

PROVISION = "run `jettison provision`, or after a loss `jettison restore`"
"""What to do where a stream is missing: after a loss the first would bar the second (`backup.md`)."""


def in_words(error: Exception) -> str:
    """Return what *error* says, without the number that the system has for it; of a file, first which one."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    name = error.filename2 or error.filename
    return f"{name}: {error.strerror}" if name else error.strerror
