"""A diff names every message of either version once, and its numbers add up."""

from __future__ import annotations

import time
from itertools import combinations, pairwise

import pytest

from actors.audit.diff import diff, text_diff
from actors.runtime.fold import decisions, tokens_of
from protocol.errors import NotFound
from protocol.facts import HistoryDigested
from tests.audit.recorded import recorded
from tests.builders import Talk, assistant, policy, result, user, words


def did(talk: Talk, older: int, newer: int) -> dict[int, str]:
    return {row.number: row.did for row in diff(talk.at, talk.records, older=older, newer=newer).rows}


def test_what_a_digest_stands_for_is_digested_and_the_rest_is_kept() -> None:
    talk = recorded()
    for last, one in pairwise(decisions(talk.at, talk.records)):
        if any(isinstance(fact, HistoryDigested) for fact in one.commit.facts):
            before = {entry.number for entry in last.after.entries}
            after = {entry.number for entry in one.after.entries}
            wanted = dict.fromkeys(before, "kept") | dict.fromkeys(after - before, "new")
            wanted |= dict.fromkeys({0, *(before - after)}, "digested")
            assert did(talk, last.commit.version, one.commit.version) == wanted


def test_equal_versions_differ_in_nothing() -> None:
    talk = recorded()
    found = diff(talk.at, talk.records, older=30, newer=30)
    assert {row.did for row in found.rows} == {"kept"}
    assert (found.stages, found.tokens.before) == ({}, found.tokens.after)


def test_a_spilled_and_a_shortened_result_are_told_apart() -> None:
    talk = Talk(policy(8000))
    lines = "\n".join(f"line {number} is fine" for number in range(100))
    talk.play(user("look"), assistant(None, "a", "b"), result("a", words(2000)), result("b", lines))
    assert did(talk, 1, talk.state.version) == {1: "new", 2: "new", 3: "spilled", 4: "shortened"}


def test_the_order_of_the_two_versions_does_not_matter() -> None:
    talk = recorded()
    there = diff(talk.at, talk.records, older=20, newer=60)
    assert there == diff(talk.at, talk.records, older=60, newer=20)


def test_all_messages_of_either_view_are_there_once_and_the_tokens_add_up() -> None:
    talk = recorded()
    states = {one.commit.version: one.after for one in decisions(talk.at, talk.records)}
    for older, newer in combinations(sorted(states)[::9], 2):
        found = diff(talk.at, talk.records, older=older, newer=newer)
        numbers = [row.number for row in found.rows]
        either = {entry.number for version in (older, newer) for entry in states[version].entries}
        assert len(numbers) == len(set(numbers))
        assert either <= set(numbers)
        assert sum(found.stages.values()) == tokens_of(states[newer]) - tokens_of(states[older])
        assert found.tokens.after - found.tokens.before == sum(found.stages.values())
        changes = [change.after - change.before for change in found.categories.values()]
        assert sum(changes) == sum(found.stages.values())
        for row in found.rows:
            assert row.did == "kept" or row.version or row.did == "new", row


@pytest.mark.parametrize(("older", "newer"), [(0, 3), (3, 10_000), (-5, 2)])
def test_a_version_that_is_not_there_is_refused(older: int, newer: int) -> None:
    talk = recorded()
    with pytest.raises(NotFound, match="no version"):
        diff(talk.at, talk.records, older=older, newer=newer)


def test_a_change_inside_a_message_is_shown_line_by_line() -> None:
    assert text_diff("a\nb\nc", "a\nB\nc") == ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"]
    assert text_diff("same", "same") == []


def test_a_huge_change_costs_bounded_time() -> None:
    before = ["ab" if number % 3 else "ba" for number in range(60_000)]
    started = time.process_time()
    lines = text_diff("\n".join(before), "\n".join(before[1:]))
    assert time.process_time() - started < 2
    assert {line[0] for line in lines} == {"@", "-", "+"}
