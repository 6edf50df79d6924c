"""What several say, in any script: whose words they are, and what of them stays where there is little room."""

from __future__ import annotations

import re

import pytest

from actors.core.account_text import JOINED_LEVEL
from actors.core.text.excerpt import sentences_excerpt
from actors.core.text.gaps import GAP
from actors.core.text.phrases import says_why
from actors.core.text.table import with_rows
from actors.digest.joined_steps import joined
from actors.digest.pieces import PIECES, PIECES_CHARS_MAX, pieces, told_shortly
from actors.digest.records import without_ids
from actors.digest.repeats import Repeats
from actors.digest.requests import shortened
from actors.digest.step_rooms import DENSE_CHARS, LEVEL_CHARS, Rooms, room_in
from protocol.account import AccountAct, AccountRequest, AccountStep
from tests.builders import COUNT, user

from .test_account import Message, account, called, play, said, told
from .test_account_room import report, talk

LETTER = AccountRequest(
    number=8,
    text="Good morning. The post is here, and it rains again. The cat sleeps on the lease, as usual. "
    "We pay no deposit, not even 100, before we have seen it. My sister says hello. She has painted her door green. "
    "It was blue before. The offer A-25-3306 is 64,900 without the loader. "
    "We ate cake, and it was very good. Then the sun came out for a while. What do I have to bring?",
)

FILLING = [report(at, sentences=8) for at in range(18)]


def named(text: str, name: str) -> Message:
    return {**user(text), "name": name}


def nobody(_: str) -> float:
    return 0.0


def step(at: int, said_: str, speaker: str = "", **more: object) -> AccountStep:
    return AccountStep(first=at, last=at, said=said_, speaker=speaker, **more)  # type: ignore[arg-type]


def joined_of(*steps: AccountStep, room: int = 0) -> AccountStep:
    return joined(steps, told=(), rules_3=True, sought=nobody, is_linked=lambda _: False, room=room)


def test_what_a_program_printed_is_no_request_though_a_user_says_it() -> None:
    ran = "exitcode: 1 (execution failed)\nCode output: KeyError: 'adult_3_12'"
    of = play(talk(2_000), user("Count the ferries."), named(ran, "terminal"), named("Drop line 604.", "nives"))
    play(of, *FILLING, user("Go on."), *FILLING)
    assert [one.text for one in account(of).requests if "exitcode" in one.text] == []
    assert "KeyError" in told(of)
    assert any("Drop line 604" in one.text for one in account(of).requests)


@pytest.mark.parametrize("name", ["", "nora"])
def test_a_user_who_begins_with_an_output_is_heard(name: str) -> None:
    asked = "$ make\nerror: no rule. Why is that, and who knows it?"
    of = play(talk(2_000), user("Count the ferries."), named(asked, name) if name else user(asked))
    play(of, *FILLING, user("Go on."), *FILLING)
    assert any("Why is that" in one.text for one in account(of).requests)


def test_a_message_that_is_nothing_but_an_image_is_a_request() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/boat.png"}}
    of = play(talk(2_000), user("Find this boat."), {"role": "user", "content": [image]}, *FILLING)
    play(of, user("Go on."), *FILLING)
    assert 2 in {one.number for one in account(of).requests}


def test_where_several_are_joined_their_names_stand_with_what_they_said() -> None:
    one = joined_of(
        step(3, "Because the file was replaced, all prices are wrong.", "critic"), step(4, "Fixed it.", "coder")
    )
    assert one.said == f"critic: Because the file was replaced, all prices are wrong.{PIECES}coder: Fixed it."
    again = joined_of(one, step(5, "We decided to leave out 604.", "planner"))
    assert again.said == f"{one.said}{PIECES}planner: We decided to leave out 604."


def test_more_is_told_of_what_many_said_where_there_is_room_and_only_of_what_tells_something() -> None:
    telling = [f"The pump {at} failed because valve {at * 7} was shut, and so we must replace it." for at in range(12)]
    idle = [f"Let us look at that now, {'so ' * at}please." for at in range(12)]
    told_ = pieces([*telling, *idle], (), rules_3=True, room=5 * PIECES_CHARS_MAX)
    assert sum(one in told_ for one in telling) >= 10
    assert sum(one in told_ for one in idle) <= 1
    assert len(pieces([*telling, *idle], (), rules_3=True)) < 2 * PIECES_CHARS_MAX


def test_no_program_is_told_of_what_was_said_where_steps_are_joined() -> None:
    words = "Keyed by leg now. ```python import csv def load(f): return list(csv.reader(open(f))) ```"
    assert told_shortly(words, nobody, report=False) == f"Keyed by leg now. {GAP}"
    assert told_shortly("```python import csv ```", nobody, report=False) == ""
    assert joined_of(step(3, "```python import csv ```"), step(4, "It is 7.")).said == f"It is 7.{PIECES}(1 more)"


