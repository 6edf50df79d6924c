"""The account: what a view tells of what left it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.account_text import JOINED_LEVEL
from actors.core.pressure import target_tokens
from actors.core.request_marks import OLDER_BELOW
from actors.digest.joined_steps import ANSWERS_CHARS_MAX
from actors.digest.requests import within
from protocol.account import Account, AccountRequest
from protocol.policy import resolve
from tests.builders import COUNT, Talk, user

Message = dict[str, Any]
FILLER = "\n".join(f"{number}: {'abcdefghij' * 3}" for number in range(60))


def talk(window: int = 2_500, **more: Any) -> Talk:
    return Talk(resolve([{"budget": {"window": window, "reserve": 0}}, more]))


def said(text: str, **more: str) -> Message:
    return {"role": "assistant", "content": text, **more}


def called(number: int, tool: str, result: str, words: str = "", **arguments: Any) -> list[Message]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": words or None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
    ]


def looks(first: int, count: int) -> list[Message]:
    """Return calls that only look, and fill the window."""
    return [
        one
        for at in range(first, first + count)
        for one in called(at, "read", FILLER.replace("abc", f"a{at}c"), path=f"src/file_{at}.py")
    ]


def told(of: Talk) -> str:
    assert of.state.digest is not None
    return of.state.digest.text


def account(of: Talk) -> Account:
    assert of.state.digest is not None
    assert of.state.digest.account is not None
    return of.state.digest.account


def play(of: Talk, *messages: Message) -> Talk:
    for message in messages:
        of.play(message)
    return of


@pytest.mark.parametrize(
    ("tool", "result", "why"),
    [
        (
            "run",
            "Tool call rejected for security reasons: storageclass is not allowed",
            "rejected for security reasons",
        ),
        ("run", "The tool call result is too large to return: 58361 tokens.\nAt most 27200.", "58361 tokens"),
        ("bash", "Debugger attached.\nError in the js-debug bootloader\n\nCommand aborted", "Command aborted"),
        ("bash", "src/theme.ts(443,3): error TS2353: 'linkUrl' does not exist in type 'MarkdownTheme'.", "TS2353"),
    ],
)
def test_why_a_call_failed_outlasts_many_compactions(tool: str, result: str, why: str) -> None:
    of = play(talk(), user("Find out."), *called(1, tool, result, command="make it so"), *looks(2, 40))
    assert why in told(of)
    assert "failed" in told(of) or any(act.failed for step in account(of).steps for act in step.acts)


def test_a_file_that_tells_of_errors_is_no_failure() -> None:
    shown = "How to debug\n\nError loading theme 'my-theme':\n  look at the log\n" + FILLER
    of = play(talk(), user("Read it."), *called(1, "read", shown, path="docs/theme.md"), *looks(2, 8))
    acts = [act for step in account(of).steps for act in step.acts if "theme.md" in f"{act.call} {act.target}"]
    assert [act.failed for act in acts] == [False]


def test_speech_is_kept_before_what_a_program_printed_though_an_assistant_says_both() -> None:
    plan = "Constraints: the answer must be right as of October 2023. Focus on Alex Gorsky and Susan L. Wagner."
    pages = [said(f"Address: bing: query {at}\n{FILLER}{FILLER}", name="Searcher") for at in range(6)]
    of = play(talk(), user("Who was it?"), said(plan, name="Manager"), *pages, said("Go on."), *looks(1, 6))
    assert f"Manager: {plan}" in told(of)
    assert sum(len(act.outcome) for step in account(of).steps for act in step.acts if act.call == "output") < 2_000


def test_an_account_stands_below_the_task_and_above_a_later_request() -> None:
    task, later = user("Mend the pumps."), user("Mend the valves first, please.")
    of = play(talk(), task, *looks(2, 12))
    assert [one["content"] for one in of.shown()][:2] == [task["content"], told(of)]
    assert "\n#1: [stands above this account]\n" in told(of)
    play(of, later, *looks(40, 12))
    number = of.state.messages - 24
    assert [one["content"] for one in of.shown()][:2] == [told(of), later["content"]]
    assert f"\n#1: {task['content']}\n#{number}: {OLDER_BELOW}\n" in told(of)


@pytest.mark.parametrize(("name", "is_printed"), [("", False), ("Terminal", True)])
def test_a_very_long_report_is_said_where_one_assistant_speaks(name: str, is_printed: bool) -> None:
    findings = "".join(f"## Finding {at}\n\nThe pump {at} ran dry at depth {at * 7}.\n\n" for at in range(160))
    of = play(talk(5_000), user("Why did the pumps run dry?"), said(findings, **({"name": name} if name else {})))
    play(of, user("Go on."), *looks(2, 12))
    step = account(of).steps[0]
    assert any(act.call.startswith("output") for act in step.acts) == is_printed
    assert ("ran dry" in step.said) != is_printed


def test_a_report_to_the_user_keeps_its_findings_through_what_follows() -> None:
    findings = [
        f"**{at}. Pod worker-{at}** crashes: variable KEY_{at} is not set.\n- Fix: set KEY_{at}" for at in range(12)
    ]
    report = "\n".join(["## What I found", *findings])
    of = play(talk(4_000), user("Look at the pods."), *looks(0, 4), said(report), user("Go on."), *looks(10, 16))
    assert sum(f"KEY_{at} is not set" in told(of) for at in range(12)) >= 8


def test_a_record_says_what_an_earlier_one_said_only_where_it_differs() -> None:
    of = play(talk(1_500), user("Which of my bookings are in business?"))
    for at in range(12):
        booking = {"id": f"BK10{at}", "user": "omar_davis_3817", "cabin": "business", "notes": "n " * 200}
        play(of, *called(at, "get_booking", json.dumps(booking), id=f"BK10{at}"))
    play(of, *looks(20, 1))
    steps = "\n".join(act.outcome for step in account(of).steps for act in step.acts)
    assert steps.count("cabin business") >= 8
    assert 1 <= steps.count("omar_davis_3817") <= 4
    assert told(of).count("BK103") == 1


def test_what_is_said_again_stands_once_and_a_decision_outlasts_confirmations() -> None:
    of = talk(1_500, digest={"cap": 0.45})
    play(of, user("宿を決めます。予算は四十五万円です。"), said("はい。"))
    play(of, user("やっぱり嵐山はやめて、代わりに宇治に行きます。"), said("わかりました。"))
    for number in range(120):
        play(
            of, user("はい" if number % 2 else f"{number % 30}番の様子を教えてください。"), said("ご案内します。" * 12)
        )
    assert "代わりに宇治に行きます" in told(of)
    assert told(of).count(": はい") == 1
    assert "again" in told(of)


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ("Bitte niemals Epoxidfugen.", "Was kostet die Dusche ungefähr im Bad?"),
        ("不要用Kafka。", "订单服务现在的情况怎么样呢？请说明。"),
        ("予約番号は KR-20418 です。", "貴船の様子を教えてください。"),
    ],
)
def test_rules_and_figures_outlast_questions(kept: str, gone: str) -> None:
    said_by = [AccountRequest(number=at, text=text) for at, text in enumerate(("Start.", kept, gone, "End."), 1)]
    room = sum(COUNT(one.text) + 4 for one in said_by) - 3
    assert [one.text for one in within(said_by, room, count=COUNT)] == ["Start.", kept, "End."]


def test_the_assistants_own_list_of_tasks_stands_in_its_newest_form_alone() -> None:
    of = talk()
    play(of, user("Do all."))
    for at in range(12):
        todos = [{"content": f"task {number}", "status": "done" if number <= at else "open"} for number in range(4)]
        play(of, *called(2 * at, "todo_write", "ok", todos=todos), *looks(100 + at, 1))
    assert told(of).count("todo_write") <= 1


def test_the_newest_of_two_same_calls_tells_how_things_are() -> None:
    of = play(talk(), user("Make the tests pass."))
    play(of, *called(1, "bash", "7 failed, 3 passed in 2s\n" + FILLER[:900], command="make tests"), *looks(2, 4))
    play(of, *called(9, "bash", "10 passed in 2s", command="make tests"), *looks(10, 8))
    assert "10 passed" in told(of)


def test_the_beginning_of_an_account_stays_while_it_grows() -> None:
    """What prompt caches hold ends where the first byte differs."""
    of = play(talk(6_000), user("Look."), *looks(1, 40))
    before = told(of)
    play(of, *looks(50, 12))
    after = told(of)
    assert before != after
    assert not [fact for fact in of.facts if type(fact).__name__ == "HistoryCut"]
    assert before.split("\n", 3)[:3] == after.split("\n", 3)[:3]
    assert after.rsplit("\n", 1)[-1].startswith("[So far up to #")


def test_an_account_never_makes_cut_take_what_it_could_have_told() -> None:
    """What a text costs is known when it is written: it is made coarser until the view is within its target."""
    of = play(talk(3_000), user("Look."), *looks(1, 60))
    assert of.state.live_tokens <= of.state.usable_tokens
    assert not [fact for fact in of.facts if type(fact).__name__ == "HistoryCut"]
    assert target_tokens(of.state) > 0


TRACE = """Traceback (most recent call last):
  File "/repo/run.py", line 4, in <module>
    main()
  File "/repo/pydicom/handlers/numpy_handler.py", line 293, in get_pixeldata
    raise AttributeError(
AttributeError: missing elements: PixelRepresentation
(Open file: n/a)
bash-$"""


def test_a_trace_tells_where_it_was_raised_and_no_prompt_ends_an_outcome() -> None:
    of = play(talk(), user("Mend it."), *called(1, "bash", TRACE, command="python run.py"))
    for at in range(2, 8):
        play(
            of, *called(at, "bash", f"{FILLER}\nwritten to out_{at}.txt\n(Open file: n/a)\nbash-$", command=f"ls {at}")
        )
    play(of, *looks(20, 4))
    assert "PixelRepresentation (raised in get_pixeldata, pydicom/handlers/numpy_handler.py, line 293)" in told(of)
    outcomes = [act.outcome for step in account(of).steps for act in step.acts]
    assert "bash-$" not in "\n".join(outcomes)
    assert any("written to out_" in outcome for outcome in outcomes)


def test_an_edit_that_says_at_its_end_that_nothing_was_applied_changed_nothing() -> None:
    wrong = f"Your edit has errors.\n{FILLER}\nYour changes have NOT been applied. Fix your command.\n(Open file: a.py)"
    of = play(talk(), user("Mend it."), *called(1, "edit", wrong, path="a.py", text="x = 1"))
    play(of, *called(2, "edit", "Saved.", path="b.py", text="x = 2"), *looks(3, 8))
    assert "Changed: edit a.py" not in told(of)
    acts = {act.target: act for step in account(of).steps for act in step.acts if act.changes}
    assert [acts["a.py"].failed, acts["b.py"].failed] == [True, False]


def searched(query: str, *found: str) -> Message:
    titles = (f"## Result\n{one} of the many things that a search finds and nobody asked for." for one in found)
    return said("\n".join((f"Address: bing: {query}", *titles)), name="searcher")


def test_what_was_printed_is_told_under_its_first_line_and_is_never_taken_for_something_else_that_was() -> None:
    names = [[f"{kind} number {each}" for each in range(30)] for kind in ("Apple", "Pear")]
    of = play(talk(), user("Search."), searched("apples", *names[0]), searched("pears", *names[1]), *looks(1, 3))
    assert "output: Address: bing: apples ->" in told(of)
    assert "[again in" not in told(of)


def test_where_one_large_result_had_to_leave_more_of_it_fills_the_room_that_is_left() -> None:
    of = play(talk(8_000), user("Who joined?"))
    for at in range(0, 1_000, 50):
        people = [
            f"Person {each} joined in {1900 + each} and left {each % 7 + 2} years later." for each in range(at, at + 80)
        ]
        play(of, searched(f"board {at}", *people))
    assert of.state.digest is not None
    assert 0.9 * target_tokens(of.state) < of.state.live_tokens <= target_tokens(of.state)


def test_a_value_in_the_address_of_a_link_is_told_with_the_whole_link() -> None:
    page = "\n".join(
        f"1. [Of {each} and more](https://pages{each}.example.com/of/all/that/is-{each}.html)" for each in range(40)
    )
    of = play(talk(), user("Go on."), said(page), user("And?"), *looks(2, 8))
    values = [one.text for one in account(of).values]
    assert values
    assert all("](" not in one for one in values)
    assert any(one.startswith("Of ") and one.endswith(".html") for one in values)


def test_what_every_result_begins_with_is_left_out() -> None:
    of = play(talk(6_000), user("Look."))
    for at in range(1, 24):
        play(
            of, *called(at, "bash", f"OBSERVATION:\n{at} files under {at * 7}.log\n{FILLER[:800]}", command=f"ls {at}")
        )
    outcomes = "\n".join(act.outcome for step in account(of).steps for act in step.acts)
    assert "files under" in outcomes
    assert "OBSERVATION" not in outcomes


def test_one_answer_that_fills_the_view_does_not_cost_the_steps_before_it() -> None:
    lines = "\n".join(f"{number}: {'klmnopqrst' * 3}" for number in range(12))
    steps = [
        message
        for number in range(10)
        for message in called(number, "start", f"{lines}\nlistens on 700{number}", f"Start {number}.", job=f"j{number}")
    ]
    task = " ".join(f"Rule{number} holds for job{number}." for number in range(150))
    long = " ".join(f"change{number} is done" for number in range(300))
    of = play(talk(3_000), user(task), *steps, *called(90, "apply", "applied", long, path="big.log"))
    assert of.state.live_tokens <= of.state.usable_tokens
    assert len(account(of).steps) >= 6, "steps are not joined while the view has room"


def test_a_program_that_ended_in_a_trace_has_failed_whatever_it_printed_before() -> None:
    linked = "\n".join(f"part {number} of the program is linked with the others" for number in range(9))
    trace = (
        f'{linked}\nTraceback (most recent call last):\n  File "/srv/run.py", line 6, in <module>\n'
        "    engine = create('duck')\nlib.errors.NoSuchModule: Can't load plugin: duck"
    )
    of = play(
        talk(),
        user("Make it run."),
        *called(1, "bash", trace, command="python run.py"),
        *called(2, "bash", f"{linked}\nError: dates are no times", command="python run.py"),
        *looks(3, 20),
    )
    ran = next(line for line in told(of).split("\n") if "python run.py" in line)
    assert "lib.errors.NoSuchModule: Can't load plugin: duck" in ran


def test_what_an_assistant_says_alone_is_longer_than_what_it_says_beside_a_call() -> None:
    plan = "\n".join(
        f"Step {number}: the {word} team checks part {number}." for number, word in enumerate(["red"] * 60)
    )
    of = play(talk(5_000), user("Plan it."), said(plan, name="Manager"), *looks(1, 20))
    assert "Step 55: the red team checks part 55." in told(of)


def test_names_in_a_program_are_no_values_that_stand_alone() -> None:
    source = "\n".join(
        f"import {{ Handler{number} }} from './handlers/handler-{number}.js';\n"
        f"{number}\tdef handle_{number}(self, order_{number}): return None\nretry_limit_{number}=limit_{number},"
        for number in range(12)
    )
    rows = "\n".join(f"order ORD-{number:05} paid with card_{number:07}" for number in range(100, 140))
    of = play(
        talk(2_600),
        user("Find the orders."),
        said(source),
        user("Which?"),
        said(rows),
        user("And?"),
        *looks(3, 12),
    )
    values = account(of).values
    assert any("ORD-" in one.text for one in values)
    assert not any("def handle_" in one.text or "handler-" in one.text or "retry_limit" in one.text for one in values)


def test_a_short_answer_stands_where_steps_are_joined() -> None:
    counted = called(1, "bash", "      77\n", command="grep -c chalk src/renderer.ts")
    of = play(talk(), user("Replace chalk."), *counted, *looks(2, 40))
    assert any(step.level >= JOINED_LEVEL and step.first <= 2 for step in account(of).steps)
    assert "-> 77" in told(of)


def test_what_an_edit_put_into_a_file_stands_where_steps_are_joined() -> None:
    of = play(talk(), user("Make the page darker."))
    for step in range(6):
        edit = {"path": "theme.json", "oldText": f'"grey": "#{step:06}"', "newText": f'"grey": "#{step + 1:06}"'}
        play(of, *called(10 * step, "edit", "done", **edit), *looks(10 * step + 1, 4))
    play(of, *looks(100, 60))
    assert any(step.level >= JOINED_LEVEL and step.first <= 2 for step in account(of).steps)
    assert '+ "grey": "#000006"' in told(of)


def test_the_line_that_says_most_stands_where_steps_are_joined() -> None:
    """A listing, of which one line was used: readers saw that it was read, and nothing of what was found."""
    columns = "\n".join(f"column_{number} of kind NUMBER, which may be empty" for number in range(40))
    found = called(50, "bash", f"{columns}\nplot_seq of kind NUMBER joins PLOT and CONDITION", command="cat DDL.csv")
    use = called(51, "bash", "12 rows", words="They are joined by plot_seq.", command="sql PLOT")
    of = play(talk(1_500), user("Sum the acres."), *looks(1, 3), *found, *use, *looks(60, 60))
    step = next(step for step in account(of).steps if step.first <= 8 <= step.last)
    assert step.level >= JOINED_LEVEL
    (answer,) = [act.outcome for act in step.acts if act.target == "cat DDL.csv"]
    assert "plot_seq of kind NUMBER joins PLOT" in answer
    assert len(answer) < 140
    # what little room there is, not every listing has
    assert sum(len(act.outcome) for act in step.acts) < 2 * ANSWERS_CHARS_MAX


def test_a_call_says_first_which_file_and_last_what_stands_in_every_call() -> None:
    of = talk()
    for at in range(6):
        more: dict[str, Any] = {"command": "view", "view_range": [at, 50], "work_dir": "/srv/shop/resources/databases"}
        play(of, user("Look."), *called(at, "editor", FILLER, path=f"/srv/shop/orders/lines_{at}.py", **more))
    play(of, *looks(60, 6))
    assert "editor view /srv/shop/orders/lines_5.py" in told(of)
    # one compaction sees the calls that are new alone
    assert told(of).count("/srv/shop/resources/databases") <= 2


def test_a_result_that_is_nothing_but_the_title_of_all_results_says_that_there_was_none() -> None:
    of = talk()
    for at in range(8):
        found = f"src/file_{at}.py" if at % 2 else ""
        play(of, user("Look."), *called(at, "run", f"RESULT of [run]:\n{found}", command=f"find . -name word{at}"))
    play(of, *looks(60, 8))
    assert "RESULT of [run]" not in told(of).partition("Also seen:")[0]


def test_a_search_between_two_dates_is_no_edit() -> None:
    of = play(talk(4_000), user("What changed?"))
    found = called(1, "list_commits", "12 commits, the last one by ana", after="2026-01-01", before="2026-02-01")
    play(of, *found, *looks(2, 2), said("The last one is by ana."), *looks(4, 16))
    assert "list_commits after 2026-01-01, before 2026-02-01 -> 12 commits" in told(of)
