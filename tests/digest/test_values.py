"""Values that no step tells: which they are, and how they stand."""

from __future__ import annotations

import json

import msgspec
import pytest

from actors.core.account_text import account_text
from actors.core.entry import ShownPart
from actors.core.extract import SPOKEN
from actors.digest.values import values_beside
from protocol.account import Account, AccountValue
from protocol.facts import DigestItem
from tests.builders import user

from .test_account import account, called, looks, play, said
from .test_account_room import talk


def test_of_the_links_of_one_page_a_few_are_seen() -> None:
    page = "\n".join(f"* [Wiki {at}](https://site-{at}.example.org/start)" for at in range(40))
    of = play(talk(2_500), user("Read it."), said(page), *looks(2, 12))
    assert 1 <= sum(one.text.count("://") for one in account(of).values) <= 2


def test_what_was_seen_in_one_message_stands_on_one_line_in_its_order() -> None:
    seen = tuple(
        AccountValue(number=number, value=text, text=text)
        for number, text in ((3, "flight F7"), (3, "price $102"), (9, "gate B4"))
    )
    of = Account(values=seen)
    assert "\n#3 flight F7 · price $102\n#9 gate B4\n" in account_text(of, prose="", through=9, form=3)
    assert "\n#3 flight F7\n#3 price $102\n#9 gate B4\n" in account_text(of, prose="", through=9, form=2)
    with pytest.raises(AssertionError):
        account_text(of, prose="", through=9, form=4)


def test_what_goes_on_where_the_one_before_ends_is_seen_as_one() -> None:
    texts = ("LICENSE Makefile README.md", "Makefile README.md RELEASE.md", "RELEASE.md VERSION", "go on", "on top")
    seen = tuple(AccountValue(number=4, value=text, text=text) for text in texts)
    told = account_text(Account(values=seen), prose="", through=9, form=3)
    assert "\n#4 LICENSE Makefile README.md RELEASE.md VERSION · go on · on top\n" in told


def test_of_a_listing_a_few_are_seen_and_no_switch_of_a_call() -> None:
    listing = "\n".join(f"/srv/pumps/station_{at}/log_{at * 7}.csv" for at in range(40))
    of = play(talk(2_500), user("Find it."), *called(1, "bash", listing, command="find /srv", blocking=False, cwd=None))
    play(of, *looks(2, 12))
    assert sum(one.text.startswith("/srv/pumps/") for one in account(of).values) <= 2
    assert not any("blocking" in one.text or "cwd" in one.text for one in account(of).values)


def test_a_name_that_nobody_took_up_is_no_value() -> None:
    names = {"tokenVolumeProjected": 40, "rackOfPumps": 2, "stationOfPumps": SPOKEN + 40}
    known = [DigestItem(category="symbol", value=name, number=9, uses=uses) for name, uses in names.items()]
    stood = [AccountValue(number=9, value=name, text=f"mounted from {name} (ro)") for name in names]
    found = values_beside(tuple(known), (), stood, told=Account(), standing="", room=1_000, count=len, rules_3=True)
    assert [one.value for one in found] == ["stationOfPumps"]


def test_what_is_a_part_of_another_fragment_of_its_message_is_not_seen_beside_it() -> None:
    row = "VALUES ('anna', '$2a$10$92IXUNpkjO0rOQ5', 'ADMIN');"
    texts = {"$2": "VALUES ('anna', '$2", "$2a$10": "VALUES ('anna', '$2a$10", "92IXUNpkjO0rOQ5": row}
    known = [
        DigestItem(category="setting", value=value, number=number, uses=SPOKEN + uses)
        for uses, (value, number) in enumerate([("92IXUNpkjO0rOQ5", 9), ("$2a$10", 9), ("$2", 9)])
    ]
    known.append(DigestItem(category="setting", value="$2b", number=4, uses=SPOKEN))
    stood = [AccountValue(number=9, value=value, text=text) for value, text in texts.items()]
    stood.append(AccountValue(number=4, value="$2b", text="('anna', '$2b"))
    for port in ("port 80", "port 8080"):
        known.append(DigestItem(category="setting", value=port, number=12, uses=SPOKEN))
        stood.append(AccountValue(number=12, value=port, text=port))
    found = values_beside(tuple(known), (), stood, told=Account(), standing="", room=1_000, count=len, rules_3=True)
    assert [(one.number, one.text) for one in found][:2] == [(4, "('anna', '$2b"), (9, row)]
    assert {one.text for one in found[2:]} == {"port 80", "port 8080"}


