"""Attached: what a program put beside a person's words is known, named and parted from them; in doubt it stays."""

import pytest

from actors.core.text.attached import parted, told_lines

FILE = "\n".join(f"{number} | a line of the file" for number in range(1, 40))
WORDS = "Please mend the test in it."


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f'{WORDS}\n\n<file_content path="src/a.py">\n{FILE}\n</file_content>', ["src/a.py"]),
        (f'{WORDS}\n<url_content url="https://example.com">\n{FILE}\n</url_content>', ["https://example.com"]),
        (
            f'<attachments>\n<attachment id="a.md" filePath="docs/a.md">\n{FILE}\n</attachment>\n'
            f'<attachment id="b">\n{FILE}\n</attachment>\n</attachments>\n{WORDS}',
            ["a.md", "b"],
        ),
        (f"<attached_files>\n```file:///srv/a.py\n{FILE}\n```\n</attached_files>\n\n{WORDS}", ["/srv/a.py"]),
        (f'<file name="/srv/b.py">\n{FILE}\n</file>\n{WORDS}', ["/srv/b.py"]),
        (
            f"{WORDS}\n--- Content from referenced files ---\nContent from @src/a.py:\n{FILE}\n--- End of content ---",
            ["src/a.py"],
        ),
        (
            "# Context from my IDE setup:\n\n## Active file: src/a.py\n\n## Active selection of the file:\n"
            f"{FILE}\n\n## Open tabs:\n- a.py: src/a.py\n\n## My request for Codex:\n{WORDS}",
            ["src/a.py"],
        ),
    ],
)
def test_what_a_program_attached_is_parted_from_the_words(text: str, names: list[str]) -> None:
    words, found = parted(text)
    assert words == WORDS
    assert [name for one in found for name in one.names] == names
    assert all("20 | a line of the file" in one.text for one in found)


@pytest.mark.parametrize(
    "text",
    [
        WORDS,
        "",
        f'<file_content path="a">\n{FILE}\n</file_content>',  # nobody says anything
        f'{WORDS}\n<file_content path="a">\nshort\n</file_content>',
        f"{WORDS}\n<document>\n{FILE}\n</document>",  # a person's own element
        f'{WORDS} Use <file path="a"> for it.\n{FILE}',
        f"{WORDS}\n<attachments>\n{FILE}\nand more of what I say",  # has no end
        f'{WORDS}\n<filed path="a">\n{FILE}\n</filed>',
    ],
)
def test_in_doubt_all_is_a_persons(text: str) -> None:
    assert parted(text) == (text, [])


def test_what_is_attached_may_have_such_an_element_itself() -> None:
    inner = f'<file_content path="b">\n{FILE}\n</file_content>'
    words, (one,) = parted(f'{WORDS}\n<file_content path="a">\n{inner}\nmore\n</file_content>\nAnd this.')
    assert words == f"{WORDS}\n\nAnd this."
    assert one.text == f"{inner}\nmore"


def test_of_one_whose_end_was_cut_off_the_rest_is_attached() -> None:
    words, (one,) = parted(f'{WORDS}\n<file_content path="a">\n{FILE}\n[… 1,234 lines left out …]\n99 | the end')
    assert words == WORDS
    assert one.text.endswith("99 | the end")


def test_codex_tells_of_an_editors_state_and_of_nothing_that_was_said() -> None:
    state = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## Open tabs:\n- a.py: a.py\n\n"
    assert parted(f"{state}## My request for Codex:\n{WORDS}\n") == (f"{WORDS}\n", [])
    assert parted(f"\n## My request for Codex:\n{WORDS}") == (WORDS, [])
    assert parted(f"{state}## My request for Codex:\n") == (f"{state}## My request for Codex:\n", [])


def test_empty_lines_and_marks_take_no_room() -> None:
    assert told_lines("1 | a\n2 |\n\n3→\n[… 12 lines left out …]\n  16 | b") == "1 | a\n…\n  16 | b"


@pytest.mark.parametrize(
    "text",
    [
        '<file_content path="a">\n' * 20_000,
        "<" * 500_000,
        " " * 300_000 + '<file path="a">',
        "--- Content from referenced files ---\n" * 10_000,
        "# Context from my IDE setup:\n" * 10_000,
        "<file path=" * 50_000,
        "\n<attachments " + "x" * 300_000,
        f"w\n<attachments>\n{'<attachment ' * 30_000}\n</attachments>",
        f"w\n<attachments>\n{'```a' * 50_000}\n</attachments>",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    words, found = parted(text)
    assert len(words) + sum(len(one.text) for one in found) <= len(text)
