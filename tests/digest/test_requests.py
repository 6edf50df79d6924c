"""Of what the user said: what leaves, and what is shortened, where there is no room for all of it."""

from __future__ import annotations

import itertools
import re

import pytest

from actors.core.request_marks import as_said
from actors.digest.repeated_requests import referring, said_before, staying_of, with_lines_of, without_repeats
from actors.digest.requests import REQUEST_TOKENS, within
from protocol.account import AccountRequest
from protocol.policy import resolve
from tests.builders import COUNT, Talk, user

from .test_account import account, called, play

TASK = AccountRequest(
    number=2,
    text="Plan our feast for 350 guests on the meadow, with everything that it needs. " * 4
    + "Never spend more than 9,400 Euro. In the end I need a plan for the board.",
)
ORDERS = [
    AccountRequest(number=10, text="We decided to take the tent of Huber, it costs 2,150 Euro with a floor."),
    AccountRequest(number=12, text="The order for the current has the number BA-26-11873."),
]
FILLERS = [AccountRequest(number=20 + 2 * at, text=f"And how is the weather in week {at}?") for at in range(30)]
LAST = AccountRequest(number=90, text="What do I have to do next?")


def tokens(requests: list[AccountRequest] | tuple[AccountRequest, ...]) -> int:
    return sum(COUNT(one.text) + REQUEST_TOKENS for one in requests)


def test_questions_leave_before_the_task_is_shortened_or_a_decision_leaves() -> None:
    said = [TASK, *ORDERS, *FILLERS, LAST]
    room = tokens([TASK, *ORDERS, LAST]) + 40
    kept = within(said, room, count=COUNT)
    assert {TASK, *ORDERS, LAST} <= set(kept)
    assert tokens(kept) <= room


def test_the_task_stays_whole_while_what_was_told_later_can_leave() -> None:
    told = [AccountRequest(number=20 + 2 * at, text=f"Number {at} costs us {at}50 Euro a week.") for at in range(40)]
    kept = within([TASK, *told, LAST], 3 * tokens([TASK]) + 20, count=COUNT)
    assert kept[0] == TASK
    assert kept[1:-1] == tuple(told[-len(kept[1:-1]) :])


def test_what_is_shortened_twice_says_how_much_is_gone_and_is_cut_between_words() -> None:
    long = AccountRequest(number=2, text=" ".join(f"word{number}" for number in range(400)))
    once = within([long, LAST], 400, count=COUNT)
    twice = within(once, 160, count=COUNT)
    for kept in (once[0].text, twice[0].text):
        (mark,) = re.findall(r"\[… ([\d,]+) characters", kept)
        shown = re.sub(r"\[….*?…\]", "", kept)
        assert abs(len(long.text) - len(shown) - int(mark.replace(",", ""))) < 8
        assert set(shown.split()) <= set(long.text.split())


def test_what_is_said_again_is_known_whatever_the_case_of_its_letters() -> None:
    before = [AccountRequest(number=at, text=text) for at, text in enumerate(("Stop!", "Weiße Straße", "go on "))]
    assert said_before(" GO ON", before) == 2
    assert said_before("WEISSE STRASSE", before) == 1
    assert said_before("go", before) is None


def test_a_pasted_demonstration_takes_little_room_from_the_task_whose_words_it_has() -> None:
    rules = "\n".join(
        f"Rule {at}: before you mend pump {at}, close valve {at * 7919 % 997} by hand." for at in range(9)
    )
    past = "\n".join(f"{at} the pump of station {at} was opened at depth {at * 37 % 101}" for at in range(400))
    shown = f"This shows how such a task is done:\n{rules}\n--- IT BEGINS ---\n{past}\n--- IT ENDS ---"
    layer = {"digest": {"style": "account", "records": "fields", "cap": 0.45}}
    of = Talk(resolve([{"budget": {"window": 5_000, "reserve": 0}}, layer]))
    play(of, user(shown), user(f"Mend the pumps of the south.\n{rules}\nNow begin."))
    for at in range(12):
        play(of, *called(at, "read", past[at * 90 : at * 90 + 900], f"I look at pump {at}. " * 12))
    (pattern,) = [one.text for one in account(of).requests if one.number == 1]
    assert "Rule 1:" not in pattern
    assert 'read_artifact("messages:1")' in pattern
    assert pattern.endswith("--- IT ENDS ---")
    assert COUNT(pattern) <= 0.2 * 0.3 * 5_000 + 60
    assert f"Mend the pumps of the south.\n{rules}" in "\n".join(str(one["content"]) for one in of.shown())


