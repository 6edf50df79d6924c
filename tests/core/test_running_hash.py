"""Running: a hash of what grows is the hash of all of it."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from actors.core.running_hash import RunningHash
from protocol.facts import CompactionRequested
from tests.builders import Talk, assistant, policy, system, user, words
from tests.laws import LAWS

ARRAYS = st.lists(st.lists(st.sampled_from((b"1", b"{}", b'"a"')), max_size=6), max_size=8)


@LAWS
@given(ARRAYS)
def test_whatever_was_hashed_before_the_hash_is_that_of_the_whole_array(arrays: list[list[bytes]]) -> None:
    running = RunningHash()
    for items in arrays:
        expected = hashlib.sha256(b"[" + b",".join(items) + b"]").hexdigest()
        assert running.of(tuple(items)) == expected


def test_views_that_grow_shrink_and_change_are_proved_by_the_hash_of_their_bytes() -> None:
    talk = Talk(policy(1000))
    talk.play(system("s"))
    levels = set()
    for number in range(30):
        talk.play(user(words(40)), assistant(f"answer {number}"))
        for budget in (None, 300, None):
            view = talk.view(budget)
            levels.add(view.level)
            assert view.hash == hashlib.sha256(view.body).hexdigest()
    talk.say(CompactionRequested(budget=400))
    talk.settle()
    view = talk.view()
    assert view.hash == hashlib.sha256(view.body).hexdigest()
    assert len(levels) > 1
