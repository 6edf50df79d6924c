"""Ids: whatever an agent calls its conversation, it is one safe token, and never another's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BadId
from protocol.ids import Address, Token, address, fresh_id, name_of, token, written_address
from tests.laws import LAWS

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

HOSTILE = [
    "a.b",
    "a b",
    ">",
    "*",
    "a.>",
    "x" * 65,
    "x" * 10_000,
    "\ud800",
    "Zoë",
    "日本",
    "\n",
    "\0",
    "a/b",
    "..",
    "e--",
    "h--x",
    "{{1}}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_becomes_a_safe_token(name: str) -> None:
    assert SAFE.match(token(name))
    assert token(name) != name


@pytest.mark.parametrize("name", ["a", "ticket-4312", "A_b-9", "x" * 64, "-", "e-", "h-"])
def test_a_safe_name_is_its_own_token(name: str) -> None:
    assert token(name) == name


def test_known_tokens_never_change() -> None:
    assert [token(name) for name in ("a.b", "e--YS5i", "x" * 65)] == [
        "e--YS5i",
        "e--ZS0tWVM1aQ",
        "h--lTfF_fEgSC99WNJentWD9SwCtOME6oFNsWM61WWu1-k",
    ]


@pytest.mark.parametrize("name", [*HOSTILE, "ticket-4312"])
def test_a_token_says_its_name_unless_it_was_hashed(name: str) -> None:
    assert name_of(token(name)) == (name if len(name) < 65 else token(name))


@pytest.mark.parametrize("text", ["e--", "e--a", "e--ab", "e--Zm9v", "e--é", "h--x", "e--_w", ""])
def test_what_is_no_token_of_ours_is_its_own_name(text: str) -> None:
    assert name_of(Token(text)) == text


def test_a_name_that_looks_encoded_is_not_taken_for_the_encoded_one() -> None:
    looks = token("a.b")
    assert len({token("a.b"), token(looks), token(token(looks))}) == 3


@given(st.sets(st.one_of(st.text(min_size=1), st.text("eh-.YS5i", min_size=1, max_size=9)), min_size=2, max_size=9))
@LAWS
def test_different_names_never_share_a_token(names: set[str]) -> None:
    assert len({token(name) for name in names}) == len(names)


@given(st.text(st.characters(), min_size=1, max_size=200))
@LAWS
def test_every_name_has_a_safe_token_and_keeps_it(name: str) -> None:
    assert SAFE.match(token(name))
    assert token(name) == token(name)


@pytest.mark.parametrize("name", ["", None, 7, b"a", ["a"]])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(BadId):
        token(name)  # type: ignore[arg-type]


def test_an_address_is_two_tokens() -> None:
    assert address("a.b") == Address(tenant=Token("default"), conversation=Token("e--YS5i"))
    assert str(address("c", "t")) == "t/c"


@pytest.mark.parametrize("name", [*HOSTILE, "plain"])
def test_a_printed_address_can_be_typed_back(name: str) -> None:
    at = address(name, name)
    assert written_address(str(at)) == at
    assert written_address(at.conversation) == Address(tenant=Token("default"), conversation=at.conversation)


def test_fresh_ids_differ_and_are_safe() -> None:
    made = {fresh_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(SAFE.match(ident) for ident in made)
