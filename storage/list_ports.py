"""What storage promises of the list of all conversations. Contract tests: `tests/storage/test_work_contract.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document of the list, as it is stored."""

    name: str
    body: bytes
    revision: int


class KeptList(Protocol):
    """The list of all conversations: a few hundred documents, which follow from the log and can be made anew from it.

    All raise `LogUnavailable`, `NotProvisioned`, and `NotPermitted` where the user has no right to it.
    """

    async def read(self, *, after: int = 0) -> Sequence[Document]:
        """Return the documents with a revision above *after*, by revision; a replica may be behind."""
        ...

    async def find(self, name: str) -> Document | None:
        """Return the document as the leader has it, or None."""
        ...

    async def put(self, name: str, body: bytes, *, expected: int) -> int:
        """Keep *body* if the revision is still *expected*, 0 for none; return the new one, 0 if another was faster.

        What it replaces is overwritten where it was stored: it may name what is to be forgotten.
        """
        ...

    async def drop(self, name: str) -> None:
        """Overwrite the document; harmless where there is none."""
        ...
