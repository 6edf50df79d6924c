"""What stands below a title: where a report, or a list of pages that were found, is told by some of its lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.core.text.excerpt import excerpt, sentences_excerpt


def test_what_stands_below_a_title_is_never_told_below_another_one() -> None:
    parts = [
        ("3. Class of storage that is missing", "redis-0 waits, it cannot be scheduled"),
        ("4. Access to images", "crm-webapp-31 got 403 from its registry"),
        ("5. Stack overflow", "crash-pod fails on purpose, as its name says"),
    ]
    said = "## Findings\n\nNine pods are unhealthy.\n\n" + "\n\n".join(
        f"**{title}**\n- **Found:** {found}\n- **Since:** Monday, and seen by nobody so far" for title, found in parts
    )

    def sought(word: str) -> float:
        return 2.0 * (word in {"storage", "scheduled", "registry", "crm-webapp-31", "403"})

    for chars in range(120, len(said), 10):
        for told in (
            excerpt(said, chars=chars, sought=sought, clauses=True, ordered=True),
            sentences_excerpt(said, chars=chars, sought=sought, clauses=True),
        ):
            for title, found in parts:
                before, _, _ = told.partition(found)
                titles = [one for one, _ in parts if one in before]
                assert before == told or titles[-1:] in ([title], []), (chars, told)


def _found_pages() -> list[tuple[str, str]]:
    makers = ("Gear", "Bell", "Clock", "Wheel")
    return [
        (f"{name} works of valley {at}", f"Founder {name} {at} left the mill.") for at, name in enumerate(makers, 3)
    ]


@pytest.mark.parametrize(
    "of",
    [
        lambda title, text, at: f"{at}. [{title}](https://mills.org/{at}/{'w' * 30})\n{text}",
        lambda title, text, at: f"Search Result {at}:\n{title}\nhttps://mills.org/{at}\n{text}",
    ],
    ids=["links", "addresses"],
)
def test_of_pages_that_were_found_no_line_stands_below_the_name_of_another(of: Callable[[str, str, int], str]) -> None:
    pages = _found_pages()
    said = "\n".join(of(title, text, at) for at, (title, text) in enumerate(pages, 1))
    for chars in range(60, len(said), 5):
        told = excerpt(said, chars=chars, sought=lambda word: 0.6 * (word == "founder"), clauses=True)
        for title, text in pages:
            before, _, _ = told.partition(text)
            names = [name for name, _ in pages if name in before]
            assert before == told or names[-1:] in ([title], []), (chars, told)
        assert "Search Result 3:\n…" not in told


def test_a_long_title_does_not_stand_for_what_matters_below_it() -> None:
    title = "## What was found out on the machines of the second hall, after all of the first one had been looked at"
    said = "\n".join([title, *(f"- Step {at} went well" for at in range(20)), "- Disk sda1 of machine 40 is broken"])
    for chars in range(90, 170, 10):
        told = excerpt(said, chars=chars, sought=lambda word: 2.0 * (word == "sda1"), clauses=True, ordered=True)
        assert "Disk sda1 of machine 40 is broken" in told, chars


def test_one_address_is_no_list_of_pages() -> None:
    steps = [f"step {at} went well" for at in range(50)]
    log = "\n".join(
        ["Downloading the index of packages from the mirror", "https://mirror.org/index", *steps, "ERROR: disk is full"]
    )
    assert "ERROR: disk is full" in excerpt(log, chars=120, sought=lambda _: 0.0, clauses=True)


def test_a_label_alone_announces_no_page() -> None:
    pages = [f"Search Result {at}:\nPage {at} of mills\nhttps://mills.org/{at}\nGear {at} turns." for at in range(9)]
    told = excerpt("\n".join(pages), chars=150, sought=lambda word: 0.5 * (word == "search"), clauses=True)
    assert "Search Result" not in told


def test_a_label_within_a_page_ends_it_not() -> None:
    pages = [
        f"{at}. [{name} works](https://mills.org/{at})\nAll about {name}.\nHistory:\nFounder {name} left."
        for at, name in enumerate(("Gear", "Bell", "Clock"), 1)
    ]
    for chars in range(60, 300, 10):
        told = excerpt("\n".join(pages), chars=chars, sought=lambda word: 0.6 * (word == "founder"), clauses=True)
        if told.count("Founder") > 1:
            assert "Founder Bell" not in told or told.index("[Bell works]") < told.index("Founder Bell")


def test_many_pages_are_looked_at_once() -> None:
    said = "a:\nb\nhttp://x\n" * 14_000
    assert excerpt(said, chars=500, sought=lambda _: 0.0, clauses=True)
