"""What an account tells where there is room: it is used, and what says most comes first."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors.core.account_text import JOINED_LEVEL
from actors.core.pressure import target_tokens
from actors.core.text.excerpt import excerpt, sentences_excerpt
from actors.core.text.gaps import GAP
from actors.digest.account_steps import coarser
from actors.digest.clips import clipped
from actors.digest.hindsight import Hindsight
from actors.digest.joined_steps import OTHERS, joined
from actors.digest.pieces import pieces
from actors.digest.records import record_text
from actors.digest.repeated_requests import without_repeats
from actors.digest.step_rooms import chars_of, expected_chars, level_chars
from protocol.account import AccountAct, AccountRequest, AccountStep
from protocol.policy import resolve
from tests.builders import COUNT, Talk, user

from .test_account import Message, account, called, looks, play, said, told


def talk(window: int) -> Talk:
    layer = {"digest": {"style": "account", "records": "fields", "cap": 0.45}}
    return Talk(resolve([{"budget": {"window": window, "reserve": 0}}, layer]))


def report(at: int, sentences: int = 24) -> Message:
    """Return a long answer, no two sentences alike, by one of two assistants."""
    text = " ".join(
        f"Finding {at}.{one}: the pump {at * 40 + one} ran dry at depth {at * 7 + one}." for one in range(sentences)
    )
    return said(text, name="Expert" if at % 2 else "Checker")


def test_a_run_that_is_a_little_too_long_keeps_its_newest_messages_whole() -> None:
    of = play(talk(4_000), user("Why did the pumps run dry?"))
    for at in range(2, 40):
        play(of, report(at, sentences=18))
        if of.state.digest is not None:
            break
    shown = [str(message["content"]) for message in of.shown()]
    assert sum(map(COUNT, shown)) >= 0.8 * target_tokens(of.state)
    assert sum(text.startswith("Finding") for text in shown) >= 6


def test_a_huge_newest_result_takes_nothing_from_the_steps() -> None:
    of = talk(4_500)
    play(of, {"role": "system", "content": "You are careful."}, user("Mend the pumps. " + "They are old. " * 470))
    for at in range(12):
        play(of, *called(at, "read", "The log:\n" + "ok\n" * 200, report(at, sentences=9)["content"]))
    before = sum(step.level < JOINED_LEVEL for step in account(of).steps)
    listing = "\n".join(f"{at} {at * 7919 % 9973}" for at in range(420))
    play(of, said("All pumps are mended. Let us see the list."), *called(99, "list", listing))
    assert sum(step.level < JOINED_LEVEL for step in account(of).steps) >= before - 1 > 2
    assert of.shown()[0]["content"] == "You are careful."
    assert 0.85 * 4_500 <= of.state.live_tokens <= 4_500


def test_a_huge_newest_call_takes_nothing_from_the_steps_either() -> None:
    of = talk(4_500)
    play(of, user("Mend the pumps. " + "They are old. " * 440))
    for at in range(12):
        play(of, *called(at, "read", "The log:\n" + "ok\n" * 200, report(at, sentences=9)["content"]))
    before = len(account(of).steps)
    files = {f"src/pump_{at}.ts": f"export const depth = {at};\n" * 80 for at in range(8)}
    play(of, *called(99, "push_files", f"Error: 409 {json.dumps(files)}", files=files))
    assert len(account(of).steps) >= before - 1
    assert of.state.live_tokens <= of.state.usable_tokens


def test_who_tells_the_others_what_to_do_is_told_longest() -> None:
    plan = "\n".join(f"{at}. Ask station {at} for its log, and note the pump's number." for at in range(1, 13))
    brief = said(f"## Plan\n{plan}\n## Output format\nOne integer, no unit.", name="Manager")
    of = play(talk(3_000), user("How many pumps?"), brief, *(report(at) for at in range(14)))
    assert "One integer, no unit." in told(of)
    assert sum(f"Ask station {at} " in told(of) for at in range(1, 13)) >= 10


def test_what_was_found_before_a_call_outlasts_what_was_about_to_be_done() -> None:
    found = (
        "The function ignores its argument and multiplies the seed with 0x5deece66d, adds 0xb and keeps 48 bits of it, "
        "so that the server's seventeenth number gives the low half of the state. The flag's hash is the first seed, "
        "and the first sixteen numbers are always four, since the seed is only used from then on."
    )
    of = play(
        talk(2_500), user("Find the seed."), *called(1, "decompile", looks(1, 1)[1]["content"], found, name="next")
    )
    play(
        of,
        *(
            one
            for at in range(2, 12)
            for one in called(at, "read", looks(at, 1)[1]["content"], "Let's look.", path=f"f{at}")
        ),
    )
    assert "0x5deece66d" in told(of) or "The flag's hash is the first seed" in told(of)
    assert sum(step.said.count("Let's look") for step in account(of).steps if step.level >= JOINED_LEVEL - 1) == 0


def test_words_come_before_the_programs_between_them() -> None:
    program = "\n".join(f"    total_{at} = count(page_{at})" for at in range(60))
    words = ("The first page has no revisions.", "The token was refused: ask for another one.")
    speech = f"{words[0]}\n\n```python\n{program}\n```\n\n{words[1]}"
    knows = Hindsight.of((), (), rules_3=True)
    step = coarser(AccountStep(first=2, last=2, said=speech), 3, knows, level_chars(2_400))
    assert all(one in step.said for one in words)
    assert len(step.said) < len(speech) / 2


def test_of_a_program_that_was_written_whole_lines_are_told_and_not_its_end() -> None:
    lines = [f"total_{at} = count(pages[{at}], since='2023-01-{at:02}')" for at in range(1, 30)]
    call = "\n".join(["write create /srv/reproduce_error.py", "content:", *lines])
    step = AccountStep(first=2, last=3, acts=(AccountAct(call=call, outcome="ok", target="/srv/reproduce_error.py"),))
    short = coarser(step, 3, Hindsight.of((), (), rules_3=True), level_chars(2_400)).acts[0].call
    begin, *told = [piece.strip() for piece in short.split(GAP) if piece.strip()]
    assert begin == "write create /srv/reproduce_error.py"
    assert told
    assert all(piece in lines for piece in told)


def test_what_a_program_printed_before_its_trace_is_told_with_why_it_failed() -> None:
    frames = "\n".join(f'  File "/srv/count.py", line {at}, in part_{at}\n    part_{at + 1}()' for at in range(9))
    told = "KeyError: 'query' (raised in part_8, srv/count.py, line 8)"
    printed = "Status: 200\nAnswer: {'error': 'invalid access token'}"
    outcome = f"{told}\n{printed}\nCode output: Traceback (most recent call last):\n{frames}"
    step = AccountStep(first=2, last=3, acts=(AccountAct(call="run count.py", outcome=outcome, failed=True),))
    short = coarser(step, 3, Hindsight.of((), (), rules_3=True), level_chars(2_400)).acts[0].outcome
    assert short == f"{told}\n{printed}"


def test_a_record_whose_values_were_used_is_told_longer_than_its_neighbours() -> None:
    def looked_up(at: int) -> AccountStep:
        legs = [{"from": f"A{at}X", "to": "DEN", "number": f"HAT{at}{leg}1"} for leg in range(4)]
        booking = {"cabin": "economy", "legs": legs, "paid": [{"card": f"gift_card_{at}00", "amount": at}], "bags": at}
        act = AccountAct(call=f"get_booking BK{at}", outcome=record_text(booking), target=f"BK{at}", used=3)
        return AccountStep(first=at * 2 + 3, last=at * 2 + 4, acts=(act,))

    used = {"hat401", "hat411"}
    step = joined(
        [looked_up(at) for at in range(8)],
        told=(),
        rules_3=True,
        sought=lambda word: 1.0 if word in used else 0.0,
        is_linked=lambda _: False,
    )
    told = {act.target: act.outcome for act in step.acts}
    assert "HAT401" in told["BK4"]
    assert "HAT411" in told["BK4"]
    assert max(len(outcome) for name, outcome in told.items() if name != "BK4") < len(told["BK4"])


def test_the_number_of_an_item_stands_with_its_words() -> None:
    plan = "Plan: 1. Buy the wood. 2. Saw it into boards of forty centimetres. 3. Glue them. 4. Paint the box in blue."
    short = sentences_excerpt(plan, chars=60, sought=lambda word: 1.0 if word == "paint" else 0.0, clauses=True)
    assert "4. Paint the box in blue." in short
    assert "1. …" not in short
    assert "2. …" not in short


def test_lines_of_a_file_keep_their_indentation_behind_their_numbers() -> None:
    file = "\n".join(f"{at}:{'    ' * (at % 4)}value_{at} = {'abcdefgh'[at % 8] * 6}" for at in range(1, 40))
    short = excerpt(file, chars=200, sought=lambda word: 1.0 if word in {"value_7", "value_11"} else 0.0, clauses=True)
    assert "7:            value_7 = hhhhhh" in short


def test_a_figure_stands_behind_the_words_that_announce_it() -> None:
    told_of = (
        "The whole total is: 42. Then I deployed the service to all three regions. Nothing else was to be done there."
    )
    short = sentences_excerpt(told_of, chars=60, sought=lambda word: 1.0 if word == "total" else 0.0, clauses=True)
    assert short == "The whole total is: 42. …"


@given(lines=st.integers(1, 400), words=st.integers(3, 6), failed=st.booleans())
@settings(max_examples=60, deadline=None)
def test_how_long_steps_become_is_known_before_they_are_shortened(lines: int, words: int, failed: bool) -> None:
    asked = AccountRequest(number=1, text="Look at each row of each pump.")
    levels, knows = level_chars(2_400), Hindsight.of((), (asked,), rules_3=True)
    printed = "\n".join(f"row {at}: {' '.join(f'pump_{at * one}' for one in range(words))}" for at in range(lines))
    act = AccountAct(call="read_log log_7", outcome=f"KeyError: pump_7\n{printed}", failed=failed)
    step = AccountStep(first=2, last=3, said="Let's look.", acts=(act,))
    shorter = [coarser(step, level, knows, levels) for level in range(1, 5)]
    assert [one.level for one in shorter] == list(range(1, 5))
    expected = sum(expected_chars(step, level, levels) for level in range(1, 5))
    # lines as long as these leave a part of their room empty; in recorded runs it is a twentieth
    assert 0.65 * expected <= sum(map(chars_of, shorter)) <= 1.05 * expected


@given(sizes=st.lists(st.integers(1, 30), min_size=4, max_size=40), window=st.integers(1_500, 6_000))
@settings(max_examples=40, deadline=None)
def test_each_message_stands_whole_or_in_one_step_and_none_is_cut(sizes: list[int], window: int) -> None:
    of = play(talk(window), user("Why did the pumps run dry?"))
    for at, sentences in enumerate(sizes):
        play(of, report(at, sentences=sentences))
    assert not [fact for fact in of.facts if type(fact).__name__ == "HistoryCut"]
    if of.state.digest is not None:
        live = [entry.number for entry in of.state.live if entry.number > 1]
        in_steps = [number for step in account(of).steps for number in range(step.first, step.last + 1)]
        assert sorted([*live, *in_steps]) == list(range(2, len(sizes) + 2))


@given(st.lists(st.integers(4, 60), min_size=3, max_size=8), st.sampled_from((2_000, 3_000, 6_000)))
@settings(max_examples=40, deadline=None)
def test_results_are_shortened_no_further_than_there_is_need(sizes: list[int], window: int) -> None:
    of = play(talk(window), user("What do the pods need?"))
    for at, lines in enumerate(sizes):
        pods = "\n".join(
            f"pod-{at}-{one} runs on node {one * at % 17} with {one * 37 % 101} Mi" for one in range(lines)
        )
        play(of, *called(at * 2 + 2, "list_pods", pods, page=at))
        if any(one.text.startswith("[Shortened") for entry in of.state.live for one in entry.shown):
            break
    else:
        assume(False)
    assume(of.state.digest is None)
    spare = target_tokens(of.state) - of.state.live_tokens
    saved = [
        sum(part.tokens for part in entry.parts) - sum(one.tokens for one in entry.shown)
        for entry in of.state.live
        if any(one.text.startswith("[Shortened") for one in entry.shown)
    ]
    # none of them would be whole in the room that is left
    assert spare < 160 or min(saved) > spare, (spare, saved)


def test_what_the_assistant_gave_to_a_tool_is_no_outcome() -> None:
    body = "## Findings\n" + "\n".join(f"{at}. The valve {at} leaks {at * 3} drops an hour." for at in range(9))
    issue = {"number": 27, "state": "open", "body": body, "title": "Leaks"}
    envelope = json.dumps({"content": [{"type": "text", "text": json.dumps(issue)}], "isError": False})
    asked = called(1, "create_issue", envelope, title="Leaks", body=body, owner="plant", repo="north")
    closed = {**issue, "state": "closed", "labels": ["wontfix"]}
    later = called(2, "update_issue", json.dumps(closed), issue=27, state="closed", owner="plant", repo="north")
    others = [one for at in (3, 4) for one in called(at, "get_issue", "{}", issue=at, owner="plant", repo="north")]
    of = play(talk(3_000), user("File the leaks, then close them."), *asked, *later, *others, *looks(5, 8))
    assert told(of).count("The valve 4 leaks") == 1
    assert "body [as given]" in told(of)
    assert "state closed" in told(of)
    assert "body [as given in #2]" in told(of)


def test_a_few_repeated_lines_are_said_again() -> None:
    log = "> Applied the edit to the file of the chart, and committed it."
    page = "\n".join(f"Row {at} of the table has {at * 7} lines, of which {at * 3} are new." for at in range(8))
    first = AccountRequest(number=1, text=f"Make a chart.\n{log}\n{page}")
    again = AccountRequest(number=9, text=f"Still wrong.\n{log}\n/undo\n{page}\nLook at it.")
    short = without_repeats(again, (first,), least=200)
    assert short.text == f"Still wrong.\n{log}\n/undo\n[here as in #1]\nLook at it."
    assert without_repeats(again, (first,), least=0).text.count("[here as in #1]") == 1


def test_a_number_in_bold_stands_with_its_title_and_a_dash_goes_on_with_its_sentence() -> None:
    report = (
        "## Pods **1. Out of memory** - **Cause:** the limit is 100 Mi - it needs 180 - **Fix:** raise it "
        "**2. No image** - **Cause:** the registry says no - the token is of last year - **Fix:** a new token"
    )
    short = sentences_excerpt(
        report, chars=120, sought=lambda word: 1.0 if word in {"token", "image"} else 0, clauses=True
    )
    assert "**2. No image**" in short
    assert "the registry says no - the token is of last year" in short


def test_a_key_in_a_call_is_known_by_its_first_characters() -> None:
    key = "".join(f"{at * 7919 % 16:x}" for at in range(400))
    assert clipped(f"bash make-key --modulus 0x{key} -e 5 > first.pub", 100, names=True).startswith(
        f"bash make-key --modulus 0x{key[:10]}… "
    )
    assert clipped(f"bash make-key --modulus 0x{key} -e 5 > first.pub", 100).startswith("bash make-key --modulus …")


def test_a_secret_that_an_envelope_escaped_is_no_more_told_than_any_other() -> None:
    key = "AKIA" + "IOSFODNN7QWERTY2"
    inner = json.dumps({"id": "i-77", "aws": key, "state": "running", "zone": "north"}).replace("AKIA", "\\u0041KIA")
    envelope = json.dumps({"content": [{"type": "text", "text": inner}], "isError": False})
    of = play(talk(2_500), user("Where does it run?"), *called(1, "get_host", envelope, host="i-77"), *looks(2, 12))
    assert "zone north" in told(of)
    assert key not in told(of)


def test_a_figure_at_the_end_of_a_sentence_is_no_item() -> None:
    said = "The retry limit is 1. The logs are kept elsewhere for a week. Nothing else is known. Ask the team for more."
    sought = {"retry", "limit"}
    short = sentences_excerpt(said, chars=80, sought=lambda word: 1.0 * (word in sought), clauses=True)
    assert "The retry limit is 1." in short


def test_a_changed_file_is_named_by_its_whole_path() -> None:
    folder = "/srv/build/src/git.example.com/somebody/a-rather-long-name/internal/provider"
    of = talk(8_000)
    for at in range(30):
        call = called(
            at, "edit_file", report(at, sentences=16)["content"], path=f"{folder}/file_{at}.go", new=f"return {at}"
        )
        play(of, *call)
    (line,) = [line for line in told(of).split("\n") if line.startswith("Changed")]
    assert line.startswith(f"Changed in {folder}/: ")
    assert "file_1.go" in line


@pytest.mark.parametrize("newest", [12, 60])
def test_the_list_of_tasks_names_each_task_however_little_is_told_of_other_calls(newest: int) -> None:
    states = ["completed", "in_progress", *["pending"] * 5]
    todos = [{"id": at, "content": f"Measure pump {at} and write it down", "status": states[at]} for at in range(7)]
    of = play(talk(1_500), user("Measure all pumps."), *called(1, "TodoWrite", "ok", todos=todos))
    play(of, *(message for at in range(2, newest) for message in called(at, "read", str(report(at)["content"]))))
    assert "(id, content, status): (0, Measure pump 0 and write it down, completed), (1, " in told(of)
    assert [f"({at}, Measure pump {at} and write it down, {states[at]})" in told(of) for at in range(7)] == [True] * 7


def test_how_many_rows_of_which_kind_stands_where_steps_are_joined_though_nobody_used_it() -> None:
    rows = "\n".join(f"pump-{at * 7919}   1/1   Running   {at}d   station-{at % 7}" for at in range(12))
    listing = f"NAME   READY   STATUS   AGE   NODE\n{rows}"
    of = play(talk(1_500), user("Look."), *looks(1, 3), *called(50, "bash", listing, command="pumps"), *looks(60, 60))
    (answer,) = [act.outcome for step in account(of).steps for act in step.acts if act.target == "pumps"]
    assert answer == "(12 rows: in each READY 1/1, STATUS Running)"


def test_what_a_file_tells_agents_to_do_stands_where_steps_are_joined_though_nobody_used_it() -> None:
    told_to = "# Rules\n- Run `npm run check` after each change.\n- NEVER run `npm run dev`.\n- Do NOT commit unasked."
    of = play(
        talk(2_000), user("Go on."), *looks(1, 3), *called(50, "read", told_to, path="AGENTS.md"), *looks(60, 200)
    )
    (act,) = [act for step in account(of).steps for act in step.acts if act.target == "AGENTS.md"]
    assert step_of(of, act).level == JOINED_LEVEL
    assert act.outcome.endswith("- NEVER run `npm run dev`. - Do NOT commit unasked.")


IDLE = "Debugger attached.\nWaiting for the debugger to disconnect..."


def test_what_a_program_prints_to_say_that_it_runs_is_no_answer() -> None:
    idle, spoken = (
        called(9, "bash", IDLE, command="npm run build"),
        called(10, "bash", f"2 errors\n{IDLE}", command="npm t"),
    )
    of = play(talk(2_500), user("Go on."), *idle, *spoken, *looks(60, 12))
    acts = {act.call: act.outcome for step in account(of).steps for act in step.acts if step.level < JOINED_LEVEL}
    assert (acts["bash npm run build"], acts["bash npm t"]) == ("(no output)", "2 errors")


def test_nor_is_it_told_where_steps_are_joined() -> None:
    built = [one for at in range(50, 54) for one in called(at, "bash", IDLE, command="npm run build")]
    of = play(talk(1_500), user("Go on."), *looks(1, 3), *built, *looks(60, 90))
    assert [act.outcome for step in account(of).steps for act in step.acts if act.target == "npm run build"] == [
        "(no output)"
    ]


def step_of(of: Talk, act: AccountAct) -> AccountStep:
    """Return the step of the account that has *act*."""
    return next(step for step in account(of).steps if act in step.acts)


@pytest.mark.parametrize(("rules_3", "most"), [(False, 8), (True, 16)])
def test_a_joined_step_names_sixteen_calls_and_under_older_rules_eight(rules_3: bool, most: int) -> None:
    calls = [AccountAct(call=f"look /srv/{at}.py", target=f"/srv/{at}.py") for at in range(20)]
    steps = [AccountStep(first=at, last=at, acts=(call,)) for at, call in enumerate(calls, 1)]
    one = joined(steps, told=(), rules_3=rules_3, sought=lambda _: 0.0, is_linked=lambda _: False)
    assert ([act.call for act in one.acts][most:], one.acts[-1].times) == ([OTHERS], len(calls) - most)


@pytest.mark.parametrize(("line", "told"), [("def freq(self) -> Offset:", True), ("self.freq = freq", False)])
def test_of_a_file_that_was_read_its_definition_stands_where_steps_are_joined(line: str, told: bool) -> None:
    read = AccountAct(call="view index.py", target="index.py", outcome=f"{GAP} 98 @property 99 {line} {GAP}")
    steps = [AccountStep(first=at, last=at, acts=(act,)) for at, act in enumerate((read, AccountAct(call="ls")), 3)]
    one = joined(steps, told=(), rules_3=True, sought=lambda _: 0.0, is_linked=lambda _: False)
    assert bool(one.acts[0].outcome) == told


def test_a_long_piece_costs_what_a_short_one_may_and_under_older_rules_all_that_it_has() -> None:
    said = [letter * 130 for letter in "ab"]
    assert pieces(said, (), rules_3=True) == " / ".join(said)
    assert pieces(said, (), rules_3=False) == f"{said[1]} / (1 more)"


def test_of_a_talk_that_is_mostly_the_users_the_target_is_reached() -> None:
    of = Talk(resolve([{"budget": {"window": 8_000, "reserve": 0}}]))
    for at in range(60):
        told = " ".join(f"In week {at} gate {number} of the mill costs us {at * number} Euro." for number in range(20))
        play(of, user(told), said("Noted. I will keep that in mind for the letter to the mill."))
    kinds = Counter(type(fact).__name__ for fact in of.facts)
    assert kinds["HistoryAccounted"] >= 5
    # where it is not, nearly each turn compacts again, and no prompt cache is used
    assert kinds["CompactionDeclined"] <= kinds["HistoryAccounted"] // 5
    account_tokens = of.state.digest.tokens if of.state.digest else 0
    assert account_tokens > 0.5 * of.state.usable_tokens
