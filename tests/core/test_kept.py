"""Kept: what stays in memory of a conversation, and of what a process found out for all of them."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec

from actors.core.packed_items import NO_ITEMS, read_items, write_items
from actors.core.recent_ids import NO_IDS, among, with_newer
from actors.core.state import State
from actors.core.text import values
from actors.core.text.values import STEPS_KEPT_MAX, within
from actors.model_info import tokens
from actors.model_info.tokens import TokenCounter
from protocol.facts import DigestItem
from protocol.policy import resolve
from tests.builders import Talk
from tests.programs.bench.histories import history

ITEMS = (
    DigestItem(category="path", value="src/app/café.py", number=7, uses=64, trust="user"),
    DigestItem(category="setting", value="PORT=8080", number=9, key="setting port", gone=True),
)


def test_items_are_read_as_they_were_written() -> None:
    assert (read_items(write_items(ITEMS)), read_items(NO_ITEMS)) == (ITEMS, ())


def test_no_items_are_written_as_no_items() -> None:
    assert write_items(()) == NO_ITEMS


def test_an_id_is_among_the_newest_whatever_stands_in_it() -> None:
    kept = with_newer(with_newer(NO_IDS, ["old", "a\nb"], most=4), ['a"b', "é", ""], most=4)
    asked = ("old", "a\nb", 'a"b', "é", "", "a", "b", "\n", '"')
    assert [among(kept, one) for one in asked] == [False, True, True, True, True, False, False, False, False]


def test_more_ids_at_once_than_are_kept_leave_the_newest() -> None:
    assert with_newer(NO_IDS, map(str, range(100_000)), most=2) == b'\n"99998"\n"99999"\n'


def test_a_state_with_its_view_takes_less_than_three_times_its_snapshot() -> None:
    talk = Talk(resolve([{"budget": {"window": 32_000, "reserve": 0}}]))
    talk.append(*history(200_000))
    talk.settle()
    assert talk.state.digest is not None
    assert len(talk.state.ledger) > 500
    raw = msgspec.msgpack.encode(talk.state)
    talk.view()
    gc.collect()
    tracemalloc.start()
    talk.state = msgspec.msgpack.decode(raw, type=State)
    talk.view()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(raw) < taken < 3 * len(raw)


def test_a_path_of_very_many_steps_is_looked_into_and_not_remembered() -> None:
    steps = [f"s{index}" for index in range(STEPS_KEPT_MAX + 2)]
    before = values._within.cache_info().currsize
    found = set(within("/".join(steps)))
    assert {steps[0], steps[-1], "/".join(steps[1:]), "/".join(steps[:-1])} <= found
    assert values._within.cache_info().currsize == before


def test_a_counter_remembers_so_many_values_and_counts_what_it_forgot_alike() -> None:
    counted = TokenCounter("o200k_base")
    texts = [f"value-{index}" for index in range(3 * tokens._VALUES_MAX)]
    first = counted(texts[0])
    for text in texts:
        counted(text)
    assert len(counted._values) <= 2 * tokens._VALUES_MAX
    assert counted(texts[0]) == first