@pytest.mark.parametrize(
    "said",
    [
        "Wrap it in ``` please. The root cause is that prod ran out of disk at 04:12.",
        "print(x)\n```\nThe root cause is that prod ran out of disk at 04:12.",
        "```\nTotal due: 4,812.50 EUR on 2026-11-30\n```",
    ],
)
def test_what_stands_between_fences_and_is_no_program_is_told(said: str) -> None:
    assert re.search(r"04:12|4,812\.50", told_shortly(said, nobody, report=False))


def test_a_name_stands_before_all_that_somebody_said_and_what_is_told_is_not_told_again() -> None:
    both = joined_of(step(3, "Run it with tcp / udp, because both fail.", "critic"), step(4, "Fixed.", "coder"))
    assert both.said == f"critic: Run it with tcp/udp, because both fail.{PIECES}coder: Fixed."
    said = "We must not ship before 604 is shut."
    two = (step(3, said, "critic"), step(4, "Fixed it.", "coder"))
    for known in (said, f"critic: {said}"):
        one = joined(two, told=(known,), rules_3=True, sought=nobody, is_linked=lambda _: False)
        assert one.said == f"coder: Fixed it.{PIECES}(1 more)"


def test_a_note_is_told_as_what_the_assistant_said() -> None:
    note = "RS Vision 1386: 1,795 direct, H. Prentice; buoyancy test passed, since the slip is of September."
    of = play(talk(2_000), user("Find a boat."), *called(0, "note", "ok, note 1 saved", text=note), *FILLING)
    (kept,) = [one for one in account(of).steps if one.first == 2]
    assert note in kept.said
    assert "note 1 saved" not in told(of)


def test_a_note_that_was_not_taken_says_so() -> None:
    failed = "Error: the notebook is full"
    of = play(talk(2_000), user("Find a boat."), *called(0, "note", failed, text="Vision: 1,795."), *FILLING)
    assert "the notebook is full" in told(of)


@pytest.mark.parametrize("tool", ["get_notes", "search_memory", "note"])
def test_what_a_tool_for_notes_returns_is_told(tool: str) -> None:
    found = "The lease ends on 31 March. " + "The landlord is Brockmann, and he makes flats of it. " * 6
    of = play(talk(2_000), user("Find a shop."), *called(0, tool, found, text="lease"), *FILLING)
    assert "31 March" in told(of)


def test_an_empty_cell_keeps_its_place() -> None:
    assert with_rows("|  | Q1 |\n|---|---|\n| Cost |  |") == "- | Q1:\nCost | -;"
    assert with_rows("We leave at noon;\n|---|---|") == "We leave at noon;"


@pytest.mark.parametrize("text", ["Tôi đã đặt phòng ở Huế", "ἐν ἀρχῇ ἦν ὁ λόγος", "❤️✔️☑️ done", "\ud800\ud801 x"])
def test_other_letters_have_the_room_of_english_ones(text: str) -> None:
    assert room_in(text, 300) == 300


def test_a_heading_alone_is_worth_nothing_and_one_with_its_rule_is() -> None:
    text = (
        "I looked at the list once more, as before. ## Constraints Never delete the tables of 2024 in prod. "
        "The rest is as it was before, and I then read the third list, which was much like the first one."
    )
    assert "Never delete the tables" in sentences_excerpt(text, chars=90, sought=nobody, clauses=True)


def test_rows_of_a_table_stay_apart_on_one_line() -> None:
    table = "Prices:\n\n| Boat | Price |\n|---|---|\n| Vision | 1,795 |\n| Wanderer | 1,300 |\n\nBoth reef."
    assert " ".join(with_rows(table).split()) == "Prices: Boat | Price: Vision | 1,795; Wanderer | 1,300; Both reef."
    assert with_rows("a | b\nno table") == "a | b\nno table"


@pytest.mark.parametrize("text", ["在庫がマイナスになる原因が固まりました", "재고가 마이너스가 되는 원인이 밝혀졌다"])
def test_a_dense_script_has_less_room_in_letters(text: str) -> None:
    assert room_in("plain", 300) == 300
    assert room_in(text * 9, 300) <= 300 // DENSE_CHARS + 40
    act = AccountAct(call="bash", outcome=text * 40)
    rooms = (Rooms(step(1, "", acts=(act,)), 2, LEVEL_CHARS, rules_3=fields) for fields in (True, False))
    ours, before = (room.outcome(act, 4) for room in rooms)
    assert ours < before / 2


def test_why_something_is_so_is_told_before_what_was_done() -> None:
    text = "I looked at the list once more. The stock is wrong because the old worker still runs. I opened the file."
    assert sentences_excerpt(text, chars=70, sought=nobody, clauses=True).strip(f"{GAP} ") in (
        "The stock is wrong because the old worker still runs."
    )


@pytest.mark.parametrize(("said", "why"), [("I rented a car.", False), ("It runs, because the old one does.", True)])
def test_a_reason_is_told_by_its_words(said: str, why: bool) -> None:
    assert says_why(said) is why


