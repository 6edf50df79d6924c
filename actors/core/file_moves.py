"""File moves: which files a conversation renamed, moved or deleted, so that nobody looks for them in their old place.

Conservative: a command counts only where a shell would begin to read one, and only if its result does not tell
of a failure; globs, variables and options that change the meaning are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import re2

from .message_texts import MessageText
from .text.patterns import encoded, found, groups, stands

MOVES_MAX = 200
"""Of one message."""

MOVE_CHARS_MAX = 400

_BEGINS = r"(?m)(?:^|[;&|(]\s?|\\n|\"|\bsudo |\bthen |\bdo )"
_FILE = r"[\"'\\]{0,2}([\w./~@+-]*[\w/])[\"'\\]{0,2}"
_ENDS = r"\s*(?:$|[;&|)\"]|\\n|\\\")"

_MOVED = re2.compile(rf"{_BEGINS}(?:git )?mv(?: -[fnvk]+)*\s{_FILE}\s{_FILE}{_ENDS}")
_REMOVED = re2.compile(
    rf"{_BEGINS}(?:git )?(?:rm|rmdir|unlink)(?: -(?:[rRfvi]+|-force|-recursive|q))*((?:\s{_FILE}){{1,20}}){_ENDS}"
)
_MOVED_SAID = re2.compile(
    r"(?m)(?i:\brenamed?|\bmoved)(?i::| from)?\s+[\"'`]?([\w./~@+-]*\w)[\"'`]?"
    r"\s+(?:->|=>|to)\s+[\"'`]?([\w./~@+-]*\w)"
    r"|^rename from (\S+)\nrename to (\S+)$"
)
_REMOVED_SAID = re2.compile(
    r"(?m)^\s*(?:delete mode \d{6}|deleted:|removed|Removed|deleted|Deleted)"
    r"\s+(?:file |directory )?[\"'`]?([\w./~@+-]*\w)[\"'`]?[.]?$"
)
_FAILED = re2.compile(
    r"(?i)No such file|cannot (?:stat|remove|move)|not permitted|permission denied|\bfatal:|\berror\b|Traceback"
    r"|not found|exit (?:code|status)[ :]{1,3}[1-9]"
)
_MOVES = re2.compile(r"(?i)\A(?:\w+[_.-])?(?:move|rename)_?(?:file|path)?\z")
_REMOVES = re2.compile(r"(?i)\A(?:\w+[_.-])?(?:delete|remove)_?(?:file|path)\z")
_FROM_TO = re2.compile(
    r"\"(?:source|src|from|old_?path|path)\"\s?:\s?\"([^\"\\]+)\"\s?,\s?\"(?:destination|dest|dst|to|new_?path)\"\s?:\s?\"([^\"\\]+)\""
)
_PATH_ARGUMENT = re2.compile(r"\"(?:path|file_?(?:path|name)?)\"\s?:\s?\"([^\"\\]+)\"")
_WORD = re2.compile(_FILE)


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A path that is no longer there since message *number*; `now` is where it went, empty if it is gone."""

    path: str
    now: str
    number: int


class FileNews(msgspec.Struct, frozen=True, kw_only=True):
    """What one message tells of files: what moved, by which call, and which calls failed."""

    moves: tuple[tuple[str, Move], ...]
    failed: frozenset[str]


def file_news(parts: Sequence[MessageText]) -> FileNews:
    """Return the file operations in *parts*. Whether a call failed may stand in another message."""
    return FileNews(
        moves=tuple(
            (part.call, Move(path=path, now=now, number=part.number)) for part in parts for path, now in _of(part)
        ),
        failed=frozenset(part.call for part in parts if part.call and not part.tool and _failed(part.text)),
    )


def moves(every: Sequence[FileNews]) -> dict[str, Move]:
    """Return the files that these messages moved or deleted, by the old path, without those that came back."""
    failed = frozenset(call for one in every for call in one.failed)
    there: dict[str, Move] = {}
    for call, move in (moved for one in every for moved in one.moves):
        if call in failed:
            continue
        if move.now:
            there.pop(move.now, None)
        if move.path != move.now and len(move.path) + len(move.now) <= MOVE_CHARS_MAX:
            there[move.path] = move
    return there


def gone(path: str, moved: Mapping[str, Move]) -> Move | None:
    """Return the move that took *path* away, itself or with a folder that it was in."""
    if not moved:
        return None
    steps = path.split("/")
    heads = ("/".join(steps[:at]) for at in range(len(steps), 0, -1))
    return next((moved[head] for head in heads if head in moved), None)


def _of(part: MessageText) -> Iterator[tuple[str, str]]:
    if part.tool:
        yield from _commanded(part.tool, part.text)
    elif part.trust != "assistant":
        yield from _printed(encoded(part.text))


def _commanded(name: str, arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the files that a call moves or deletes: by a shell's command, or a tool whose name says so."""
    data = encoded(arguments)
    for _, before, after in groups(_MOVED, data, most=MOVES_MAX):
        old, new = before.decode().rstrip("/"), after.decode()
        # into a folder: it keeps its name there
        yield old, new + old.rpartition("/")[2] if new.endswith("/") else new
    for _, files, *_ in groups(_REMOVED, data, most=MOVES_MAX):
        for path in found(_WORD, files, group=1, most=MOVES_MAX):
            yield path.rstrip("/"), ""
    if stands(_MOVES, encoded(name)):
        for _, source, target in groups(_FROM_TO, data, most=1):
            yield source.decode(), target.decode()
    elif stands(_REMOVES, encoded(name)):
        for path in found(_PATH_ARGUMENT, data, group=1, most=1):
            yield path.rstrip("/"), ""


def _printed(data: bytes) -> Iterator[tuple[str, str]]:
    for _, source, target, renamed, to in groups(_MOVED_SAID, data, most=MOVES_MAX):
        old, new = (source or renamed).decode(), (target or to).decode()
        if _is_file(old) and _is_file(new):
            yield old, new
    for path in found(_REMOVED_SAID, data, group=1, most=MOVES_MAX):
        if _is_file(path):
            yield path, ""


def _is_file(text: str) -> bool:
    """Tell a path from a word: it has a folder or an ending."""
    return "/" in text or "." in text.strip(".")


def _failed(text: str) -> bool:
    return stands(_FAILED, encoded(text))
