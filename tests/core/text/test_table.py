"""Tables: what differs from most rows is told, and how many are alike."""

from __future__ import annotations

import pytest

from actors.core.text.excerpt import excerpt, sentences_excerpt
from actors.core.text.gaps import GAP
from actors.core.text.line_worths import without_numbers
from actors.core.text.table import heads, table_of
from actors.core.text.told_table import is_summary, names_told, shorter_table

PODS = ["NAME  READY  STATUS", *(f"web-{number}  1/1  Running" for number in range(9)), "pay-7f  0/1  CrashLoopBackOff"]


def nothing(_: str) -> float:
    return 0.0


def test_a_row_that_differs_is_odd_and_the_rest_is_counted() -> None:
    table = table_of(PODS)
    assert table is not None
    assert [PODS[line] for line in table.odd] == [PODS[-1]]
    assert table.summary == "(10 rows: STATUS Running x9, CrashLoopBackOff x1)"
    assert is_summary(table.summary)


NODES = [
    "NAME  READY  STATUS  NODE  GATES",
    *(f"web-{number}  1/1  Running  node-a  <none>" for number in range(9)),
    "pay-7f  0/1  CrashLoopBackOff  node-a  <none>",
]


def test_what_all_rows_have_alike_is_told_once_and_an_empty_cell_never() -> None:
    short = excerpt("\n".join(NODES), chars=150, sought=nothing, clauses=True)
    summary = "(10 rows: in each NODE node-a; STATUS Running x9, CrashLoopBackOff x1)"
    assert short == f"NAME  READY  STATUS …\nweb-8  1/1  Running\npay-7f  0/1  CrashLoopBackOff\n{summary}"
    listed = excerpt("\n".join(NODES), chars=400, sought=nothing, clauses=True)
    assert listed.startswith("NAME  READY  STATUS\nweb-0  1/1  Running\nweb-1  1/1  Running\n")
    assert listed.endswith("web-8  1/1  Running\npay-7f  0/1  CrashLoopBackOff\n" + summary)


@pytest.mark.parametrize("chars", [350, 420])
def test_odd_rows_that_have_no_room_are_named(chars: int) -> None:
    rows = [f"web-{number}  1/1  Running  {number} ({'x' * 70})" for number in range(16)]
    pods = ["pay-7f", "mail-2c", "stock-9a", "bill-4d"]
    rows[3:3] = [f"{name}  0/1  CrashLoopBackOff  20 ({'y' * 70})" for name in pods]
    listing = "\n".join(["NAME  READY  STATUS  RESTARTS", *rows])
    short = excerpt(listing, chars=chars, sought=nothing, clauses=True)
    assert len(short) <= chars
    assert [name in short for name in pods] == [True] * 4
    assert sum(is_summary(line) for line in short.split("\n")) == 2
    again = excerpt(short, chars=chars - 60, sought=nothing, clauses=True)
    assert [name in again for name in pods] == [True] * 4


def test_columns_of_a_table_of_which_no_row_is_told_do_not_stand_above_another_one() -> None:
    conditions = [f"  {name}{' ' * 20}True" for name in ("Initialized", "Ready", "PodScheduled")]
    events = [f"  Warning  Failed  {number}m  kubelet  cannot reach the host {number}" for number in range(4)]
    text = "\n".join(
        [
            "Conditions:",
            "  Type    Status",
            *conditions,
            "Events:",
            "  Type  Reason  Age  From  Message",
            "  ----  ------  ---  ----  -------",
            *events,
        ]
    )
    short = excerpt(text, chars=190, sought=lambda word: float(word == "host"), clauses=True)
    assert "Type  Reason  Age  From  Message" in short
    assert "Type  Status" not in short


def test_names_of_columns_are_left_out_where_no_row_is_told() -> None:
    names = "  ".join(["NAME", "READY", "STATUS", *(f"COLUMN-{number}" for number in range(4))])
    rows = [
        f"pod-{one * 7919}-with-a-long-name  {one}/9  Running  {one}  {one * 3}  {one * 5}  x{one}" for one in range(9)
    ]
    assert "NAME" not in excerpt("\n".join([names, *rows]), chars=80, sought=nothing, clauses=True)


@pytest.mark.parametrize("indentation", ["    ", "  "])
def test_the_lines_of_a_file_keep_their_numbers_and_their_indentation(indentation: str) -> None:
    lines = [f"   {number}\t{indentation}    step_{number}(pump_{number})" for number in range(10, 60)]
    short = excerpt("\n".join(lines), chars=300, sought=nothing, clauses=True)
    assert "rows" not in short
    assert f"\t{indentation}    step_10(pump_10)" in short


@pytest.mark.parametrize(
    "lines",
    [
        PODS[:3],
        ["def add(a, b):", "    return a + b", "", "print(add(1, 2))", "# done", "x = 1"],
        [f"row {number} says  something else" * (number % 3 + 1) for number in range(9)],
        [],
    ],
)
def test_what_is_no_table_is_none(lines: list[str]) -> None:
    table = table_of(lines)
    assert table is None or table.summary == ""