INSTRUCTIONS = "\n".join(f"{at}. When asked about pump {at}, ALWAYS use valve_{at * 37} first." for at in range(1, 12))


def test_instructions_that_stand_in_a_message_that_stays_stand_once() -> None:
    """Some agents put the same instructions behind everything that a user says."""
    of = play(Talk(resolve([{"budget": {"window": 4_000, "reserve": 0}}])), user(f"Look at the pumps.\n{INSTRUCTIONS}"))
    looks = [one for at in range(30) for one in called(at, "read", "x1 " * 150, path=f"pump_{at}.md")]
    play(of, *looks, user(f"continue\n{INSTRUCTIONS}"), *called(40, "read", "x2 " * 150, path="pump_40.md"))
    play(of, *[one for at in range(50, 54) for one in called(at, "read", "x3 " * 150, path=f"pump_{at}.md")])
    shown = "\n".join(str(message["content"]) for message in of.shown())
    assert shown.count("valve_370 first") == 1
    words = "1. When asked about pump 1, ALWAYS use"
    assert f'#1: Look at the pumps.\n[here "{words}…", as in the user\'s message #62 below, lines 2-12]' in shown
    play(of, user("Now the valves."))
    play(of, *[one for at in range(60, 90) for one in called(at, "read", "x4 " * 150, path=f"pump_{at}.md")])
    shown = "\n".join(str(message["content"]) for message in of.shown())
    # what it referred to is a request now, and refers to the first
    assert shown.count("valve_370 first") == 1
    assert "#1: Look at the pumps.\n1. When asked about pump 1," in shown
    assert "#62: continue\n[here as in #1]" in shown


def test_what_was_said_at_length_before_a_question_is_no_question() -> None:
    plan = "First comes the letter to the bank with the plan in it, then the order for the oven. " * 4
    asked = AccountRequest(number=14, text=f"{plan}What is the sum now?")
    kept = within([TASK, asked, *FILLERS, LAST], tokens([TASK, asked, LAST]) + 60, count=COUNT)
    assert asked.number in {one.number for one in kept}
    before = within([TASK, asked, *FILLERS, LAST], tokens([TASK, asked, LAST]) + 60, count=COUNT, rules_3=False)
    assert asked.number not in {one.number for one in before}


def test_the_newest_messages_outlast_older_ones_that_say_as_much() -> None:
    told = [AccountRequest(number=20 + 2 * at, text=f"Number {at} costs us {at}50 Euro a week.") for at in range(20)]
    newest = [AccountRequest(number=80 + at, text=f"I walked the dog, and met {one}.") for at, one in enumerate("AB")]
    room = tokens([TASK, *told, LAST]) - 40
    assert set(newest) <= set(within([TASK, *told, *newest, LAST], room, count=COUNT))
    assert not set(newest) & set(within([TASK, *told, *newest, LAST], room, count=COUNT, rules_3=False))


def test_of_a_long_message_those_sentences_stay_of_which_the_assistant_spoke_later() -> None:
    sentences = [f"The quote of firm {at} is {at * 731 + 2_000} Euro for the roof." for at in range(30)]
    long = AccountRequest(number=2, text=" ".join(["Here are all of them.", *sentences, "What do you think?"]))

    def used(text: str, *, after: int) -> int:
        return after == 2 and ("firm 7 " in text or "firm 19 " in text)

    (kept,) = within([long], 160, count=COUNT, used=used)
    assert sentences[7] in kept.text
    assert sentences[19] in kept.text
    assert sentences[28] not in kept.text


def test_in_a_talk_the_first_message_is_shortened_before_all_others_are() -> None:
    letter = " ".join(f"Condition {at} of the town is that gate {at * 7} stays shut by night." for at in range(60))
    first = AccountRequest(number=2, text=f"Here is what the town writes. {letter} What do I need to know?")
    told = [AccountRequest(number=10 + at, text=f"Firm {at} takes {at}50 Euro, and we take it.") for at in range(20)]
    room = tokens([first, *told, LAST]) - tokens([first]) // 2
    kept = within([first, *told, LAST], room, count=COUNT)
    assert kept[1:] == (*told, LAST)
    assert 300 < tokens(kept[:1]) < tokens([first]) // 2 + 60
    few = [AccountRequest(number=10 + at, text="We take it, and we pay in May. " * 30) for at in range(4)]
    assert within([first, *few, LAST], tokens([first, *few, LAST]) - 300, count=COUNT)[0] == first


