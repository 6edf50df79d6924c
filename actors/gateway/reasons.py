"""Reasons: why a request is not managed, or has no answer, in words for its agent and its operator.

None of them has a word of a conversation in it: they stand in headers, in answers and in the log.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping

import aiohttp

from protocol.errors import (
    ArtifactsUnavailable,
    BadMessage,
    BadPolicy,
    Busy,
    CallsOpen,
    Contended,
    Damaged,
    Erased,
    JettisonError,
    KeysUnavailable,
    LogMoved,
    LogRegression,
    LogUnavailable,
    NotFound,
    NotPermitted,
    NotProvisioned,
    NotReady,
    OutcomeUnknown,
    Rejected,
)


class Unmanaged(Rejected):
    """A request cannot be managed; its sentence is the gateway's own and may be told to anybody."""


class Unknown(Rejected):
    """Nobody knows what is to be gone on from, or it is another caller's."""


_WORDS: Mapping[type[BaseException], str] = {
    ArtifactsUnavailable: "the store does not answer",
    BadMessage: "a message of it cannot be read",
    BadPolicy: "its policy cannot be used",
    Busy: "NATS or its workers are at their limits",
    CallsOpen: "calls in it have no result",
    Contended: "other requests were faster, too often",
    Damaged: "the log of its conversation is damaged",
    Erased: "its conversation was erased",
    KeysUnavailable: "its tenant's key is not here",
    LogMoved: "the log of its conversation was moved",
    LogRegression: "the log of its conversation lost its end",
    LogUnavailable: "NATS does not answer",
    NotFound: "its conversation is not there",
    NotPermitted: "NATS does not let this gateway do it",
    NotProvisioned: "NATS is not set up for it",
    NotReady: "its view is not ready",
    OutcomeUnknown: "NATS did not confirm it",
    Rejected: "its conversation does not take it",
    Unknown: "what it goes on from is not known",
    TimeoutError: "it took too long",
    BaseException: "something that it needs is away",
}


def reason_of(error: BaseException) -> str:
    """Return the reason for which a request is not managed."""
    if isinstance(error, Unmanaged):
        return str(error)
    return next(_WORDS[kind] for kind in type(error).__mro__ if kind in _WORDS)


def failure_of(error: BaseException) -> str:
    """Return the end that a connection to a provider came to, in words, without its URL."""
    if isinstance(error, JettisonError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message})"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS ({(cause.reason or 'refused').replace('_', ' ').lower()})"
    if isinstance(cause, socket.gaierror):
        return "its name is not known"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno).lower()
    if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, OSError)):
        return "the connection was closed"
    return "what it says is no HTTP"
