"""Token counts by tiktoken, with ranks that are found offline and checked against a pinned hash.

tiktoken downloads its ranks at first use, which an air-gapped pod cannot. The package `bpe-openai` ships
files equal to tiktoken's own; only these files are read, the hash is the one tiktoken itself checks.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import tiktoken

from actors.core.text.recent import Recent
from protocol.limits import COUNT_PIECE_CHARS

EncodingName = Literal["o200k_base", "cl100k_base"]

_HASHES: dict[EncodingName, str] = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""SHA-256 of the rank files, as pinned in tiktoken 0.14's `tiktoken_ext/openai_public.py`."""

_PATTERNS: dict[EncodingName, str] = {
    "o200k_base": "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
        r"|\s+(?!\S)|\s"
    ),
}
"""Copies of tiktoken's own; a test compares them."""

_LOOK_AHEAD = r"|\s+(?!\S)"

_VALUES_MAX = 16_384
_VALUE_CHARS_MAX = 256
"""Values and names recur for as long as a conversation lives: so many that came newest, and as many before them. Of
three times as many one conversation finds 1 % more again (41 %), and sixteen by turns in narrow windows 12 % (57 %)."""

_HASHES_MAX = 8_192
"""Of longer texts, which recur as often: each compaction asks for every request and step of an account again. Their
hashes are kept, so that what this takes (3 MB at most) does not depend on them."""

_BLOCKS_CHARS_MIN = 4_096
_BLOCK = "\n#"
"""Begins a block of a long text, behind its line end: a request or a step of an account, a part of a page. No
tokenizer here joins a line end with what follows it, but for blanks and slashes: blocks are counted alone."""


_LAST_CHARS_MAX = 200
"""Of a block, in which a space is looked for behind which its line end matters."""


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Which encoding counts, and whether it is the model's own or only stands in for it."""

    encoding: EncodingName
    estimate: bool

    @property
    def id(self) -> str:
        """Return the tokenizer's id for commits: encoding, its ranks, and whether counts are estimates."""
        return f"{self.encoding}@{_HASHES[self.encoding][:12]}{'~estimate' if self.estimate else ''}"


@lru_cache(maxsize=256)
def tokenizer_for(model: str) -> Tokenizer:
    """Return the tokenizer of *model*. Other vendors' models are counted by o200k_base, as an estimate."""
    name = model.rpartition("/")[2].lower()
    if not name:
        return Tokenizer(encoding="o200k_base", estimate=False)
    try:
        found = tiktoken.encoding_name_for_model(name)
    except KeyError:
        return Tokenizer(encoding="o200k_base", estimate=True)
    if found == "cl100k_base":
        return Tokenizer(encoding="cl100k_base", estimate=False)
    return Tokenizer(encoding="o200k_base", estimate=found not in ("o200k_base", "o200k_harmony"))


class TokenCounter:
    """Count texts by one encoding; equal texts are counted once. A text is data: it holds no special tokens."""

    def __init__(self, encoding: EncodingName) -> None:
        self._encoding = load(encoding)
        self._values: Recent[str, int] = Recent(_VALUES_MAX)
        self._hashes: Recent[bytes, int] = Recent(_HASHES_MAX)

    def __call__(self, text: str) -> int:
        """Return the tokens of *text*, exact up to one token for each piece of a very long one."""
        if len(text) < _BLOCKS_CHARS_MIN:
            return self._block(text)
        if len(text) > COUNT_PIECE_CHARS:
            pieces = range(0, len(text), COUNT_PIECE_CHARS)
            return sum([self._piece(text[start : start + COUNT_PIECE_CHARS]) for start in pieces])
        return self._piece(text)

    def _piece(self, text: str) -> int:
        if _BLOCK not in text:
            return self._block(text)
        first, *others = text.split(_BLOCK)
        last = others.pop()
        blocks = (first, *(f"#{one}" for one in others))
        return sum(map(self._ended, blocks)) + self._block(f"#{last}")

    def _ended(self, block: str) -> int:
        """Return the tokens of *block* with its line end: one more, behind what no tokenizer joins with it.

        Without its line end it is mostly known: an account counts each step when it is written.
        """
        if (end := block[-1:]).isascii() and end.isalnum():
            return self._block(block) + 1
        last = _last_words(block)
        return self._block(block) - self._block(last) + self._block(f"{last}\n")

    def _block(self, text: str) -> int:
        if len(text) <= _VALUE_CHARS_MAX:
            return self._values.found(text, self._encoded)
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self._hashes.found(key, lambda _: self._encoded(text))

    def _encoded(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


@lru_cache(maxsize=2)
def counter(encoding: EncodingName) -> TokenCounter:
    """Return the one counter of *encoding* in this process."""
    return TokenCounter(encoding)


@lru_cache(maxsize=2)
def load(name: EncodingName) -> tiktoken.Encoding:
    """Return tiktoken's own encoding *name*, made from the rank file once: that takes a quarter of a second."""
    raw = gzip.decompress((_data_folder() / f"{name}.tiktoken.gz").read_bytes())
    found = hashlib.sha256(raw).hexdigest()
    assert found == _HASHES[name], f"the ranks of {name} are not tiktoken's: {found}"
    lines = (line.partition(b" ") for line in raw.splitlines())
    ranks = {binascii.a2b_base64(token): int(rank) for token, _, rank in lines}
    return tiktoken.Encoding(name, pat_str=grouped(_PATTERNS[name]), mergeable_ranks=ranks, special_tokens={})


def _last_words(text: str) -> str:
    """Return the end of *text* that is counted alone: from a space behind a letter or digit on, where one is near."""
    place = len(text)
    while (place := text.rfind(" ", len(text) - _LAST_CHARS_MAX, place)) > 0:
        before = text[place - 1]
        if before.isascii() and before.isalnum():
            return text[place:]
    return text


def grouped(pattern: str) -> str:
    """Return *pattern* with all that stands before its look-ahead in one group: the same matches, a quarter sooner.

    What has no look-ahead tiktoken's engine gives to a finite automaton: a group at once, alternatives one by one.
    """
    before, look_ahead, behind = pattern.partition(_LOOK_AHEAD)
    return f"(?:{before}){look_ahead}{behind}"


def _data_folder() -> Path:
    # never imported: its module warns on some Pythons and loads 75 MB that are not needed
    spec = importlib.util.find_spec("bpe_openai")
    origin = spec.origin if spec else None
    assert origin is not None, "the package bpe-openai is missing"
    return Path(origin).parent / "data"