def test_for_a_few_tokens_too_many_no_message_leaves() -> None:
    idle = "The dog sleeps under the table of the kitchen while the rain falls down on the roof of the old house. "
    dense = "Quote DV-{at}-0418-B: 6960.{at} EUR, 2088.{at} EUR first, by 2026-05-{at}. "
    # what stays of each has more tokens to a character than what leaves
    long = [
        AccountRequest(number=at, text=idle * 4 + "".join(dense.format(at=at + one) for one in range(2 + at % 5)))
        for at in range(10, 28)
    ]
    for room in range(2_640, tokens(long), 3):
        assert len(within([TASK, *long, LAST], room, count=COUNT)) == len(long) + 2


@pytest.mark.parametrize("idles", [11, 30, 100])
def test_small_talk_makes_no_talk_of_a_task(idles: int) -> None:
    task = AccountRequest(number=2, text=" ".join(f"Step {at}: build part {at * 7} of gate {at}." for at in range(90)))
    idle = [AccountRequest(number=10 + at, text=f"And how is the weather in week {at}?") for at in range(idles)]
    kept = within([task, *idle, LAST], tokens([task, LAST]) + 60, count=COUNT)
    assert kept[0] == task
    assert tokens(kept) <= tokens([task, LAST]) + 60


def letter(number: int, sentences: int = 40) -> AccountRequest:
    told = " ".join(f"In week {at + number} we pay {at * 37 + number} Euro for the gate." for at in range(sentences))
    return AccountRequest(
        number=number, text=f"Dear Ann,\n\n{told}\n\nYours\nTom Miller\nGates Ltd\n---\n\nWhat shall I answer?"
    )