def test_of_a_long_request_the_sentences_stay_that_tell_most() -> None:
    short = shortened(LETTER, COUNT(LETTER.text) // 2, COUNT)
    assert "We pay no deposit, not even 100, before we have seen it." in short.text
    assert "A-25-3306 is 64,900" in short.text
    assert "painted her door" not in short.text
    assert short.text.endswith("What do I have to bring?")
    (gone,) = re.findall(r"\[… ([\d,]+) characters: read_artifact\(\"messages:8\"\) …\]", short.text)
    shown = re.sub(r"\[….*?…\]", "", short.text).replace(GAP, "")
    assert abs(len(LETTER.text) - len(shown) - int(gone)) < 20


@pytest.mark.parametrize("mark", ["[… , characters", f"[… {'9' * 5_000} characters", "[… 5,000 characters"])
@pytest.mark.parametrize("by_sentences", [True, False])
def test_a_mark_that_a_user_wrote_is_his_own(mark: str, by_sentences: bool) -> None:
    own = f'{mark}: read_artifact("messages:2") …]'
    long = AccountRequest(number=3, text=f"See {own} for it. " + "The pump runs dry because nobody looks. " * 90)
    short = shortened(long, 200, COUNT, rules_3=by_sentences)
    (gone,) = re.findall(r"\[… ([\d,]+) characters: read_artifact\(\"messages:3\"\) …\]", short.text)
    assert int(gone.replace(",", "")) < len(long.text)


def test_a_request_does_not_refer_to_what_a_program_printed() -> None:
    rules = "\n".join(f"rule {at}: never book seat {at * 37} on the ferry before noon has come" for at in range(6))
    ran = f"exitcode: 0 (execution succeeded)\nCode output:\n{rules}"
    of = play(talk(2_000), user(f"Count the ferries by these rules:\n{rules}"), FILLING[0], named(ran, "terminal"))
    play(of, *FILLING, user("Go on."), *FILLING)
    assert "seat 185" in account(of).requests[0].text


def test_what_is_shortened_by_sentences_again_says_once_how_much_is_gone() -> None:
    once = shortened(LETTER, COUNT(LETTER.text) * 8 // 10, COUNT)
    twice = shortened(once, COUNT(LETTER.text) // 2, COUNT)
    assert once.text.count("read_artifact") == twice.text.count("read_artifact") == 1
    assert f"{GAP} {GAP}" not in twice.text


def test_a_log_is_cut_in_its_middle() -> None:
    log = AccountRequest(number=2, text="\n".join(f"[{at}] src/a_{at}.cpp:{at}: done={at}; x={{}}" for at in range(80)))
    assert shortened(log, 200, COUNT) == shortened(log, 200, COUNT, rules_3=False)


def test_an_id_that_several_records_have_stands_in_the_first() -> None:
    first, known = without_ids("{user_id daiki_1116, cabin economy}", set())
    assert first == "{user_id daiki_1116, cabin economy}"
    assert without_ids("{user_id daiki_1116, cabin economy}", known)[0] == "{cabin economy, …}"
    assert without_ids("{user_id daiki_1116}", known)[0] == "{user_id daiki_1116}"
    bill = "{due 2026-11-30, amount 1250.00, state open}"
    assert without_ids(bill, without_ids(bill, set())[1])[0] == bill


def test_the_head_of_a_table_stays_with_its_rows_though_another_has_the_same() -> None:
    head = "| Boat with its trailer | Price in pounds, by its owner | Year in which it was built |"
    table = f"Prices:\n{head}\n|---|---|---|\n| Vision | 1,795 | 2019 |"
    later = said(f"{table}\n\nAll of them were looked at once more, and nothing else is known. " * 2, name="Critic")
    of = play(talk(2_000), user("Find a boat."), said(table, name="Finder"), later, *FILLING)
    (first,) = [one for one in account(of).steps if one.first == 2]
    assert "Price in pounds" in first.said


def test_what_tells_something_stays_where_it_was_said_though_it_is_said_again() -> None:
    found = "The root cause is that valve 604 was shut by night shift C, and nobody noticed it."
    assert Repeats(lines={found: 9}).without_later(f"{found}\nIt failed.", number=5) == f"{found}\nIt failed."
    alone = "1. Search the archive for papers on the regulation of AI of June 2022."
    assert Repeats(lines={alone: 9}).without_later(alone, number=5) == alone


def test_a_line_that_is_said_again_later_leaves_where_it_was_said_first() -> None:
    plan = "1. Search the archive for papers on the regulation of AI of June 2022."
    repeats = Repeats(lines={plan: 9})
    assert repeats.without_later(f"It failed.\n{plan}", number=5) == f"It failed.\n{GAP}"
    assert repeats.without_later(f"It failed.\n{plan}", number=9) == f"It failed.\n{plan}"


def test_a_joined_step_that_says_nothing_is_none_the_worse() -> None:
    one = joined_of(step(3, "", acts=(AccountAct(call="ls"),)), step(4, "", acts=(AccountAct(call="ls"),)))
    assert (one.said, one.level, one.acts[0].times) == ("", JOINED_LEVEL, 2)
