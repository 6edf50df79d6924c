"""llm4s, step 1: what becomes of tool results (T1-T14, R1-R11, and the defects L8-L13)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from actors.spill.labels import KEY_CHARS
from actors.spill.without_store import degraded
from protocol.facts import ToolOutputSpilled
from tests.builders import COUNT, Talk, assistant, result, system, user
from tests.presets.llm4s_cases import CASES, wanted

ROWS = "".join(f"row {number} of the table; " for number in range(5000))
NULLS = json.dumps({"id": "ORD-10042", **{f"field{at}": None for at in range(200)}, "zeta": 1, "list": [], "alpha": 2})
ARRAY = json.dumps([{"n": number, "text": f"value number {number} of the array"} for number in range(50)])
LOG = "\n".join(f"2024-01-01 10:00:{at % 60:02} INFO worker {at} is fine" for at in range(150))
FRAMES = "".join(f'  File "/srv/app/step{at}.py", line {at}, in step{at}\n    call({at})\n' for at in range(50))
PYTHON = f"Traceback (most recent call last):\n{FRAMES}KeyError: 'ORD-7'"
JAVA = (
    "java.lang.IllegalStateException: the order cannot be sent\n"
    + "".join(f"\tat com.acme.orders.Sender{at}.run(Sender{at}.java:{at})\n" for at in range(60))
    + "Caused by: java.io.IOException: the disk is gone\n"
    + "".join(f"\tat com.acme.disk.Writer{at}.run(Writer{at}.java:{at})\n" for at in range(20))
)
MENTIONS = "The image is sent as base64 text.\n" + "\n".join(f"line {at} says value_{at}" for at in range(150))
DASHES = "Title\n---\n- a: 1\n" + "\n".join(f"- step {at}: it has value_{at}" for at in range(150))


def returned(text: str, **sections: Any) -> Talk:
    """Return a conversation in which a tool returned *text*, and the actors came to rest."""
    talk = Talk(wanted(128_000, **sections))
    talk.play(user("Look."), assistant(None, "call-1"), result("call-1", text))
    return talk


def pointer(talk: Talk) -> ToolOutputSpilled:
    """Return the one fact: a pointer whose artifact is the whole original."""
    (fact,) = talk.facts
    assert isinstance(fact, ToolOutputSpilled)
    return fact


def shown(talk: Talk) -> str:
    text: str = talk.shown()[2]["content"]
    return text


def original(talk: Talk) -> str:
    return talk.bodies[pointer(talk).sha256].decode()


@CASES.of("T1", "T4", "T13", "R1", "R3", "R5", "R7", "R8")
@pytest.mark.parametrize(
    "text",
    [
        '{"status": "ok", "id": null, "list": []}',
        "2024-01-01 INFO a\n2024-01-01 INFO b\n2024-01-01 INFO c",
        "ERROR: it failed\nERROR: it failed\nERROR: it failed",
        "data:image/png;base64,iVBORw0KGgo=",
        '{"broken": [1, 2',
        "Well, basically, you know, I actually think so. I actually think so. I actually think so.",
        "",
    ],
)
def test_a_small_result_stays_byte_for_byte(text: str) -> None:
    talk = returned(text)
    assert (talk.shown(), talk.facts) == ([user("Look."), assistant(None, "call-1"), result("call-1", text)], [])


@CASES.of("T5", "T6", "E2")
@pytest.mark.parametrize(("size", "pointers"), [(2047, 0), (2048, 0), (2049, 1), (8192, 1), (8193, 1)])
def test_up_to_2048_bytes_stay_and_what_is_larger_is_stored_whole(size: int, pointers: int) -> None:
    talk = returned(ROWS[:size])
    assert len(talk.facts) == pointers
    assert [body.decode() for body in talk.bodies.values()] == [ROWS[:size]] * pointers


@CASES.of("T1", "T5")
@pytest.mark.parametrize(("size", "pointers"), [(2048, 0), (2049, 1)])
def test_sizes_are_bytes_and_not_characters(size: int, pointers: int) -> None:
    text = "ä" * (size // 2) + "x" * (size % 2)
    assert len(text.encode()) == size
    assert len(returned(text).facts) == pointers


@CASES.of("T6", "E2")
@pytest.mark.parametrize("size", [8193, 10_000, 100_000])
def test_however_large_a_result_is_its_pointer_is_small(size: int) -> None:
    fact = pointer(returned(ROWS[:size]))
    assert fact.text_tokens <= min(fact.tokens // 2, int(0.4 * 8192 / 3))


@CASES.of("E2")
def test_a_lower_threshold_moves_more_out_and_binary_content_always_leaves() -> None:
    """L9: theirs says "externalized" of binary content up to 8 KB, and stores nothing."""
    sizes = (1000, 3000, 5000, 9000)
    spill = {"medium_bytes": None}
    low = sum(bool(returned(ROWS[:size], spill={**spill, "bytes": 2048}).bodies) for size in sizes)
    high = sum(bool(returned(ROWS[:size], spill={**spill, "bytes": 8192}).bodies) for size in sizes)
    assert (low, high) == (3, 1)
    encoded = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 60
    talk = returned(encoded)
    assert shown(talk).endswith("PNG image]")
    assert original(talk) == encoded


@CASES.of("T2", "L9", "L13", "R2")
def test_empty_fields_go_keys_keep_their_order_and_the_original_stays() -> None:
    talk = returned(NULLS)
    assert json.loads(shown(talk).partition("\n")[2]) == {"id": "ORD-10042", "zeta": 1, "alpha": 2}
    assert list(json.loads(shown(talk).partition("\n")[2])) == ["id", "zeta", "alpha"]
    assert original(talk) == NULLS


@CASES.of("T3", "L9")
def test_a_long_array_says_how_many_items_are_left_out_and_stays_json() -> None:
    talk = returned(ARRAY)
    rows = json.loads(shown(talk).splitlines()[-1])
    (mark,) = [row for row in rows if isinstance(row, str)]
    assert mark == f"[… {50 - (len(rows) - 1)} items left out …]"
    assert (rows[0]["n"], rows[-1]["n"]) == (0, 49)
    assert original(talk) == ARRAY


@CASES.of("T5", "L9")
def test_a_long_log_becomes_shorter_and_keeps_its_ends() -> None:
    talk = returned(LOG)
    lines = LOG.splitlines()
    assert len(shown(talk)) < len(LOG) / 2
    assert lines[0] in shown(talk)
    assert shown(talk).endswith(lines[-1])
    assert original(talk) == LOG


@CASES.of("T7")
@pytest.mark.parametrize(("text", "kind"), [(ARRAY, "json"), (LOG, "log"), (PYTHON, "trace"), (ROWS[:9000], "text")])
def test_a_pointer_names_what_it_stands_for(text: str, kind: str) -> None:
    fact = pointer(returned(text))
    assert fact.kind == kind
    named = "application/json" if kind == "json" else f"text/plain {kind}" if kind != "text" else "text/plain"
    assert fact.text.startswith(f"[{fact.tokens:,} tokens of {named} ({len(text.encode()):,} bytes, ")


@CASES.of("T8", "L8")
def test_what_a_pointer_names_is_stored_before_anybody_sees_it() -> None:
    """L8: without a store theirs makes one for each call, and its pointers dangle at once."""
    talk = returned(ROWS[:10_000])
    key = hashlib.sha256(ROWS[:10_000].encode()).hexdigest()
    assert pointer(talk).sha256 == key
    assert f'read_artifact("{key[:KEY_CHARS]}"' in shown(talk)
    assert talk.bodies == {key: ROWS[:10_000].encode()}


@CASES.of("T8")
def test_the_same_result_again_points_to_the_first_one() -> None:
    talk = returned(ROWS[:10_000])
    talk.play(assistant(None, "call-2"), result("call-2", ROWS[:10_000]))
    assert len(talk.bodies) == 1
    assert "[The same result as message 3" in talk.shown()[4]["content"]


@CASES.of("T10", "T12", "T14", "R5", "R8", "R11")
def test_of_five_messages_the_results_alone_change_and_keep_their_calls() -> None:
    large = "".join(f"A user may paste line {at}. " for at in range(900))
    said = [system(large), user(large), assistant(large, "call-1"), result("call-1", large), user("Thanks.")]
    talk = Talk(wanted(128_000))
    talk.play(*said)
    after = talk.shown()
    assert len(after) == 5
    assert [after[0], after[1], after[2], after[4]] == [said[0], said[1], said[2], said[4]]
    assert after[3].keys() == said[3].keys()
    assert (after[3]["tool_call_id"], after[3] != said[3]) == ("call-1", True)


@CASES.of("T10")
def test_an_image_of_the_users_is_no_tool_result() -> None:
    url = "data:image/png;base64," + "A" * 20_000
    said = user([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}])
    talk = Talk(wanted(128_000))
    talk.play(said)
    assert (talk.shown(), talk.facts) == ([said], [])


@CASES.of("T11")
def test_nothing_said_is_nothing_to_do() -> None:
    talk = Talk(wanted(128_000))
    talk.settle()
    assert (talk.shown(), talk.facts) == ([], [])


@CASES.of("T13")
def test_broken_json_is_text_and_keeps_both_ends() -> None:
    text = '{"a": [1, 2, ' + ", ".join(f'"value-{at}"' for at in range(400))
    talk = returned(text)
    assert pointer(talk).kind == "text"
    assert '{"a": [1, 2, "value-0"' in shown(talk)
    assert shown(talk).endswith('"value-399"')


@CASES.of("L7")
def test_a_store_that_is_down_stops_nothing() -> None:
    """L7: any error of their store makes the whole call fail."""
    talk = Talk(wanted(128_000))
    talk.append(user("Look."), assistant(None, "c"), result("c", ROWS[:10_000]))
    found = degraded(talk.state, reason="the store is down", count=COUNT)
    assert found is not None
    talk.land(talk.sealed(found.facts))
    assert 'read_artifact("messages:3")' in talk.shown()[2]["content"]
    assert talk.view().tokens < COUNT(ROWS[:10_000]) / 2


@CASES.of("L9")
def test_a_text_that_mentions_base64_is_a_text() -> None:
    talk = returned(MENTIONS)
    assert shown(talk).partition("]\n")[2].find("The image is sent as base64 text.") >= 0
    assert "line 149 says value_149" in shown(talk)


@CASES.of("L10")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (DASHES, "text"),
        (
            "--- a/main.py\n+++ b/main.py\n@@ -1,200 +1,200 @@\n"
            + "\n".join(f"+value_{at} = {at}" for at in range(200)),
            "diff",
        ),
        (
            "-----BEGIN CERTIFICATE-----\n" + "\n".join("Ab1" * 20 for _ in range(40)) + "\n-----END CERTIFICATE-----",
            "text",
        ),
    ],
)
def test_dashes_make_no_yaml_and_lose_nothing_but_the_middle(text: str, kind: str) -> None:
    """L10: theirs takes all of these for YAML, fails to parse it, and leaves seventy words."""
    talk = returned(text)
    assert pointer(talk).kind == kind
    assert text.splitlines()[0] in shown(talk)
    assert text.splitlines()[-1] in shown(talk)
    assert original(talk) == text


@CASES.of("L11")
@pytest.mark.parametrize("text", ["x" * 3000, "x" * 1500 + " " + "y" * 1500, "日本" * 1000])
def test_a_few_long_words_never_grow(text: str) -> None:
    """L11: theirs makes 6,022 characters of a word of 3,000."""
    talk = returned(text)
    assert talk.view().tokens <= COUNT(text) + 40
    assert len(shown(talk)) < len(text)
    assert COUNT(shown(talk)) <= COUNT(text)


@CASES.of("L12")
def test_traces_of_other_languages_become_shorter_and_causes_stay() -> None:
    python, java = returned(PYTHON), returned(JAVA)
    assert COUNT(shown(python)) <= COUNT(PYTHON) / 2
    assert shown(python).endswith("KeyError: 'ORD-7'")
    assert "step0.py" in shown(python)
    assert COUNT(shown(java)) <= COUNT(JAVA) / 2
    assert "java.lang.IllegalStateException: the order cannot be sent" in shown(java)
    assert "Caused by: java.io.IOException: the disk is gone" in shown(java)