@pytest.mark.parametrize("is_shortened", [False, True])
@pytest.mark.parametrize(("speaker", "values"), [("Searcher", 0), ("", 1)])
def test_a_value_that_an_assistant_printed_for_a_tool_is_none_either(
    speaker: str, values: int, is_shortened: bool
) -> None:
    row = "order ORD-00101 paid with card_0000101"
    of = play(
        talk(2_500),
        user("Find it."),
        said(f"exitcode: 0 (execution succeeded)\n{row}", **{"name": speaker} if speaker else {}),
    )
    *above, entry = of.state.live
    if is_shortened:
        # in place, since it is old
        short = ShownPart(pointer=entry.parts[0].pointer, raw=f"[Shortened; the whole: …]\n{row}".encode(), tokens=9)
        entry = msgspec.structs.replace(entry, shown=(short,))
    known = (DigestItem(category="id", value="ORD-00101", number=2, uses=SPOKEN),)
    found = values_beside(known, (*above, entry), (), told=Account(), standing="", room=99, count=len, rules_3=True)
    assert [one.text for one in found] == [row] * values


def test_a_value_of_a_list_is_seen_with_the_titles_that_it_stands_below() -> None:
    offer = "\n".join(
        f"{at}. **Option {at}:**\n   - **Flight 1:** DEN to LAS\n     - Flight Number: HAT{at}84\n     - Price: ${at}12"
        for at in range(1, 5)
    )
    entry = play(talk(9_000), user("What is there?"), said(offer)).state.live[-1]
    known = tuple(DigestItem(category="id", value=f"HAT{at}84", number=2, uses=SPOKEN) for at in range(1, 5))
    found = values_beside(known, (entry,), (), told=Account(), standing="", room=999, count=len, rules_3=True)
    assert [one.text for one in found] == [
        f"{at}. Option {at}: Flight 1: DEN to LAS: Flight Number: HAT{at}84" for at in range(1, 5)
    ]


@pytest.mark.parametrize(
    ("listed", "value", "seen"),
    [
        ("- Rejected options:\n  - HAT184\n- Booked flight: HAT284", "HAT284", "Booked flight: HAT284"),
        ("Cancelled:\n- HAT184\nI booked another one.\n- HAT284 on Monday", "HAT284", "HAT284 on Monday"),
        ("Refunds:\n- -$12.50 to card 7", "$12.50", "Refunds: -$12.50 to card 7"),
        ("###\n- HAT284 on Monday", "HAT284", "HAT284 on Monday"),
        ("Changed:\n- src/**/*.ts of all", "src/**/*.ts", "Changed: src/**/*.ts of all"),
    ],
)
def test_no_value_is_seen_below_a_title_that_is_not_its_own(listed: str, value: str, seen: str) -> None:
    entry = play(talk(9_000), user("What is there?"), said(listed)).state.live[-1]
    known = (DigestItem(category="id", value=value, number=2, uses=SPOKEN),)
    (found,) = values_beside(known, (entry,), (), told=Account(), standing="", room=999, count=len, rules_3=True)
    assert found.text == seen


def seen_in(text: str, value: str, category: str = "amount") -> str:
    """Return how *value* is seen, of the assistant's *text* that leaves."""
    of = play(talk(60_000), user("Go."), said(text))
    known = (DigestItem(category=category, value=value, number=2, uses=SPOKEN),)
    found = values_beside(known, of.state.live, (), told=Account(), standing="", room=1_000, count=len, rules_3=True)
    return found[0].text if found else ""


