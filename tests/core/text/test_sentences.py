"""Where a sentence ends."""

from __future__ import annotations

import pytest

from actors.core.text.sentences import ends_within, is_ended, sentences_of


@pytest.mark.parametrize(
    "text",
    ["One two three four. Five six!\n\n- seven: eight nine\nAm 3. Mai kam er. 「はい。」そう。", "", "…", ". . ."],
)
def test_sentences_are_all_of_a_text(text: str) -> None:
    assert "".join(sentences_of(text)) == text


def test_a_title_ends_no_sentence_of_a_letter() -> None:
    assert sentences_of("Please write the letter to Dr. Imke Fries. She is in until noon.") == [
        "Please write the letter to Dr. Imke Fries.",
        " She is in until noon.",
    ]


@pytest.mark.parametrize(
    ("part", "following", "is_within"),
    [
        ("Die Anzeige muss bis 27.", "September bei Frau Albers sein.", True),
        ("Der Antrag wird am 12.", "eingereicht.", True),
        ("Le musée attend que M.", "Lacoste donne son accord.", True),
        ("The inspection is done by Dr.", "Imke Fries.", True),
        ("The total is 42.", "Then it went on.", False),
        ("We met in 1998.", "März was cold.", False),
        ("It is no.", "The end.", False),
        ("Wir brauchen 12.", "Maike kommt.", False),
        ("Wir zahlen 12.", "Änderungen folgen.", False),
        ("Нам нужно 12.", "Потом пойдём домой.", False),
        ("We take plan A.", "It is cheap.", False),
    ],
)
def test_no_sentence_ends_within_a_date_or_a_title(part: str, following: str, is_within: bool) -> None:
    assert ends_within(part, following) == is_within


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("It costs 250.", True),
        ("He asked: “Why?” ", True),
        ("(So it was.)", True),
        ("Here it is:", True),
        ("値段は二百円です。", True),
        ("注意：", True),
        ("Kind regards", False),
        ("x = y;", False),
        ("...", False),
        ("", False),
    ],
)
def test_a_sentence_ends_with_its_sign_also_within_quotes(text: str, ended: bool) -> None:
    assert is_ended(text) == ended
