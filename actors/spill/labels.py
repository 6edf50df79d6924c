"""Labels: the first line of a pointer: what was there, how much, where it is, and how to read it.

Numbers and names only, so that it is short whatever it stands for; the part that is shown comes below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import re2

from actors.core.text.count import Count
from actors.core.text.kinds import Kind
from protocol.formats import messages

KEY_CHARS = 16
"""Of the SHA-256 in a pointer: 64 bits tell the artifacts of a tenant apart and cost a quarter of the tokens."""

LINES_MIN = 3
"""Of a text of fewer lines, bytes are asked for."""

_MEDIA_TYPE = re2.compile(r"^data:([\w.+-]{1,40}/[\w.+-]{1,60})[;,]")
_MEDIA_TYPES: Mapping[str, str] = {
    "json": "application/json",
    "html": "text/html",
    "csv": "text/csv",
    "diff": "text/x-diff",
    "binary": "application/octet-stream",
    "image": "image",
    "audio": "audio",
    "file": "application/octet-stream",
}


def media_type(text: str, kind: str) -> str:
    """Return the media type that *text* names itself, or that of its *kind*."""
    named = _MEDIA_TYPE.match(messages.without_surrogates(text[:200]))
    return str(named.group(1)) if named else _MEDIA_TYPES.get(kind, "text/plain")


def lead_stored(text: str, kind: str, *, sha256: str, bytes: int, tokens: int, exact: bool) -> str:
    """Return the lead of a part that is an artifact."""
    lines = text.count("\n") + 1
    return (
        f"[{'' if exact else 'About '}{tokens:,} tokens of {_named(kind, media_type(text, kind))} ({bytes:,} bytes, "
        f"{lines:,} {'line' if lines == 1 else 'lines'}) are kept as an artifact; below is a part. "
        f'Read more: read_artifact("{sha256[:KEY_CHARS]}", {_how(kind, lines)}) or a pattern. '
        "Do not guess what is not shown.]"
    )


def lead_media(text: str, kind: str, *, sha256: str, bytes: int) -> str:
    """Return the label of an image, a sound or a file that is an artifact."""
    return (
        f"[{_named(kind, media_type(text, kind))} of {bytes:,} bytes as it was sent, kept as the artifact "
        f"{sha256[:KEY_CHARS]}; it is not shown here. Do not guess what is in it.]"
    )


def lead_files(files: Sequence[tuple[str, int, str]]) -> Callable[[int, Count], str]:
    """Return the writer of a label for *files*: each by its media type, bytes and SHA-256, within some tokens."""

    def named(room: int, count: Count) -> str:
        if not files:
            return ""
        told = [f"{media} of {size:,} bytes: {sha256[:KEY_CHARS]}" for media, size, sha256 in files]
        text = ""
        for shown in range(len(told), -1, -1):
            more = f"; {len(told) - shown} more: read this message" if shown < len(told) else ""
            text = (
                f"[{len(told)} {'file is' if len(told) == 1 else 'files are'} kept as artifacts and not shown; "
                f"read_artifact with a key gives one: {'; '.join(told[:shown])}{more}]"
            )
            if count(text) <= room:
                break
        return text

    return named


def lead_repeated(kind: str, *, number: int, sha256: str, tokens: int) -> str:
    """Return the lead of a result that an earlier message had too."""
    return (
        f"[The same result as message {number}: {tokens:,} tokens of {kind}; below is a part. "
        f'The whole: read_artifact("{sha256[:KEY_CHARS]}").]'
    )


def lead_unstored(*, number: int, bytes: int) -> str:
    """Return the lead of a part that could not be stored: the log still has it."""
    return (
        f"[Shortened from {bytes:,} bytes; the store was not reachable. "
        f'Read the whole with read_artifact("messages:{number}").]'
    )


def refusal(*, bytes: int, tokens: int, cap: int) -> str:
    """Return the error that stands for a result where the policy refuses what cannot be stored."""
    return (
        f"[Error: this result of {tokens:,}/{cap:,} tokens ({bytes:,} bytes) is too large to return and could not be "
        "stored. Repeat the call so that it returns less: narrow down the query, filter, or ask for fewer lines.]"
    )


def _named(kind: str, media: str) -> str:
    return media if kind in media else f"{kind} ({media})" if media != "text/plain" else f"{media} {kind}"


def _how(kind: Kind | str, lines: int) -> str:
    if kind == "json":
        return 'json_path="$..name"'
    return 'lines="1-200"' if lines >= LINES_MIN else 'bytes="1-4000"'