def test_a_value_in_prose_is_seen_with_its_whole_sentence_over_lines_that_were_broken() -> None:
    text = (
        "It rains in the mountains. Whoever starts at the new site at six reaches the home by bus in fifteen\n"
        "to 18 minutes. Loading takes about 15\nminutes. After that nobody waits."
    )
    assert seen_in(text, "18 minutes") == (
        "Whoever starts at the new site at six reaches the home by bus in fifteen to 18 minutes."
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (
            "- The tent costs 2,150 Euro with a floor. The other one is dearer than that, and has no floor at all.",
            "The tent costs 2,150 Euro with a floor. The other one is",
        ),
        (
            f"{'so ' * 80}it costs 2,150 Euro{' and so' * 40}.",
            "so so so so so so so so it costs 2,150 Euro and so and so and so and so and so",
        ),
        ("tent | 2,150 Euro | with floor", "tent | 2,150 Euro | with floor"),
        (
            "All in all, with a floor and the men who build it, it costs 2,150 Euro and is due when the feast is over",
            "and the men who build it, it costs 2,150 Euro and is due when the feast is over",
        ),
        (
            "## What the tents of the northern meadow cost us\n\n2,150 Euro are due in May.",
            "2,150 Euro are due in May.",
        ),
        (
            "What the tents of the northern meadow cost us\n\nThe tent costs 2,150 Euro.",
            "The tent costs 2,150 Euro.",
        ),
        (
            "> What the tents of the northern meadow cost us\nall in all is 2,150 Euro.",
            "all in all is 2,150 Euro.",
        ),
    ],
)
def test_what_is_no_sentence_or_too_long_is_seen_with_what_stands_beside_it(text: str, seen: str) -> None:
    assert seen_in(text, "2,150 Euro") == seen


def test_of_a_very_long_line_the_sentence_is_seen_as_of_a_short_one() -> None:
    line = " ".join(f"Pump number {at} of this station costs {at + 4_000} Euro with its valve." for at in range(3_000))
    assert seen_in(line, "5500 Euro") == "Pump number 1500 of this station costs 5500 Euro with its valve."


def test_how_far_something_came_a_quotient_and_the_head_of_a_table_are_no_values() -> None:
    assert seen_in("96/114 Test conformance passed.", "96/114", "path") == ""
    assert seen_in("total = 7; ax.bar(k, v/1000, color=up)", "v/1000", "path") == ""
    assert (
        seen_in("| bought_as | channel | method |\n|---|---|---|\n| shop | web | card |", "bought_as", "symbol") == ""
    )


@pytest.mark.parametrize(
    ("text", "value", "category"),
    [
        ("See docs/2024 for it.", "docs/2024", "path"),
        ("The invoice is 2024/0815 of May.", "2024/0815", "path"),
        ("The invoice is 0815/2024 of May.", "0815/2024", "path"),
        ("It was paid in 12/2024.", "12/2024", "path"),
        ("We cut release/2.4 today; Anna tests it.", "release/2.4", "path"),
        ("Anna(QA) takes release/2.4 today.", "release/2.4", "path"),
        ("* We cut release/2.4 today for Anna.", "release/2.4", "path"),
        ("# Merged pull/1742 into main", "pull/1742", "path"),
        ("| pump | valve_open | 7 |", "valve_open", "symbol"),
    ],
)
def test_what_only_looks_like_one_is_a_value(text: str, value: str, category: str) -> None:
    assert value in seen_in(text, value, category)


def test_a_field_of_a_record_is_seen_without_the_one_above_it() -> None:
    fields = {"note": f"the tent stands on the meadow, and has {'a good ' * 30}floor", "asked": "2,150 Euro in all."}
    of = play(talk(60_000), user("Go."), *called(1, "look_up", json.dumps(fields), order="T-7"))
    known = (DigestItem(category="amount", value="2,150 Euro", number=3, uses=SPOKEN),)
    (one,) = values_beside(known, of.state.live, (), told=Account(), standing="", room=99, count=len, rules_3=True)
    assert one.text.endswith("asked 2,150 Euro in all.")
    assert "meadow" not in one.text
