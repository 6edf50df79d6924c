"""Repeated: what a request repeats of one that came a moment ago is neither read nor hashed again.

An agent sends its whole history each time. The bytes up to the first difference are compared, which costs a
thirtieth of reading them; what follows is read as JSON in the same place of the same object. So the same bytes give
the same request, whoever sent them before, and nothing is taken from one caller to another.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import msgspec
from cachetools import FIFOCache

from . import identity

BYTES_MIN = 32 * 1024
"""Of a request that is remembered: a smaller one is read in no time."""

BYTES_MAX = 64 * 2**20
"""Of all that are remembered."""

REQUESTS_MAX = 256
"""That are remembered; each counts as the part of the bytes that is its own then, however small it is."""

REVISED_MAX = 8
"""Messages at the end of a request that the next one has in another form: marks that moved, a reminder. One that
repeats less is a branch, and both are remembered."""

_GAP = re.compile(rb"\s*,\s*")

_MARK = b'"%s"' % secrets.token_hex(16).encode()
"""Stands for what is repeated; nobody can have written it."""


@dataclass
class Hashed:
    """The hashes of a request's messages, as far as they are known: those of the very same objects hold."""

    messages: Sequence[bytes] = ()
    hashes: Sequence[bytes] = ()
    chain: Sequence[bytes] = ()
    secret: bytes = b""

    def of(
        self,
        messages: Sequence[bytes],
        hash_of: Callable[[bytes], bytes],
        *,
        secret: bytes,
        earlier: identity.Earlier | None = None,
    ) -> tuple[tuple[bytes, ...], list[bytes]]:
        """Return the hashes of *messages*, and their chain below what stands *earlier*; remember both."""
        same = _same(self.messages, messages)
        hashes = (*self.hashes[:same], *map(hash_of, messages[same:]))
        if earlier:
            return hashes, identity.chain_of(hashes, secret=secret, earlier=earlier)
        known = list(self.chain[: same + 1]) if secret == self.secret else []
        chain = identity.chain_of(hashes, secret=secret, known=known)
        self.messages, self.hashes, self.chain, self.secret = messages, hashes, chain, secret
        return hashes, chain


class Parts(NamedTuple):
    """A request taken apart: its fields, the list among them as messages, and what is known of those."""

    fields: dict[str, bytes]
    """That of the list is empty."""
    listed: Sequence[bytes]
    hashed: Hashed


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A request that came: where its list begins, and what stood before it."""

    field: str
    before: bytes
    """All up to the first message."""
    fields: Mapping[str, bytes]
    gap: bytes
    """What stands between two messages."""
    listed: Sequence[bytes]
    hashed: Hashed
    size: int

    def repeated(self, raw: bytes) -> tuple[int, int]:
        """Return how many of its messages *raw* begins with, and where they end."""
        at = len(self.before)
        return _walked(raw, at, self.gap, self.listed) if raw.startswith(self.before) else (0, at)


@dataclass
class Repeated:
    """The requests that came last."""

    _seen: FIFOCache[int, _Seen] = field(default_factory=lambda: FIFOCache(BYTES_MAX, getsizeof=_room))
    """By their numbers: all are looked at for each request, so that none is used later than another."""
    _numbers: Iterator[int] = field(default_factory=count)

    def parts(self, raw: bytes, name: str) -> Parts | None:
        """Return the request *raw*, whose list is the field *name*; None if it repeats nothing that is known."""
        found, best, end = None, 0, 0
        for number in reversed([*self._seen]):
            one = self._seen[number]
            same, at = one.repeated(raw) if one.field == name else (0, 0)
            if same > best:
                found, best, end = number, same, at
                if same == len(one.listed):
                    break
        if found is None:
            return None
        seen = self._seen[found]
        more = _continued(raw[end:], name)
        if more is None:
            return None
        fields, new = more
        listed = (*seen.listed[:best], *new)
        known = seen.hashed
        hashed = Hashed(known.messages, known.hashes, known.chain, known.secret)
        if len(seen.listed) - best <= REVISED_MAX:
            del self._seen[found]
        if not new or _walked(raw, end + len(seen.gap), seen.gap, new)[0] == len(new):
            self._keep(replace(seen, listed=listed, hashed=hashed, size=len(raw)))
        return Parts({**seen.fields, **fields}, listed, hashed)

    def remember(self, raw: bytes, name: str, listed: Sequence[bytes]) -> Hashed:
        """Remember the request *raw*, whose field *name* holds *listed*; return where its hashes are to be kept."""
        hashed = Hashed()
        if len(raw) < BYTES_MIN or not listed:
            return hashed
        for opening in re.finditer(rb'"%s"\s*:\s*\[\s*' % name.encode(), raw):
            before, at = raw[: opening.end()], opening.end()
            between = _GAP.match(raw, at + len(listed[0]))
            gap = between.group() if between else b","
            fields = _fields(before + b"]}")
            if fields is not None and _walked(raw, at, gap, listed)[0] == len(listed):
                self._keep(
                    _Seen(
                        field=name,
                        before=before,
                        fields=fields,
                        gap=gap,
                        listed=tuple(listed),
                        hashed=hashed,
                        size=len(raw),
                    )
                )
                break
        return hashed

    def _keep(self, seen: _Seen) -> None:
        if _room(seen) <= BYTES_MAX:
            self._seen[next(self._numbers)] = seen  # the oldest make room


def _room(seen: _Seen) -> int:
    """Return the bytes that *seen* counts as."""
    return max(seen.size, BYTES_MAX // REQUESTS_MAX)


def _walked(raw: bytes, at: int, gap: bytes, listed: Sequence[bytes]) -> tuple[int, int]:
    """Return how many of *listed* stand in *raw* from *at* on, with *gap* between them, and where they end."""
    end, wide = at, len(gap)
    for number, one in enumerate(listed):
        if not raw.startswith(one, at):
            return number, end
        end = at + len(one)
        if not raw.startswith(gap, end):
            return number + 1, end
        at = end + wide
    return len(listed), end


def _continued(rest: bytes, name: str) -> tuple[dict[str, bytes], list[bytes]] | None:
    """Return the fields and messages in *rest*, which goes on behind a message of the list *name*.

    None where it is not read so: the list ends elsewhere, or comes twice.
    """
    fields = _fields(b'{"%s":[%s' % (name.encode(), _MARK) + rest)
    if fields is None or not fields[name].startswith(b"[" + _MARK):
        return None
    listed = msgspec.json.decode(fields[name], type=list[msgspec.Raw])
    fields[name] = b""
    return fields, [bytes(one) for one in listed[1:]]


def _fields(raw: bytes) -> dict[str, bytes] | None:
    try:
        return {name: bytes(value) for name, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _same(known: Sequence[bytes], messages: Sequence[bytes]) -> int:
    """Return how many messages at the beginning of both are the very same objects."""
    pairs = enumerate(zip(known, messages, strict=False))
    return next((at for at, (one, other) in pairs if one is not other), min(len(known), len(messages)))
