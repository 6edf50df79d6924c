"""Links of a web page, as an excerpt tells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.excerpt import excerpt
from actors.core.text.links import without_targets


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('with [George Kendall](/wiki/George_Kendall "George Kendall") some', "with George Kendall some"),
        ("an engineer,[[1]](#cite_note-1) born", "an engineer,[1] born"),
        (
            '[Press](https://a.org/wiki/Press_(machine) "Press"), a book',
            "[Press](https://a.org/wiki/Press_(machine)), a book",
        ),
        ('* [![Two mills](//pics.org/120px-Mills.jpg)](/wiki/File:Mills.jpg "Two mills")', "* Two mills"),
        ("![A mill](https://pics.org/mill.jpg)", "![A mill](https://pics.org/mill.jpg)"),
        ("[Press](//mills.org/ledger)", "[Press](//mills.org/ledger)"),
        ("[report.md](/srv/out/report.md)", "[report.md](/srv/out/report.md)"),
        ("[foo.py](/repo/src/foo.py#L10) is new", "[foo.py](/repo/src/foo.py#L10) is new"),
        ("[Order 17 of Ann](/orders/17?action=edit) is open", "Order 17 of Ann is open"),
        ("[Edit the form](https://forms.org/x?action=edit)", "[Edit the form](https://forms.org/x?action=edit)"),
        ("valves[at](pump) = rows[0](9)", "valves[at](pump) = rows[0](9)"),
        ("std::sort(a, b, []() { return 1; });", "std::sort(a, b, []() { return 1; });"),
        ('re.compile(r"[A-Z](?:foo|bar)+")', 're.compile(r"[A-Z](?:foo|bar)+")'),
        ("auto f = [](/*nothing*/){ return 1; };", "auto f = [](/*nothing*/){ return 1; };"),
        ("no link at all", "no link at all"),
    ],
)
def test_a_link_is_told_by_its_words_and_by_another_site_or_a_file(line: str, told: str) -> None:
    assert without_targets([line]) == [told]


def test_no_line_is_left_of_a_link_that_edits_a_page() -> None:
    edit = '[[edit](/w/index.php?title=Mill&action=edit&section=2 "Edit section: Gears")]'
    assert without_targets([edit, "Gears"]) == ["Gears"]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_program_and_what_somebody_says_keep_their_brackets(ordered: bool) -> None:
    lines = [f'{at}: rows = split(r"[0-9a-f](/x)", [row](/wiki/row), {at})' for at in range(1, 40)]
    said = lines if not ordered else [line.partition(": ")[2] for line in lines]
    short = excerpt("\n".join(said), chars=200, sought=lambda _: 0.2, clauses=True, ordered=ordered)
    assert "[row](/wiki/row)" in short


def test_of_a_page_its_references_are_told_and_no_links_that_edit_it() -> None:
    edits = [f'[[edit](/w/index.php?title=Mills&action=edit&section={at} "Edit section: Mills")]' for at in range(6)]
    rows = [f"{at}. [Press {at}](https://mills.org/{at}/ledger), volume {at * 31}" for at in range(1, 7)]
    page = "\n".join(line for pair in zip(edits, rows, strict=True) for line in pair)
    told = excerpt(page, chars=240, sought=lambda word: 0.5 * (word in {"mills", "ledger"}), clauses=True)
    assert "edit" not in told
    assert told.count("https://mills.org/") >= 3


@given(st.text(alphabet='[]()!#/ab "\\n', max_size=60))
def test_no_line_is_too_strange(line: str) -> None:
    assert len(without_targets(line)) <= len(line)