def test_an_excerpt_of_a_table_shows_the_odd_row_and_sums_up_the_others_once() -> None:
    short = excerpt("\n".join(PODS), chars=150, sought=nothing)
    assert "pay-7f  0/1  CrashLoopBackOff" in short
    assert short.endswith("(10 rows: STATUS Running x9, CrashLoopBackOff x1)")
    shorter = excerpt(short, chars=90, sought=nothing)
    assert shorter.count("rows:") == 1
    assert "(10 rows: STATUS Running x9, CrashLoopBackOff x1)" in shorter


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "Let me look. " * 20 + "We decided to use 140 by 90 instead of the bath. " + "I will go on. " * 20,
            "140 by 90",
        ),
        ("好的。" * 40 + "失败的原因是连接池上限只有50。" + "继续。" * 40, "失败的原因是连接池上限只有50。"),
        ("Gerne. " * 40 + "Epoxidfugen sind verboten. " + "Weiter. " * 40, "Epoxidfugen sind verboten."),
    ],
)
def test_of_what_somebody_said_the_sentence_that_tells_something_is_kept_whole(said: str, kept: str) -> None:
    short = sentences_excerpt(said, chars=90, sought=nothing)
    assert len(short) <= 90 + 4
    assert kept in short


def test_rows_that_differ_in_a_moment_alone_keep_what_happened() -> None:
    events = [f"Warning  Failed  {number}m  kubelet  Error: ImagePullBackOff" for number in range(9)]
    assert "Warning  Failed  0m  kubelet  Error: ImagePullBackOff" in excerpt(
        "\n".join(events), chars=150, sought=nothing, clauses=True
    )


def test_long_names_of_odd_rows_are_told_by_their_beginnings_where_all_fit_so() -> None:
    names = [
        "analytics-exporter-fast-ff88fcc4c-qwq4t",
        "db-certs-authenticator-6866469d97-5c4sf",
        "crashpod-96887-fg9gk",
    ]
    assert names_told({"CrashLoopBackOff": names}, 200).endswith(f"CrashLoopBackOff: {', '.join(names)})")
    short = names_told({"CrashLoopBackOff": names}, 100)
    assert len(short) <= 100
    assert short.endswith(
        f"CrashLoopBackOff: analytics-exporter-{GAP}, db-certs-authentica{GAP}, crashpod-96887-fg9gk)"
    )
    alike = [f"payments-of-customers-{which}" for which in ("one", "two", "three")]
    assert names_told({"Failed": alike}, 80).endswith(f"Failed: {alike[0]}, {alike[1]}, {GAP})"), "no two are the same"


def test_of_odd_rows_as_many_are_named_as_there_is_room_for() -> None:
    rows = [f"web-{number}  1/1  Running  {number} ({'x' * 70})" for number in range(16)]
    pods = [f"payments-of-customers-{which}-7f9c4d" for which in ("one", "two", "three", "four", "five")]
    rows[3:3] = [f"{name}  0/1  CrashLoopBackOff  20 ({'y' * 70})" for name in pods]
    short = excerpt("\n".join(["NAME  READY  STATUS  RESTARTS", *rows]), chars=200, sought=nothing, clauses=True)
    assert len(short) <= 200
    assert f"CrashLoopBackOff: {pods[0]}, {pods[1]}, …)" in short
    assert pods[4] not in short


def test_names_that_begin_alike_are_told_as_one_where_more_are_told_so() -> None:
    names = {
        "Pending": ["customer-relations-webapp-b447444dc-djkj6", "customer-relations-webapp-b447444dc-hvj95"],
        "Failed": ["analytics-exporter-ff88fcc4c-qwq4t", "db-certs-authenticator-6866469d97", "crash-1", "redis-2"],
    }
    told = names_told(names, 140)
    assert len(told) <= 140
    assert told.startswith("(of the rows: Pending: customer-relation")
    assert "… x2; Failed: analytics-export" in told
    assert told.endswith("crash-1, redis-2)")
    summary = "\n(19 rows: STATUS Running x13, Failed x4, Pending x2)"
    for chars in range(100, 400, 10):
        shorter = shorter_table(f"{told}{summary}", chars)
        assert shorter.count("Pending: ") == ("customer" in shorter), "told shorter again, two are two"
        assert "x2; Failed" in shorter or "customer" not in shorter or chars < 130


@pytest.mark.parametrize("times", ["0", "1000", "99999999999", "9" * 5000])
def test_how_often_a_name_is_said_to_stand_costs_nothing(times: str) -> None:
    said = f"(of the rows: Pending: web… x{times}, db)\n(300 rows: STATUS Running x290, Pending x10)"
    assert "db" in shorter_table(said, 200)


@pytest.mark.parametrize("drawn", ["-", "=", "─", "- ", "--:", "-=|", "--x", "=" * 3 + "*"])
def test_a_line_that_is_drawn_as_long_as_a_book_takes_no_time(drawn: str) -> None:
    assert heads(["name  state", drawn * 100_000, "a  on"]) <= {0}


def test_a_number_as_long_as_a_book_is_the_number_of_no_line() -> None:
    assert without_numbers(["1" * 60_000, "2" * 60_000]) in (["1" * 60_000, "2" * 60_000], ["", ""])
