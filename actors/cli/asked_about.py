"""Asked about: which conversations or files the words of a command name. It loads little: commands begin with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from actors.audit.trail import versioned
from protocol.errors import BadId, LogUnavailable, NotFound
from protocol.ids import Address, written_address

FILE_ENDS = (".tar", ".tar.gz", ".jsonl")
"""Of names that are rather a file's than a conversation's."""


def chosen(everyone: Sequence[Address], conv: str) -> Sequence[Address]:
    """Return the conversations among *everyone* that *conv* names: one, those of `TENANT/`, or all."""
    if not conv:
        return everyone
    if conv.endswith("/"):
        tenant = written_address(f"{conv}x").tenant
        found = [at for at in everyone if at.tenant == tenant]
        if not found:
            raise NotFound(f"there is no conversation of the tenant {tenant}", tenant=tenant)
        return found
    at = written_address(conv)
    if at not in everyone:
        raise NotFound(f"there is no conversation {at}", address=str(at))
    return [at]


def named_file(text: str) -> Path | None:
    """Return the file that *text* names, if there is one; an id may hold what no file's name can."""
    try:
        return Path(text) if Path(text).is_file() else None
    except (OSError, ValueError):
        return None


def missing(text: str, at: Address) -> NotFound:
    """Return the error for *text*, which names no file, and whose conversation *at* is not there either."""
    if named_file(text) is not None:
        return _is_file(text)
    looks_like_file = "/" in text or text.endswith(FILE_ENDS)
    told = f"no such file or conversation: {text}" if looks_like_file else f"there is no conversation {at}"
    if "@" in text:
        told += "; a version is a number: CONV@3"
    return NotFound(told, address=str(at))


@contextmanager
def maybe_file(text: str) -> Iterator[None]:
    """Say that there is no file *text* where it looks like one and no stack is there to ask for a conversation."""
    try:
        yield
    except LogUnavailable as error:
        if not text.rpartition("@")[0].endswith(FILE_ENDS) and not text.endswith(FILE_ENDS):
            raise
        told = f"there is no file {text}; for a conversation of that name: {error}"
        raise type(error)(told, **error.fields) from None


def typed(text: str) -> tuple[Address, int | None]:
    """Return the conversation and the version that *text* names to a command that reads no files.

    Raises `BadId`, and `NotFound` for the path of a file.
    """
    try:
        return versioned(text)
    except BadId:
        if named_file(text) is None:
            raise
        raise _is_file(text) from None


def _is_file(text: str) -> NotFound:
    ways = "`versions`, `why`, `where` and `verify` read bundles, `jettison import` puts one into the stack"
    return NotFound(f"{text} is a file, and no conversation of this stack; {ways}")


def way_back(address: str) -> str:
    """Return the words for how an artifact of *address* comes back that the store lost."""
    return (
        "what the store lost comes back from a backup (jettison restore FOLDER --objects) "
        f"or a bundle (jettison repair {address} --from FILE --yes)"
    )
