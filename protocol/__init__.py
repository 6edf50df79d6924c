"""What is said: types, facts, subjects, codec, provider formats and the client. Imports nothing of ours.

The public face is `Client`, `FolderKeys` and the errors. Each is imported when it is asked for (PEP 562), since whoever
reads one fact needs neither NATS nor a cipher. Words that are ours stand in `infra/docs/glossary.md`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Client
    from .errors import (
        ArchiveDamaged,
        ArtifactDamaged,
        ArtifactsUnavailable,
        BadEnvelope,
        BadId,
        BadMessage,
        BadPolicy,
        BudgetRefused,
        Busy,
        CallsOpen,
        ChainBroken,
        Contended,
        Damaged,
        Deadly,
        Erased,
        JettisonError,
        KeysUnavailable,
        LogMoved,
        LogRegression,
        LogUnavailable,
        ModelUnavailable,
        NotFound,
        NotPermitted,
        NotProvisioned,
        NotReady,
        OutcomeUnknown,
        PastNeeded,
        PolicyDiffers,
        Rejected,
        Unavailable,
        UnknownRules,
    )
    from .keys import FolderKeys

__all__ = [  # noqa: RUF022  # what is used first stands first
    "Client",
    "FolderKeys",
    "JettisonError",
    "Rejected",
    "BadId",
    "BadMessage",
    "BadPolicy",
    "PolicyDiffers",
    "BadEnvelope",
    "UnknownRules",
    "BudgetRefused",
    "NotProvisioned",
    "Erased",
    "NotFound",
    "Unavailable",
    "Busy",
    "LogUnavailable",
    "NotPermitted",
    "OutcomeUnknown",
    "ArtifactsUnavailable",
    "KeysUnavailable",
    "ModelUnavailable",
    "NotReady",
    "CallsOpen",
    "Contended",
    "Deadly",
    "Damaged",
    "ArchiveDamaged",
    "ArtifactDamaged",
    "ChainBroken",
    "PastNeeded",
    "LogMoved",
    "LogRegression",
]

_ELSEWHERE = {"Client": "client", "FolderKeys": "keys"}
"""Where a public name is defined that is no error."""


def __getattr__(name: str) -> object:
    """Import the public *name* from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ELSEWHERE.get(name, 'errors')}", __name__), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
