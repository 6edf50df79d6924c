"""Ledger: what was said once outlives every compaction until something newer takes its place."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.core import extract
from actors.core import ledger as ledgers
from actors.core.entry import Entry
from actors.core.extract import score
from actors.core.file_moves import Move
from actors.core.ledger import LEDGER_CHARS_MAX, LEDGER_ITEMS_MAX, changes, remembered, settled
from actors.core.packed_items import NO_ITEMS, read_items, write_items
from protocol.facts import CompactionRequested, DigestItem, HistoryDigested, Trust
from tests.builders import Talk, assistant, policy, result, user, words

ROOT = Path(__file__).resolve().parent.parent.parent


def item(
    value: str, number: int = 1, *, category: str = "id", uses: int = 1, trust: Trust = "tool", key: str = ""
) -> DigestItem:
    return DigestItem(category=category, value=value, number=number, uses=uses, trust=trust, key=key)


def bounded(items: Iterable[DigestItem]) -> tuple[DigestItem, ...]:
    return read_items(remembered(NO_ITEMS, tuple(items)))


def setting(value: str, number: int, trust: Trust = "tool") -> DigestItem:
    return item(value, number, category="setting", trust=trust, key=f"setting {value.partition('=')[0]}")


def test_equal_values_are_one_with_all_uses_the_newest_message_and_the_highest_trust() -> None:
    known = [item("A-100", 1, uses=3, trust="user")]
    assert settled(known, [item("A-100", 7, uses=2)], {}) == (item("A-100", 7, uses=5, trust="user"),)


def test_a_newer_value_of_the_same_key_takes_the_place_of_the_older() -> None:
    assert settled([setting("port=8080", 1)], [setting("port=9090", 5)], {}) == (setting("port=9090", 5),)


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [("user", "tool", True), ("user", "assistant", True), ("user", "user", False), ("tool", "assistant", False)],
)
def test_only_who_is_trusted_as_much_takes_a_value_back(old: Trust, new: Trust, stays: bool) -> None:
    kept = settled([setting("port=8080", 1, old)], [setting("port=9090", 5, new)], {})
    assert (setting("port=8080", 1, old) in kept) is stays


def test_the_path_of_a_file_that_went_away_leaves_until_it_is_seen_again() -> None:
    moved = {"src/a.py": Move(path="src/a.py", now="", number=4)}
    assert settled([item("src/a.py", 2, category="path")], [], moved) == ()
    again = item("src/a.py", 6, category="path")
    assert settled([again], [], moved) == (again,)


def test_changes_are_what_leads_from_one_ledger_to_the_next() -> None:
    before = (item("A-100"), setting("port=8080", 1), item("B-200", 2))
    after = settled(before, [setting("port=9090", 5), item("B-200", 6), item("C-300", 6)], {})
    found = changes(write_items(before), after)
    assert {(one.value, one.gone) for one in found} == {
        ("port=8080", True), ("port=9090", False), ("B-200", False), ("C-300", False),
    }  # fmt: skip
    assert set(read_items(remembered(write_items(before), found))) == set(after)
    assert changes(write_items(after), after) == ()


def test_over_its_bound_the_least_worthy_leave() -> None:
    spoken = item("SPOKEN-1", 1, uses=64, trust="user")
    many = [item(f"ID-{number:05}", 2) for number in range(LEDGER_ITEMS_MAX + 10)]
    kept = bounded([spoken, *many])
    assert len(kept) == LEDGER_ITEMS_MAX
    assert spoken in kept
    assert bounded(kept) == kept


def test_many_long_sentences_are_bounded_by_their_length() -> None:
    kept = bounded([item("x" * 7_990 + str(number), number, category="request") for number in range(100)])
    assert sum(len(one.value) for one in kept) <= ledgers.LEDGER_CHARS_MAX


def cycles(often: int, *, block: Any) -> Talk:
    """Return a conversation that was compacted *often* times at least, each block said by *block*."""
    talk = Talk(policy(2000, spill={"share": 1.0, "medium": 1.0}))
    number = 0
    while sum(isinstance(fact, HistoryDigested) for fact in talk.facts) < often:
        number += 1
        talk.play(*block(number))
        assert number < 40 * often
    return talk


def test_twenty_compactions_in_a_row_lose_nothing_that_was_not_superseded() -> None:
    def block(number: int) -> list[dict[str, Any]]:
        ident = f"c{number}"
        return [
            user(f"Look at ORD-{number:05} with port={8000 + number}, and never drop table_{number}."),
            assistant(f"I will use plan_{number}.", ident),
            result(ident, f"{words(120)} /srv/data/file_{number}.log"),
        ]

    talk = cycles(20, block=block)
    ledger = {one.value for one in talk.state.ledger}
    shown = "\n".join(message["content"] or "" for message in talk.shown())
    assert talk.state.digest is not None
    for number in range(1, talk.state.digest.through // 3):
        for value in (f"ORD-{number:05}", f"table_{number}", f"plan_{number}", f"/srv/data/file_{number}.log"):
            assert value in ledger or value in shown, value
    assert len([value for value in ledger if value.startswith("port=")]) == 1


def test_an_item_that_did_not_fit_comes_back_when_there_is_room() -> None:
    many = " ".join(f"ORD-{number:05}" for number in range(100))
    talk = Talk(policy(8000, spill={"share": 1.0, "medium": 1.0}))
    talk.say(CompactionRequested(budget=1000))
    talk.play(user(many), *(user(words(100)) for _ in range(9)))
    assert talk.state.digest is not None
    small = {one.value for one in talk.state.digest.items}
    talk.say(CompactionRequested(budget=0))
    talk.play(*(user(words(100)) for _ in range(80)))
    large = {one.value for one in talk.state.digest.items}
    assert {f"ORD-{number:05}" for number in range(100)} - small
    assert {f"ORD-{number:05}" for number in range(100)} <= large


def test_a_compaction_reads_what_is_new_and_the_bounded_ledger_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    found_in = extract.found_in

    def counted(entries: tuple[Entry, ...]) -> Any:
        read.extend(entry.number for entry in entries)
        return found_in(entries)

    monkeypatch.setattr(ledgers, "found_in", counted)
    cycles(20, block=lambda number: [user(f"ORD-{number:05} {words(60)}")])
    assert len(read) == len(set(read)) > 20


def test_a_renamed_file_leaves_the_ledger() -> None:
    said = [
        user("read src/old_name.py"),
        assistant(None, "c", arguments='{"cmd": "git mv src/old_name.py src/new.py"}'),
    ]
    talk = Talk(policy(1000, spill={"share": 1.0, "medium": 1.0}))
    talk.play(said[0], *(user(words(100)) for _ in range(9)))
    assert "src/old_name.py" in {one.value for one in talk.state.ledger}
    talk.play(said[1], result("c", ""), *(user(words(100)) for _ in range(9)))
    by = {(one.category, one.value) for one in talk.state.ledger}
    assert ("path", "src/old_name.py") not in by
    assert {("path", "src/new.py"), ("moved", "src/old_name.py -> src/new.py")} <= by


SCRIPT = """
import hashlib
from protocol import codec
from tests.builders import Talk, policy, sample
talk = Talk(policy(6000))
talk.play(*sample())
print(hashlib.sha256(b"".join(codec.encode_commit(one) for one in talk.commits)).hexdigest())
"""


def test_hash_seed_locale_and_time_zone_change_no_byte() -> None:
    def printed(**environment: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=os.environ | environment, cwd=ROOT,
            capture_output=True, text=True, timeout=180, check=True,
        )  # fmt: skip
        return run.stdout

    first = printed(PYTHONHASHSEED="0", LC_ALL="C", TZ="UTC")
    assert first == printed(PYTHONHASHSEED="4711", LC_ALL="tr_TR.UTF-8", TZ="Asia/Kathmandu")


def plainly_bounded(items: tuple[DigestItem, ...]) -> tuple[DigestItem, ...]:
    """Return what `bounded` must keep, the slow way: all are ranked, one by one."""
    newest = max(item.number for item in items)
    order = sorted(items, key=lambda one: (-score(one, newest), -one.number, one.category, one.value))
    kept, left = set[DigestItem](), LEDGER_CHARS_MAX
    for item in order[:LEDGER_ITEMS_MAX]:
        if len(item.value) <= left:
            left -= len(item.value)
            kept.add(item)
    return tuple(item for item in items if item in kept)


@pytest.mark.parametrize("chars", [8, 70, 400])
def test_the_bound_keeps_what_ranking_each_item_keeps(chars: int) -> None:
    chance = random.Random(chars)
    items = tuple(
        DigestItem(
            category=chance.choice(("path", "error", "url")),
            value=f"{place}{'x' * chance.randrange(chars)}",
            number=chance.randrange(1, 40),
            uses=chance.randrange(1, 4),
        )
        for place in range(LEDGER_ITEMS_MAX + 300)
    )
    found = bounded(items)
    assert 0 < len(found) < len(items)
    assert found == plainly_bounded(items)


@pytest.mark.parametrize("chars", [8, 120])
def test_a_ledger_that_is_taken_on_is_the_one_that_is_made_anew(chars: int) -> None:
    chance = random.Random(chars)
    raw, plain = NO_ITEMS, tuple[DigestItem, ...]()
    older: list[tuple[bytes, tuple[DigestItem, ...]]] = []
    for number in range(1, 40):
        said = tuple(
            DigestItem(
                category=chance.choice(("path", "error", "url")),
                value=f"{chance.randrange(3_000)}{'x' * chance.randrange(chars)}",
                number=number - chance.randrange(min(number, 3)),
                uses=chance.randrange(1, 4),
                gone=chance.random() < 0.1,
            )
            for _ in range(300)
        )
        if number % 9 == 0:
            raw, plain = older[-4]  # as where a conversation goes back
        kept = {(one.category, one.value): one for one in plain}
        for one in said:
            kept.pop((one.category, one.value), None)
            if not one.gone:
                kept[one.category, one.value] = one
        raw, plain = remembered(raw, said), plainly_bounded(tuple(kept.values()))
        assert read_items(raw) == plain
        older.append((raw, plain))
    assert len(plain) == LEDGER_ITEMS_MAX or sum(len(one.value) for one in plain) > LEDGER_CHARS_MAX - chars
