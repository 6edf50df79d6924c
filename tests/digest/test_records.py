"""Records: what an account tells of a JSON object that a tool looked up."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.excerpt import excerpt
from actors.core.text.gaps import GAP
from actors.core.text.told_table import shorter_table
from actors.digest.records import fields_of, is_record, record_in, record_text, shorter_record
from protocol.policy import resolve
from tests.builders import Talk, assistant, policy, result, user, words

from .test_account import called, play, told

BOOKING = {
    "flight_type": "round_trip",
    "cabin": "business",
    "flights": [{"origin": "DEN", "destination": "PHL", "number": "HAT080", "price": 537}],
    "payment_history": [{"payment_id": "gift_card_3481935", "amount": 4420}],
    "bags": 0,
    "note": "(none, as said]",
}


def nobody(_: str) -> float:
    return 0.0


def test_within_a_field_words_say_what_they_are_and_figures_are_named() -> None:
    assert record_text(BOOKING) == (
        "{flight_type round_trip, cabin business, flights [(DEN, PHL, HAT080, price 537)], "
        "payment_history [(gift_card_3481935, amount 4420)], bags 0, note (none, as said]}"
    )


def test_what_names_an_entry_stands_once() -> None:
    paid = {"methods": {"card_1": {"kind": "visa", "id": "card_1"}, "card_2": {"kind": "gift", "id": "card_2"}}}
    assert record_text(paid) == "{methods (card_1 (visa), card_2 (gift))}"


def test_a_shorter_record_keeps_the_fields_that_name_something_whole() -> None:
    short = shorter_record(record_text(BOOKING), chars=110, sought=nobody)
    assert short == "{flights [(DEN, PHL, HAT080, price 537)], payment_history [(gift_card_3481935, amount 4420)], …}"
    assert shorter_record(short, chars=60, sought=nobody) in (
        "{flights [(DEN, PHL, HAT080, price 537)], …}",
        "{payment_history [(gift_card_3481935, amount 4420)], …}",
    )


def test_a_shorter_record_keeps_what_was_used_later() -> None:
    used = {"cabin": 1.0, "business": 1.0}
    assert "cabin business" in shorter_record(record_text(BOOKING), chars=80, sought=lambda word: used.get(word, 0.0))


def test_a_shorter_record_keeps_the_fields_of_which_somebody_speaks() -> None:
    customer = record_text({"born": "1957-10-05", "membership": "regular", "loyalty_no": "L-99120", "since": "2014-02"})
    spoken = {"membership": 0.25}
    assert shorter_record(customer, chars=40, sought=lambda word: spoken.get(word, 0.0)).startswith("{membership")
    assert "membership" not in shorter_record(customer, chars=40, sought=nobody)


@given(
    record=st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=8,
    ),
    chars=st.integers(min_value=8, max_value=200),
)
def test_any_record_is_told_and_shortened_again_and_again(record: dict[str, Any], chars: int) -> None:
    short = record_text(record)
    for room in (chars, chars // 2 + 4, 8):
        short = shorter_record(short, chars=room, sought=nobody)
        assert len(short) <= max(room, len("{…}"))
        assert short.startswith("{")
        assert short.endswith("}")


@pytest.mark.parametrize(
    ("text", "one"), [("{a 1}", True), ("{a 1", False), ("a", False), ("", False), ("{\n}", False)]
)
def test_a_record_is_known_by_its_braces(text: str, one: bool) -> None:
    assert is_record(text) == one


def test_the_fields_of_an_answer_that_is_no_record_are_none() -> None:
    assert fields_of("[1, 2]") == [] == fields_of("plain") == fields_of("{") == fields_of('{"a": 1}')


def test_looked_up_records_keep_what_tells_them_apart_when_their_steps_are_joined() -> None:
    account = {"style": "account", "records": "fields", "cap": 0.45}
    talk = Talk(policy(1600, digest=account, target={"low_water": 0.6}))
    talk.append(user("Which card paid each of my bookings?"))
    for number in range(14):
        booking = BOOKING | {"payment_history": [{"payment_id": f"gift_card_{number}00", "amount": number}]}
        call = {"name": "get_booking", "arguments": json.dumps({"booking": f"BK{number}"})}
        talk.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            result(f"c{number}", json.dumps(booking)),
        )
        talk.settle()
    for _ in range(4):
        talk.append(assistant(words(200)), user("go on"))
        talk.settle()
    told = "\n".join(str(message["content"]) for message in talk.shown())
    assert "BK13 -> {" in told
    assert "payment_history [(gift_card_1300, amount 13)]" in told
    assert sum(f"gift_card_{number}00" in told for number in range(14)) >= 10


def test_of_a_field_those_entries_are_told_that_were_used() -> None:
    methods = {f"gift_card_{number}00": {"kind": "for presents", "amount": number} for number in range(1, 9)}
    record = record_text({"member": "silver", "payment_methods": methods, "note": "x" * 120})
    short = shorter_record(record, chars=200, sought=lambda word: float(word in ("gift_card_500", "gift_card_700")))
    told = re.findall(r"gift_card_\d00", short)
    assert told == ["gift_card_100", "gift_card_200", "gift_card_500", "gift_card_700"]


def test_what_an_entry_is_stands_in_its_name_alone() -> None:
    paid = {"gift_card_12": {"source": "gift_card", "id": "gift_card_12", "amount": 157}, "card_7": {"source": "bank"}}
    assert record_text({"paid": paid}) == "{paid (gift_card_12 (amount 157), card_7 (bank))}"
    assert record_text({"stock": {"100": {"left": "10"}}}) == "{stock (100 (10))}"
    assert record_text({"users": {"noah_3": {"login": "no"}}}) == "{users (noah_3 (no))}"


def test_of_a_list_the_row_is_told_that_a_record_names() -> None:
    account = {"style": "account", "records": "fields", "cap": 0.45}
    talk = Talk(policy(1800, digest=account, target={"low_water": 0.6}))
    booked = [f"HAT{number}80" for number in range(1, 5)]
    play(talk, user("Put all my bookings into economy."))
    for number, flight in enumerate(booked):
        booking = {"cabin": "business", "flights": [{"number": flight, "price": 900 + number}], "insurance": "yes"}
        play(talk, *called(number, "get_booking", json.dumps(booking), booking=f"BK{number}"))
    for number, flight in enumerate(booked):
        others = [f"HAT{number}{one}5" for one in range(1, 8)]
        flights = [
            {"number": one, "seats": 9, "price": 100 + at} for at, one in enumerate([*others[:4], flight, *others[4:]])
        ]
        play(talk, *called(10 + number, "search_flight", json.dumps(flights), date=f"2024-05-1{number}"))
    play(talk, *(message for at in range(20, 30) for message in (assistant(f"{at} {words(120)}"), user(f"go on {at}"))))
    shown = told(talk)
    assert [f"; {flight}, 104" in shown for flight in booked] == [True] * 4


def test_where_searches_are_joined_the_names_of_their_columns_stand_once() -> None:
    account = {"style": "account", "records": "fields", "cap": 0.45}
    talk = Talk(policy(2000, digest=account, target={"low_water": 0.6}))
    play(talk, user("Which of my flights are cheaper in economy?"))
    booked = [f"HAT{number}80" for number in range(1, 7)]
    for number, flight in enumerate(booked):
        booking = {"cabin": "business", "flights": [{"number": flight, "price": 900 + number}], "insurance": "yes"}
        play(talk, *called(number, "get_booking", json.dumps(booking), booking=f"BK{number}"))
    for number, flight in enumerate(booked):
        flights = [
            {"flight_number": one, "leaves": "13:00", "lands": lands, "prices": {"economy": 100 + at, "business": 333}}
            for at, (one, lands) in enumerate(
                [(f"HAT{number}15", "18:00"), (flight, "02:00+1"), (f"HAT{number}25", "9:00")]
            )
        ]
        play(talk, *called(10 + number, "search_flight", json.dumps(flights), date=f"2024-05-1{number}"))
    play(talk, *(message for at in range(20, 30) for message in (assistant(words(120)), user(f"go on {at}"))))
    shown = told(talk)
    assert [f"{flight}, 13:00, 02:00+1, (101, 333)" in shown for flight in booked] == [True] * 6
    assert shown.count("(flight_number, leaves, lands, prices (economy, business)):") == 1


def test_a_list_of_one_record_is_told_as_this_record() -> None:
    found = json.dumps([BOOKING])
    assert record_in(found, listed=True) == BOOKING
    assert record_in(found, listed=False) == {} == record_in(json.dumps([BOOKING] * 2), listed=True)
    assert record_in("[]", listed=True) == {} == record_in("[[]]", listed=True)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"pump": 1}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize("records", ["fields", "lines"])
@pytest.mark.parametrize("depth", [99, 150, 199, 240, 300, 900])
def test_calls_and_results_that_are_however_deep_are_told(records: str, depth: int) -> None:
    layer = {"digest": {"style": "account", "records": records, "cap": 0.45}}
    of = Talk(resolve([{"budget": {"window": 3_000, "reserve": 0}}, layer]))
    record = json.dumps({"id": "station-7", "state": "dry", "depth": 3, "since": "May", "of": nested(depth)})
    play(of, user("Look at it."), *called(1, "put", "ok", rows=[nested(depth)] * 2), *called(2, "get", record))
    play(of, *(message for at in range(3, 40) for message in called(at, "read", f"Pump {at} is dry. " * 60)))
    assert "put" in told(of)


def test_of_a_table_that_is_told_shorter_once_more_the_names_of_odd_rows_stay() -> None:
    table = "NAME  READY  STATUS  AGE\n" + "\n".join(
        f"pump-{at:04}-south  {at % 2}/1  {'Crashed' if at in (3, 7, 8, 9) else 'Running'}  {at}d" for at in range(20)
    )
    told = excerpt(table, chars=300, sought=lambda _: 0.0, clauses=True)
    assert "pump-0003-south  1/1  Crashed  3d" in told
    for chars in (260, 220, 180):
        told = shorter_table(told, chars)
        assert len(told) <= chars
        assert all(f"pump-{at:04}-south" in told for at in (3, 7, 8, 9)), told
        assert told.endswith("(20 rows: STATUS Running x16, Crashed x4)")
    assert shorter_table(told.replace("Crashed x4)", "Crashed x4; READY 1/1 x20)"), 190).count("Crashed: ") == 1
    short = shorter_table(told, 110)
    assert (
        short
        == "(of the rows: Crashed: pump-0003-south, pump-0007-south, …)\n(20 rows: STATUS Running x16, Crashed x4)"
    )
    rows = "south  pump-1  Crashed\nnorth  pump-2  Ready\nsouth  pump-3  Ready"
    of_places = f"{rows}\n(9 rows: south x8, north x1; Ready x8, Crashed x1)"
    assert "(of the rows: Crashed: pump-1; north: pump-2)" in shorter_table(of_places, 104)
    assert shorter_table("one\ntwo\n(3 rows: in each a)", 100) == ""


def test_rows_of_a_table_that_is_told_shorter_do_not_look_as_if_they_followed_each_other() -> None:
    rows = f"NAME  STATUS\na-1  Crashed\nb-2{'-of-many' * 9}  Ready\nc-3  Crashed …\nd-4  Crashed"
    summary = "(90 rows: Ready x87, Crashed x3)"
    told = f"{GAP} a-1  Crashed {GAP}\nc-3  Crashed {GAP}\nd-4  Crashed\n{summary}"
    assert shorter_table(f"{rows}\n{summary}", 100) == told


@given(st.lists(st.text(alphabet="ab :;,x4()…|\t", max_size=12), max_size=8), st.integers(1, 300))
def test_no_names_however_odd_make_a_told_table_too_long(lines: list[str], chars: int) -> None:
    outcome = "\n".join([*lines, f"(of the rows: {', '.join(lines)})", "(9 rows: STATUS a x7, b x2)"])
    assert len(shorter_table(outcome, chars)) <= chars