def test_in_a_talk_more_stays_of_newer_letters_than_of_older_ones() -> None:
    letters = [letter(10 + at) for at in range(16)]
    kept = within([TASK, *letters, LAST], tokens(letters) // 2, count=COUNT)
    assert len(kept) == len(letters) + 2
    sizes = [tokens([one]) for one in kept[1:-1]]
    assert sizes == sorted(sizes) or all(later > 0.8 * before for before, later in itertools.pairwise(sizes))
    assert 2 < sizes[-1] / sizes[0] < 4


def test_of_a_task_with_few_messages_all_letters_have_the_same_room() -> None:
    letters = [letter(10 + at) for at in range(6)]
    kept = within([TASK, *letters, LAST], tokens(letters) // 2, count=COUNT)
    sizes = [tokens([one]) for one in kept[1:-1]]
    assert max(sizes) < 1.3 * min(sizes)


GREETINGS = "".join(f"Dear {name},\n" for name in ("Ann", "Tom", "Eve", "Max", "Ida", "Leo", "Zoe"))
"""Lines that end without a full stop, and are more than a letter's sentences."""


@pytest.mark.parametrize("greetings", ["", GREETINGS])
@pytest.mark.parametrize(
    "more", ["", ", and for the door behind it, which the wind has torn out of its wall in the winter"]
)
def test_a_letter_is_shortened_by_whole_sentences_however_often(greetings: str, more: str) -> None:
    told = " ".join(
        f"In week {at} we pay {at * 37} Euro for the gate at the mill, and so much again for lock and key{more}."
        for at in range(5)
    )
    whole = AccountRequest(number=20, text=f"{greetings}{told} What shall I answer to them?")
    short = whole
    for tokens_left in range(180, 60, -10):
        (short,) = within([short], tokens_left, count=COUNT)
    assert sentences_in(short.text) <= 2
    told_in = re.sub(r'\[… [\d,]+ characters: read_artifact\("messages:20"\) …\]', "…", short.text)
    pieces = [piece.strip() for piece in told_in.split("…") if piece.strip()]
    assert all(piece in whole.text and not piece[-1].isalnum() for piece in pieces), pieces


def sentences_in(text: str) -> int:
    return text.count("for the gate at the mill")


@pytest.mark.parametrize("end", ["\n\nYours\nTom Miller\nGates Ltd", "\n\nYours truly\nTom Miller\nGates Ltd\n---"])
def test_of_a_letter_at_the_end_who_wrote_it_stays_and_not_its_greetings(end: str) -> None:
    close = "I hope the dog is well, and all of you are."
    text = f"{letter(20).text.partition(chr(10) * 2 + 'Yours')[0]} {close}{end}"
    (short,) = within([AccountRequest(number=20, text=text)], 300, count=COUNT)
    assert short.text.endswith(end.rpartition("\n")[2])
    assert close not in short.text
    assert "Euro for the gate." in short.text


@pytest.mark.parametrize(
    "end",
    [
        *(" by 12.", " please!!", " please", " please 🙂", " please ...", " please\nand do it before we all go home"),
        *(".\nThanks", ".\n\nThanks a lot", ".\nTom", ".\nDo it now", ".\nASAP", ".\nDanke\nTom", '.\nDo not use "we"'),
        *(".\n---", ".\n谢谢", ".\n要正式一些，不要太长", "\n要正式一些\n不要太长\n用中文写", ".\nASAP\n---"),
        *(".\nkeep it plain\nno long words\nuse plain English", ":\n1. polite tone\n2. one page\n3. sign as Tom"),
        ".\n- short\n- formal\n- by Friday",
    ],
)
def test_what_the_user_wants_stays_however_it_ends(end: str) -> None:
    wanted = "Forget what I wrote about the gate, and write me a letter to the mayor about the road."
    text = f"{letter(20).text.partition(chr(10) * 2 + 'Yours')[0]} {wanted} Keep it short{end}"
    (short,) = within([AccountRequest(number=20, text=text)], 300, count=COUNT)
    assert wanted in short.text


def test_a_gap_that_the_user_typed_is_none_of_ours() -> None:
    text = f"Hmm… {'so i went down to the quarry and looked at the stones again ' * 40}. Thanks a lot."
    (short,) = within([AccountRequest(number=20, text=text)], 200, count=COUNT)
    assert short.text.startswith("Hmm… so i went down to the quarry")


@pytest.mark.parametrize("line", ["10:00:00 worker {} started", "- step {} of the plan", "tea {} pieces"])
def test_of_a_log_or_a_list_the_ends_stay(line: str) -> None:
    lines = "\n".join(line.format(at) for at in range(300))
    text = f"Look at this. It did not end well.\n{lines}\nThe last one is the worst.\nTell me what it means."
    (short,) = within([AccountRequest(number=20, text=text)], 300, count=COUNT)
    assert short.text.startswith("Look at this. It did not end well.")
    assert line.format(299) in short.text
    assert short.text.count("…") == 2


def test_a_program_with_short_lines_is_no_letter() -> None:
    lines = "\n".join(f"load part {at}\nand add it to sum" for at in range(60))
    text = f"Here is what I ran today. It did not end.\n```\n{lines}\n```\nWhat is wrong with it? Please tell me."
    (_, short, _) = within([TASK, AccountRequest(number=20, text=text), LAST], tokens([TASK, LAST]) + 160, count=COUNT)
    # one piece of its beginning and one of its end
    assert short.text.count("…") == 2
    assert "load part 0\nand add it to sum\nload part 1\n" in short.text


@pytest.mark.parametrize(
    "text",
    [
        "We make it a house rule for the whole chat: letters to the town end with Tom and Ann.",
        "Our house has a rule: letters to the town end with Tom and Ann.",
        "New rule: letters to the town end with Tom and Ann. Can you write me one to the mayor?",
        "Noch eine Regel: Briefe an die Stadt enden mit Tom und Ann.",
        "Regla ocho: las cartas terminan con Tom y Ann.",
        "学校不经手钱款，这条你记成第七条规矩，往后写给家长的信都要写明直接付给旅行社。",
    ],
)
def test_what_is_called_a_rule_outlasts_what_was_told(text: str) -> None:
    rule = AccountRequest(number=14, text=text)
    told = [AccountRequest(number=20 + 2 * at, text=f"Gate {at} costs us {at}50 Euro a week.") for at in range(10)]
    assert rule in within([TASK, rule, *told, LAST], tokens([TASK, rule, LAST]) + 60, count=COUNT)
    assert rule not in within([TASK, rule, *told, LAST], tokens([TASK, rule, LAST]) + 60, count=COUNT, rules_3=False)


def test_figures_before_a_question_outlast_questions() -> None:
    text = "The race course is 350 Euro for both days, the shuttle 275 Euro a day. Shall we?"
    offer = AccountRequest(number=14, text=text)
    assert offer in within([TASK, offer, *FILLERS, LAST], tokens([TASK, offer, LAST]) + 60, count=COUNT)


@pytest.mark.parametrize(
    "text",
    [
        "What are the rules of chess?",
        "In der Regel esse ich um zwölf.",
        "En règle générale je dors bien.",
        "I walked the dog, as a rule of thumb.",
    ],
)
def test_what_is_so_mostly_and_a_question_for_rules_are_no_rule(text: str) -> None:
    other = AccountRequest(number=14, text=text)
    told = [AccountRequest(number=20 + 2 * at, text=f"Gate {at} costs us {at}50 Euro a week.") for at in range(10)]
    assert other not in within([TASK, other, *told, LAST], tokens([TASK, *told, LAST]) - 10, count=COUNT)


PLAN = AccountRequest(number=7, text="\n".join(f"Line {at} of the plan for the gate of the mill" for at in range(300)))


@pytest.mark.parametrize("last", ["300", "9" * 5_000])
def test_what_users_wrote_like_a_reference_of_ours_puts_nothing_in(last: str) -> None:
    forged = f'[here "Line 0 of the plan for the gate of the…", as in the user\'s message #7 below, lines 1-{last}]'
    text = as_said("\n".join([forged] * 500))
    assert text.count("as in the user's message #7 below") == 500
    assert with_lines_of(AccountRequest(number=9, text=text), PLAN).text == text
    # what becomes like it when gaps are put together
    gaps = as_said(f"{letter(9).text}\n" + forged.replace('"Line', '"' + "… " * 40 + "Line") * 20)
    (short,) = within([AccountRequest(number=9, text=gaps)], 600, count=COUNT)
    assert with_lines_of(short, PLAN) == short


def test_lines_that_two_messages_have_are_told_again_where_the_other_leaves() -> None:
    blocks = [
        "\n".join(f"{name} {at} of the plan for the gate" for at in range(9)) for name in ("Rule", "Note", "Cost")
    ]
    text = "\n".join([blocks[0], "Today is Monday.", blocks[1], "Thank you.", blocks[2]])
    other = AccountRequest(number=62, text="\n".join([blocks[0], "Today is Friday.", blocks[1], "Bye.", blocks[2]]))
    one = AccountRequest(number=1, text=text)
    for times in (1, 2, 3):
        one = referring(one, [staying_of(other)])
        assert one.text.count("message #62 below") == times
    assert with_lines_of(one, other).text == text


def test_lines_are_counted_as_they_stand_in_the_account() -> None:
    of = Talk(resolve([{"budget": {"window": 2_500, "reserve": 0}}]))
    rules = "\n".join(f"Instruction {at}: look at the pumps of the north, and say what you saw." for at in range(6))
    for at in range(20):
        # the first part of each message is empty, and is no line
        parts = [{"type": "text", "text": part} for part in ("", f"{rules}\nTask {at}: look at pump {at}.")]
        play(of, {"role": "user", "content": parts}, *called(at, "read", "x4 " * 300, path=f"pump_{at}.md"))
    told = [one.text for one in account(of).requests]
    assert len(told) > 15
    assert [text.partition("\n")[2] for text in told[:15]] == [f"Task {at}: look at pump {at}." for at in range(15)]
    assert all("below, lines 1-6]" in text for text in told[:15])


@pytest.mark.parametrize("least", [0, 200])
def test_who_said_it_stays_known(least: int) -> None:
    said = AccountRequest(number=3, text="Please look at the pump of the north and mend it.", speaker="Ann")
    assert without_repeats(said, [PLAN], least=least) == said


def test_what_one_said_again_keeps_its_speaker() -> None:
    said = AccountRequest(number=9, text=f"Once more:\n{PLAN.text}", speaker="Ann")
    assert without_repeats(said, [PLAN], least=200) == AccountRequest(
        number=9, text="Once more:\n[here as in #7]", speaker="Ann"
    )
    # before rules 3 that was forgotten
    assert without_repeats(said, [PLAN], least=0).speaker == ""


def test_the_characters_left_out_are_told_beside_gaps_of_the_users_own() -> None:
    short = AccountRequest(number=20, text=letter(20).text.replace(" In week 25", " … In week 25"))
    for room in range(900, 120, -60):
        (short,) = within([short], room, count=COUNT)
        assert '"messages:20"' in short.text or "characters" not in short.text
    assert short.text.count('read_artifact("messages:20")') == 1


def test_a_mark_with_a_number_that_no_message_has_is_the_users_own() -> None:
    text = f'[… 1 characters: read_artifact("messages:{"9" * 5_000}") …] {letter(20).text}'
    (short,) = within([AccountRequest(number=20, text=text)], 400, count=COUNT)
    assert "Euro for the gate." in short.text


def test_a_run_of_lines_is_found_in_a_time_that_grows_with_them() -> None:
    # each line compared with each would be hundreds of millions
    many = AccountRequest(number=7, text="x\n" * 20_000 + "the only one of its kind\n" + "x\n" * 20_000)
    again = AccountRequest(number=9, text=f"Look:\n{many.text}\nDone.")
    short = referring(again, [staying_of(many)])
    assert "as in the user's message #7 below, lines 1-40002" in short.text
    assert referring(AccountRequest(number=9, text="x\n" * 40_000), [staying_of(many)]).text == "x\n" * 40_000
