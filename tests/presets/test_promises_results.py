"""What the documents promise of large results of tools, through the whole path: many parts, images, lists."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors.core.caps import cap_tokens
from protocol.facts import ToolOutputSpilled
from protocol.formats.messages import ANTHROPIC, CHAT, RESPONSES
from protocol.formats.validate import problems
from protocol.policy import resolve
from protocol.presets import PRESETS
from tests.builders import COUNT, Talk, assistant, result, user, words

IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 40


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(number: int) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"{IMAGE}{number:04}"}}


def answered(preset: str, content: Any, **sections: Any) -> Talk:
    """Return a conversation whose tool just returned *content*, in a window of 50,000."""
    budget = {"window": 50_000, "reserve": 0}
    talk = Talk(resolve([{"preset": preset, "budget": budget, "squeeze": {"mode": "off"}}, sections]))
    talk.play(user("Look."), assistant(None, "c"), result("c", content))
    return talk


def spilled(talk: Talk) -> list[ToolOutputSpilled]:
    return [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]


@pytest.mark.parametrize(
    ("preset", "parts", "tokens"), [*((preset, 60, 700) for preset in PRESETS), ("octopus-fifo", 600, 30)]
)
def test_the_cap_of_a_result_is_for_all_its_parts(preset: str, parts: int, tokens: int) -> None:
    said = [text(f"row {at} {words(tokens - 3)}") for at in range(parts)]
    talk = answered(preset, said)
    policy = talk.state.policy
    assert policy is not None
    assert talk.state.live[-1].tokens <= cap_tokens(policy, talk.state.usable_tokens) + 4
    assert list(talk.bodies.values()) == ["\n".join(one["text"] for one in said).encode()]
    (fact,) = spilled(talk)
    assert len(talk.shown()[-1]["content"]) == 1
    assert talk.shown()[-1]["content"][0]["text"] == fact.text
    assert fact.sha256[:16] in fact.text
    for profile in (CHAT, ANTHROPIC, RESPONSES):
        talk.land(talk.sealed((), adopt=resolve([{"preset": preset, "shape": {"profile": profile}}])))
        assert problems(talk.shown(), profile) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_parts_that_fit_together_stay_as_they_were_said(preset: str) -> None:
    said = [text(f"row {at}") for at in range(60)]
    assert answered(preset, said).shown()[-1] == result("c", said)


def test_results_of_anthropic_count_as_a_whole_too() -> None:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    given = [text(f"row {at} {words(697)}") for at in range(60)]
    found = {"type": "tool_result", "tool_use_id": "c", "content": given}
    talk = Talk(resolve([{"preset": "holmes", "budget": {"window": 50_000, "reserve": 0}}]))
    talk.play(
        user("Look."), {"role": "assistant", "content": [call]}, {"role": "user", "content": [found, text("So?")]}
    )
    assert talk.state.live[-1].tokens <= 7500 + 20
    (fact,) = spilled(talk)
    talk.land(talk.sealed((), adopt=resolve([{"preset": "holmes", "shape": {"profile": ANTHROPIC}}])))
    last = talk.shown()[-1]["content"]
    assert last[0]["content"] == [text(fact.text)]
    assert last[1] == text("So?")


class TestHolmes:
    """Its document: of an oversized result the text is a file, and each image is one that can be read back."""

    def test_thirty_images_over_the_cap_are_files_named_in_one_pointer(self) -> None:
        talk = answered("holmes", [image(at) for at in range(30)], budget={"window": 128_000, "reserve": 0})
        facts = spilled(talk)
        assert sorted(talk.bodies.values()) == [f"{IMAGE}{at:04}".encode() for at in range(30)]
        (block,) = talk.shown()[-1]["content"]
        assert all(fact.sha256[:16] in block["text"] for fact in facts)
        assert talk.state.live[-1].tokens < 1000
        assert IMAGE not in json.dumps(talk.shown())

    def test_an_image_beside_a_text_over_the_cap_is_a_file_too(self) -> None:
        talk = answered("holmes", [text(words(12_000)), image(1)])
        assert list(talk.bodies.values()) == [words(12_000).encode(), f"{IMAGE}0001".encode()]
        (block,) = talk.shown()[-1]["content"]
        assert all(fact.sha256[:16] in block["text"] for fact in spilled(talk))
        assert "image/png" in block["text"]

    def test_what_fits_with_its_images_is_shown_with_them(self) -> None:
        said = [text(words(2000)), image(1), image(2)]
        assert answered("holmes", said).shown()[-1] == result("c", said)

    def test_elsewhere_images_stay_where_they_fit_by_themselves(self) -> None:
        talk = answered("docsgpt", [text(words(30_000)), image(1)])
        first, second = talk.shown()[-1]["content"]
        assert first["text"] == spilled(talk)[0].text
        assert second == image(1)


ENDS = re.compile(r"\[Result truncated: showing ([\d,]+) of ([\d,]+) (\w+) from look\. To see others, narrow the query")
ROWS: list[dict[str, Any]] = [{"path": f"/srv/app/module_{at}.py", "size": at} for at in range(5000)]


class TestDigitorn:
    """Half of the window, the first items that fit, how many of how many, and how to ask for less."""

    @pytest.mark.parametrize(
        ("said", "what"),
        [
            (json.dumps(ROWS), "results"),
            (json.dumps({"root": "/srv", "entries": ROWS}), "results"),
            ("\n".join(row["path"] for row in ROWS * 2), "lines"),
            ([text(row["path"]) for row in ROWS * 2], "lines"),
        ],
        ids=["a list", "a list in an object", "lines", "many parts"],
    )
    def test_the_first_items_that_fit_are_shown_and_counted(self, said: Any, what: str) -> None:
        talk = answered("digitorn-truncate", said)
        content = talk.shown()[-1]["content"]
        shown = content if isinstance(content, str) else content[0]["text"]
        number, total, named = ENDS.search(shown).groups()  # type: ignore[union-attr]
        count, of = int(number.replace(",", "")), int(total.replace(",", ""))
        assert (of, named) == (10_000 if what == "lines" else 5000, what)
        assert spilled(talk)[0].sha256[:16] in shown
        lines = shown.split("\n")
        if what == "lines":
            assert lines[1:-1] == [row["path"] for row in (ROWS * 2)[:count]]
        else:
            found = json.loads(lines[1])
            assert (found["entries"] if isinstance(found, dict) else found) == ROWS[:count]
        # half of the window, and one item more would be over it
        assert 24_500 < COUNT(shown) <= 25_000
        assert problems(talk.shown()) == []

    def test_what_failed_says_first_why(self) -> None:
        talk = answered("digitorn", json.dumps({"error": "disk is full", "entries": ROWS}))
        assert "disk is full" in talk.shown()[-1]["content"][:600]

    def test_a_text_without_lines_shows_how_it_begins(self) -> None:
        talk = answered("digitorn", words(60_000))
        shown = talk.shown()[-1]["content"]
        assert "word word word" in shown
        assert "showing the beginning of the first of 1 lines from look" in shown
        assert COUNT(shown) <= 25_000
