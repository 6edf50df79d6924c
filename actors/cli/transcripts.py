"""Transcripts on disk: a JSON list of messages, an object with `messages`, or JSON lines of either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from protocol.errors import UNREADABLE, BadMessage


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a file."""

    name: str
    messages: list[Any]


def transcripts(path: Path) -> list[Transcript]:
    """Return the conversations in *path*. Raises `BadMessage` that says in which line reading stopped."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadMessage(f"{path}: {error.strerror}", at=str(path)) from None
    whole = _json(text)
    if whole is not None:
        return [_transcript(path, 0, whole)]
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        row = _json(line)
        if not isinstance(row, (dict, list)):
            raise BadMessage(f"{path}, line {number}: neither JSON nor JSON lines", at=f"line {number}")
        rows.append(row)
    if not rows:
        raise BadMessage(f"{path} is empty", at=str(path))
    if all(isinstance(row, dict) and "messages" not in row for row in rows):
        return [Transcript(name=path.stem, messages=rows)]
    return [_transcript(path, number, row) for number, row in enumerate(rows)]


def _transcript(path: Path, index: int, value: Any) -> Transcript:
    if isinstance(value, dict) and "messages" not in value and "role" in value:
        return Transcript(name=path.stem, messages=[value])
    name = f"{path.stem}-{index}"
    found = value
    if isinstance(value, dict):
        found, name = value.get("messages"), str(value.get("id") or name)
    if not isinstance(found, list):
        raise BadMessage(f"{path}: a transcript is a list of messages or an object with `messages`", at=f"/{index}")
    if not found:
        raise BadMessage(f"{path}: the conversation {name!r} holds no messages", at=f"/{index}")
    return Transcript(name=name, messages=found)


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        pass
    try:
        # the standard library reads lone surrogates, which msgspec refuses
        return json.loads(text)
    except (ValueError, UnicodeDecodeError, RecursionError):
        return None
