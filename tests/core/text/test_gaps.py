"""What was left out stays marked, however often a text is shortened again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.excerpt import excerpt, readable_lines
from actors.core.text.gaps import GAP, gapped

NUMBERED = st.lists(st.sampled_from(("", "    ", "        ", "\t")), min_size=13, max_size=60).map(
    lambda indents: [f"{indent}line_{number} = call({number * 7})" for number, indent in enumerate(indents)]
)
WANTED = st.frozensets(st.integers(0, 59), max_size=6)
ROOMS = st.lists(st.integers(60, 900), min_size=1, max_size=4).map(lambda rooms: sorted(rooms, reverse=True))

BROKEN = st.lists(
    st.sampled_from((
        "foo", "fo", "foo…", "foo …", "… foo", "… foo …", "…", "[… 3 lines left out …]", "…]", "", " ", "\t", "-",
        "---", "| a | b |", "|---|---|", "NAME   READY", "web-1   1/1", "web-2   0/1", "a.py:1: E1 foo",
        "a.py:2: E1 foo", "12: foo", "12:", "    1\tfoo", "#", "# foo", "def foo():", "@@ -1 +1 @@", "+foo", "-foo",
        "{", "}", '{"a": 1}', '"a": 1,', "[", "]", "x" * 300, "Error: foo. It is bar. " * 9, "(3 rows: in each a 1)",
        "\u3000", "\x1b[1m", "é́",
    )),
    max_size=14,
)  # fmt: skip


@given(BROKEN, ROOMS, st.sampled_from((0.0, 1.0)), st.booleans())
def test_no_lines_however_broken_stop_it_and_none_makes_it_too_long(
    lines: list[str], rooms: list[int], worth: float, ordered: bool
) -> None:
    text = "\n".join(lines)
    for chars in rooms:
        text = excerpt(text, chars=chars, sought=lambda _: worth, clauses=True, ordered=ordered)
        assert len(text) <= chars


@given(NUMBERED, WANTED, ROOMS)
def test_lines_that_did_not_follow_each_other_never_look_as_if_they_did(
    lines: list[str], wanted: frozenset[int], rooms: list[int]
) -> None:
    words = {f"line_{number}" for number in wanted}
    text = "\n".join(lines)
    for chars in rooms:
        text = excerpt(text, chars=chars, sought=lambda word: float(word in words), clauses=True)
        shown, gaps = gapped(text.split("\n"))
        places = [lines.index(line) for line in shown]
        for number, (place, before) in enumerate(zip((*places, len(lines)), (-1, *places), strict=True)):
            assert number in gaps or place == before + 1


def test_a_line_that_was_cut_stays_a_cut_one() -> None:
    line = "the first words of it, " + " ".join(f"word{at}" for at in range(60))
    once = excerpt(f"{line}\nan end", chars=120, sought=lambda word: float(word == "word30"), clauses=True)
    twice = excerpt(once, chars=len(once), sought=lambda word: 0.0, clauses=True)
    assert once == twice
    assert any(line.startswith(GAP) and line.endswith(GAP) for line in once.split("\n"))


def test_of_a_text_of_which_both_ends_are_read_the_joint_is_marked() -> None:
    text = "\n".join(f"row {number}" for number in range(40_000))
    assert GAP in readable_lines(text, indented=True)


def test_marks_of_other_shortenings_are_marks_too() -> None:
    text = "one\n[… 12 lines left out …]\ntwo …\n…     three\n[… 3 of 9 KB left out; among them:\nfour\n…]\nfive…"
    shown, gaps = gapped(text.split("\n"))
    assert shown == ["one", "two", "    three", "[… 3 of 9 KB left out; among them:", "four", "five…"]
    assert gaps == {1, 2, 5}


def test_a_last_line_that_is_the_beginning_of_another_one_was_cut_off_and_is_marked_as_left_out() -> None:
    events = [f"  Warning  Failed  {number}m  kubelet  Error: ImagePullBackOff" for number in range(9)]
    short = excerpt("\n".join([*events, "  War"]), chars=120, sought=lambda _: 0.0, clauses=True)
    assert f"Error: ImagePullBackOff {GAP}\n" in short
    assert "War" not in short.replace("Warning", "")
    # so it was where another column follows
    column = excerpt("\n".join([*events, "  Warning"]), chars=120, sought=lambda _: 0.0, clauses=True)
    assert not column.rstrip(f"{GAP} \n").endswith("Warning")
    # a result that ends with a word of its own is whole
    assert "\ndone" in excerpt("\n".join([*events, "done"]), chars=120, sought=lambda _: 0.0, clauses=True)
    assert excerpt("War", chars=9, sought=lambda _: 0.0, clauses=True) == "War"
