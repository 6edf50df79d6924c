"""Tokens: counted as tiktoken counts, offline, and never a special token inside a text."""

from __future__ import annotations

import random
import time
from functools import cache
from typing import Any

import pytest
import tiktoken
import tiktoken_ext.openai_public  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from actors.core.entry import MESSAGE_TOKENS
from actors.core.written_words import ABORTED, ABORTED_TOKENS, BELOW, LATE, ORPHAN, ORPHAN_TOKENS, OVERDUE, RUNNING
from actors.model_info import tokens
from actors.model_info.tokens import EncodingName, TokenCounter, Tokenizer, counter, load, tokenizer_for
from protocol.limits import COUNT_PIECE_CHARS
from tests.laws import LAWS

ENCODINGS: tuple[EncodingName, ...] = ("o200k_base", "cl100k_base")


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Return tiktoken's own definitions, read without the ranks that it would download."""
    asked: dict[str, str] = {}

    def no_ranks(url: str, expected_hash: str) -> dict[bytes, int]:
        asked[url] = expected_hash
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", no_ranks)
    definitions: dict[str, dict[str, Any]] = {}
    for name in ENCODINGS:
        asked.clear()
        definitions[name] = getattr(tiktoken_ext.openai_public, name)() | {"hash": next(iter(asked.values()))}
    return definitions


@cache
def ungrouped(name: EncodingName) -> tiktoken.Encoding:
    """Return the encoding with tiktoken's own pattern."""
    ranks = tokens.load(name)._mergeable_ranks
    return tiktoken.Encoding(name, pat_str=tokens._PATTERNS[name], mergeable_ranks=ranks, special_tokens={})


@pytest.mark.parametrize("name", ENCODINGS)
def test_pattern_and_ranks_are_tiktokens_own(name: EncodingName, theirs: dict[str, dict[str, Any]]) -> None:
    assert tokens._PATTERNS[name] == theirs[name]["pat_str"]
    assert tokens._HASHES[name] == theirs[name]["hash"]


@pytest.mark.parametrize("name", ENCODINGS)
@LAWS
@given(text=st.text(max_size=60) | st.text(alphabet="aB1 \t\n\r'sd{\u00a0\u3000\u0301é日😀", max_size=60))
def test_the_grouped_pattern_finds_what_tiktokens_own_finds(name: EncodingName, text: str) -> None:
    assert tokens.load(name).encode_ordinary(text) == ungrouped(name).encode_ordinary(text)


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        ("tiktoken is great!", 6, 6),
    ],
)
def test_known_texts_have_known_counts(text: str, o200k: int, cl100k: int) -> None:
    assert (counter("o200k_base")(text), counter("cl100k_base")(text)) == (o200k, cl100k)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_special_token_in_a_text_is_text(name: EncodingName) -> None:
    assert counter(name)("<|endoftext|>") > 1


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_lone_surrogate_is_counted(name: EncodingName) -> None:
    assert counter(name)("\ud800") == counter(name)("\ufffd")


@pytest.mark.parametrize("text", [" " * 1_000_000, "\n" * 1_000_000, "a" * 300_000])
def test_a_very_long_run_is_counted_in_time(text: str) -> None:
    # of the processor, which others may be using too
    started = time.process_time()
    assert 0 < counter("o200k_base")(text) <= len(text)
    assert time.process_time() - started < 20


def test_a_long_text_is_counted_in_pieces_that_add_up_to_almost_the_whole() -> None:
    count = counter("o200k_base")
    line = "the order ORD-10042 was paid twice\n"
    text = line * (COUNT_PIECE_CHARS // len(line) + 50)
    exact = len(count._encoding.encode_ordinary(text))
    assert exact <= count(text) <= exact + 2  # a token for each of the two pieces


def test_counting_twice_gives_the_same() -> None:
    count = counter("o200k_base")
    assert count("again and again") == count("again and again") == 3
    assert counter("o200k_base") is count


@pytest.mark.parametrize(
    ("model", "encoding", "estimate"),
    [
        ("", "o200k_base", False),
        ("gpt-4o", "o200k_base", False),
        ("openai/gpt-4o-mini", "o200k_base", False),
        ("GPT-4o", "o200k_base", False),
        ("o3", "o200k_base", False),
        ("gpt-5", "o200k_base", False),
        ("gpt-oss-120b", "o200k_base", False),
        ("gpt-4", "cl100k_base", False),
        ("gpt-3.5-turbo", "cl100k_base", False),
        ("claude-sonnet-4", "o200k_base", True),
        ("anthropic/claude-opus-4", "o200k_base", True),
        ("text-davinci-003", "o200k_base", True),
        ("nobody-knows", "o200k_base", True),
        ("\ud800", "o200k_base", True),
    ],
)
def test_the_model_chooses_the_encoding(model: str, encoding: EncodingName, estimate: bool) -> None:
    assert tokenizer_for(model) == Tokenizer(encoding=encoding, estimate=estimate)


def test_a_commit_says_how_it_was_counted() -> None:
    assert [tokenizer_for(model).id for model in ("gpt-4o", "gpt-4", "claude-x")] == [
        "o200k_base@446a9538cb6c",
        "cl100k_base@223921b76ee9",
        "o200k_base@446a9538cb6c~estimate",
    ]


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_bounds_of_written_texts_hold(name: EncodingName) -> None:
    for text in (ABORTED, RUNNING, OVERDUE, BELOW):
        assert counter(name)(text) + MESSAGE_TOKENS <= ABORTED_TOKENS
    for lead in (ORPHAN, LATE):
        assert counter(name)(f"{lead}\n") <= ORPHAN_TOKENS


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_long_text_has_as_many_tokens_as_its_blocks(encoding: EncodingName) -> None:
    chance = random.Random(7)
    joints = [
        "\n#",
        " ",
        "\n",
        "\n\n",
        "\r\n",
        "/",
        "12",
        "word",
        " word",
        ";",
        "))",
        "\t",
        "。",
        "é",
        "  \n",
        "…",
        "'s",
    ]
    whole = load(encoding).encode_ordinary
    count = TokenCounter(encoding)
    for _ in range(100):
        text = "".join(chance.choices(joints, k=3_000))
        assert count(text) == len(whole(text))


@pytest.mark.parametrize("encoding", ENCODINGS)
@LAWS
@given(
    words=st.lists(st.sampled_from(("a", " b", " (c", ").", " '", "s", "/", " /", "\t", " \n", "1", " 23", "é", " 漢")))
)
def test_a_line_end_costs_a_block_what_it_costs_its_last_words(encoding: EncodingName, words: list[str]) -> None:
    block = "".join(words)
    assert TokenCounter(encoding)._ended(block) == len(load(encoding).encode_ordinary(f"{block}\n"))
