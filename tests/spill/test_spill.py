"""Spill: what is over the cap leaves the window, with a pointer that says what and where."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from actors.core.caps import CAP_TOKENS_MIN, POINTER_TOKENS, cap_tokens
from actors.core.entry import ESTIMATE_BYTES_PER_TOKEN, EXACT_BYTES_MAX
from actors.core.flow import next_actor
from actors.spill.decide import Spilled, claims, spill
from actors.spill.labels import KEY_CHARS
from actors.spill.pointer import CLOSING_CHARS, OPENING_CHARS, ends_of
from actors.spill.without_store import degraded
from protocol import codec
from protocol.facts import (
    Claim,
    CompactionDeclined,
    MessagesAppended,
    SaidMessage,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.formats import messages
from protocol.policy import Policy
from tests.builders import COUNT, Talk, assistant, policy, result, system, user, words

WANTED = policy(10_000, spill={"share": 0.03, "preview": 0.9})
CAP = cap_tokens(WANTED, 10_000)
FRAMES = '  File "/srv/app/m.py", line 7, in step\n    call()\n'


def waiting(*said: dict[str, Any], wanted: Policy = WANTED) -> Talk:
    """Return a conversation in which *said* was said and nobody has acted."""
    talk = Talk(wanted)
    talk.append(*said)
    return talk


def spilled(talk: Talk) -> Spilled:
    found = spill(talk.state, uploads=talk.uploads, count=COUNT)
    assert found is not None
    return found


def claimed(text: str, *, role: str = "user", uploaded: bool = True) -> Talk:
    """Return a conversation with one message whose text was uploaded before."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    raw = messages.encode({"role": role, "content": ""})
    claim = Claim(pointer="/content", sha256=sha256, bytes=len(text.encode()))
    talk = Talk(WANTED)
    talk.say(MessagesAppended(messages=(SaidMessage(raw=raw, claims=(claim,)),)))
    talk.uploads = {sha256: text if uploaded else None}
    return talk


def test_the_cap_is_the_smaller_of_share_and_tokens() -> None:
    assert cap_tokens(policy(10_000, spill={"share": 0.1, "tokens": 300}), 10_000) == 300
    assert cap_tokens(policy(10_000, spill={"share": 0.1, "tokens": 3000}), 10_000) == 1000
    assert cap_tokens(policy(10_000, spill={"share": 0.0}), 10_000) == CAP_TOKENS_MIN


@pytest.mark.parametrize(("tokens", "leaves"), [(CAP, False), (CAP + 1, True)])
def test_a_part_may_be_as_large_as_the_cap(tokens: int, leaves: bool) -> None:
    talk = waiting(user(words(tokens)))
    assert (next_actor(talk.state) == "spill") is leaves
    assert bool(talk.state.waiting) is leaves


@pytest.mark.parametrize(("size", "leaves"), [(1000, False), (1001, True)])
def test_a_part_may_have_as_many_bytes_as_allowed(size: int, leaves: bool) -> None:
    talk = waiting(user(words(400)[:size]), wanted=policy(10_000, spill={"bytes": 1000}))
    assert (next_actor(talk.state) == "spill") is leaves


def test_a_text_smaller_than_its_pointer_stays_whatever_its_bytes() -> None:
    assert next_actor(waiting(user(" " * 5000), wanted=policy(10_000, spill={"bytes": 400})).state) is None


@pytest.mark.parametrize("said", [system(words(900)), assistant(None, "c", arguments=words(900))])
def test_instructions_and_the_arguments_of_calls_are_never_spilled(said: dict[str, Any]) -> None:
    assert spill(waiting(said).state, uploads={}, count=COUNT) is None


def test_what_an_assistant_said_over_the_cap_keeps_a_part_of_itself_up_to_the_cap() -> None:
    said = "\n".join(f"agent {number} reports on ORD-{number}" for number in range(4000))
    talk = waiting(assistant(said))
    found = spilled(talk)
    (fact,) = found.facts
    assert isinstance(fact, ToolOutputSpilled)
    assert found.bodies == (said.encode(),)
    assert 0.9 * CAP < fact.text_tokens <= CAP
    assert fact.text.startswith(f"[{COUNT(said):,} tokens of ")


def test_what_an_assistant_said_is_half_of_itself_where_that_is_less_than_the_cap() -> None:
    said = "\n".join(f"line {number} of it" for number in range(300))
    (fact,) = spilled(waiting(assistant(said), wanted=policy(10_000, spill={"share": 0.11, "preview": 0.1}))).facts
    assert isinstance(fact, ToolOutputSpilled)
    assert 1500 < fact.tokens < 3000
    assert 0.8 * fact.tokens / 2 < fact.text_tokens <= fact.tokens / 2


def test_what_an_assistant_said_that_is_a_little_over_the_cap_loses_little_or_nothing() -> None:
    said = "\n".join(f"line {number} of it" for number in range(300))
    wanted = policy(10_000, spill={"share": 0.15, "preview": 0.1}, digest={"records": "fields"})
    assert spill(waiting(assistant(said), wanted=wanted).state, uploads={}, count=COUNT) is None
    for cap in (1_300, 1_200):
        wanted = policy(10_000, spill={"share": cap / 10_000, "preview": 0.1}, digest={"records": "fields"})
        (fact,) = spilled(waiting(assistant(said), wanted=wanted)).facts
        assert isinstance(fact, ToolOutputSpilled)
        over = fact.tokens - cap
        assert over > 0
        assert 0.9 * (cap - over) < fact.text_tokens <= max(cap - over, fact.tokens // 2)


def test_a_policy_may_keep_whatever_an_assistant_said() -> None:
    wanted = policy(10_000, spill={"assistants": "keep"})
    assert spill(waiting(assistant(words(9000)), wanted=wanted).state, uploads={}, count=COUNT) is None


def test_a_spilled_result_is_an_artifact_and_a_pointer() -> None:
    text = "\n".join(f"line {number} of the log" for number in range(400))
    talk = waiting(assistant(None, "c"), result("c", text))
    found = spilled(talk)
    body = text.encode()
    (fact,) = found.facts
    assert isinstance(fact, ToolOutputSpilled)
    assert found.bodies == (body,)
    assert fact == ToolOutputSpilled(
        number=2,
        pointer="/content",
        sha256=hashlib.sha256(body).hexdigest(),
        bytes=len(body),
        tokens=COUNT(text),
        estimated=False,
        kind="text",
        text=fact.text,
        text_tokens=COUNT(fact.text),
    )
    assert fact.text.startswith(
        f"[{COUNT(text):,} tokens of text/plain ({len(body):,} bytes, 400 lines) are kept as an artifact; "
        f'below is a part. Read more: read_artifact("{fact.sha256[:KEY_CHARS]}", lines="1-200") or a pattern. '
    )
    assert "line 0 of the log" in fact.text
    assert fact.text.endswith("line 399 of the log")


@pytest.mark.parametrize(
    "text",
    [
        words(5000),
        "日本語のログ\n" * 3000,
        "x" * 70_000,
        "\ud800" * 3000,
        "\n" * 9000,
        "👩‍💻" * 2000,
        json.dumps({"error": words(900), "rows": [words(9)] * 900}),
        "Traceback (most recent call last):\n" + FRAMES * 40 + "KeyError: 'ORD-7'",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 900,
    ],
)
@pytest.mark.parametrize("window", [300, 3000, 100_000])
def test_a_pointer_is_bounded_and_counted(text: str, window: int) -> None:
    talk = waiting(user(text), assistant(None, "c"), result("c", text), wanted=policy(window))
    room = max(POINTER_TOKENS, cap_tokens(policy(window), window) // 2)
    talk.settle()
    for fact in talk.facts:
        if isinstance(fact, ToolOutputSpilled):
            ends = (
                POINTER_TOKENS + sum(map(COUNT, ends_of(messages.without_surrogates(text)))) if fact.number == 1 else 0
            )
            assert fact.text_tokens == COUNT(fact.text) <= min(max(room, ends), fact.tokens)
            assert fact.text.encode()


@pytest.mark.parametrize("window", [400, 3000, 20_000])
def test_the_beginning_and_the_end_of_what_a_user_said_stay_word_for_word(window: int) -> None:
    pasted = "\n".join(f"line {number} of what I pasted" for number in range(3000))
    text = f"Fix ORD-1.\n{pasted}\nWhich of these lines broke ORD-2?"
    talk = waiting(user(text), wanted=policy(window))
    (fact,) = spilled(talk).facts
    assert isinstance(fact, ToolOutputSpilled)
    assert text[:OPENING_CHARS] in fact.text
    assert fact.text.endswith(text[-CLOSING_CHARS // 2 :])


def test_a_question_behind_one_long_line_stays() -> None:
    talk = waiting(user("x" * 90_000 + " Why does ORD-7 fail?"), wanted=policy(3000))
    (fact,) = spilled(talk).facts
    assert isinstance(fact, ToolOutputSpilled)
    assert fact.text.endswith(" Why does ORD-7 fail?")


MEDIUM = policy(10_000, spill={"share": 0.15, "medium": 0.03})
NOISE = "\n".join(f"2026-01-01 10:00:{second:02} INFO tick {second}" for second in range(60))


def test_a_result_of_medium_size_is_shortened_and_its_original_kept() -> None:
    talk = waiting(assistant(None, "c"), result("c", NOISE), wanted=MEDIUM)
    found = spilled(talk)
    (fact,) = found.facts
    assert isinstance(fact, ToolOutputSpilled)
    assert found.bodies == (NOISE.encode(),)
    assert (fact.kind, fact.text_tokens < fact.tokens * 0.9) == ("log", True)


@pytest.mark.parametrize(("tokens", "asked"), [(300, False), (301, True)])
def test_the_medium_band_begins_above_its_share(tokens: int, asked: bool) -> None:
    talk = waiting(assistant(None, "c"), result("c", words(tokens)), wanted=MEDIUM)
    assert (next_actor(talk.state) == "spill") is asked


def test_a_user_is_not_shortened_below_the_cap() -> None:
    assert next_actor(waiting(user(words(1400)), wanted=MEDIUM).state) is None


DENSE = "\n".join(f"{number} = {number % 7} * {number % 9}" for number in range(120))


def test_a_shortening_that_wins_too_little_is_declined_once_and_the_message_stays() -> None:
    wanted = policy(10_000, spill={"medium_keep": 1.0, "preview": 1.0, "share": 0.1})
    talk = waiting(assistant(None, "c"), result("c", DENSE), user("next"), wanted=wanted)
    (fact,) = spilled(talk).facts
    assert isinstance(fact, CompactionDeclined)
    assert (fact.boundary, fact.stage) == (2, "spill")
    talk.settle()
    assert talk.bodies == {}
    assert talk.shown()[1] == result("c", DENSE)
    assert talk.view().numbers == (1, 2, 3)
    assert spill(talk.state, uploads={}, count=COUNT) is None


def test_asked_twice_spill_has_nothing_to_say() -> None:
    talk = waiting(user(words(CAP + 1)))
    assert talk.step()
    assert spill(talk.state, uploads={}, count=COUNT) is None
    assert next_actor(talk.state) is None


def test_only_the_part_over_the_cap_is_replaced() -> None:
    parts = [{"type": "text", "text": "small"}, {"type": "text", "text": words(CAP + 1)}]
    talk = waiting(user(parts))
    talk.settle()
    (shown,) = talk.shown()
    assert shown["content"][0] == parts[0]
    assert shown["content"][1]["text"].startswith("[301 tokens of text/plain (")


def test_a_claimed_part_is_read_from_the_store_and_not_stored_again() -> None:
    talk = claimed("tiny")
    assert claims(talk.state) == (hashlib.sha256(b"tiny").hexdigest(),)
    found = spilled(talk)
    (fact,) = found.facts
    assert found.bodies == ()
    assert isinstance(fact, ToolOutputSpilled)
    # it was too large for a message, and not for the window
    assert (fact.bytes, fact.tokens, fact.text, fact.text_tokens) == (4, 1, "tiny", 1)


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_claimed_part_leaves_whoever_said_it_where_it_is_over_its_cap(role: str) -> None:
    talk = claimed(words(2000), role=role)
    talk.settle()
    assert "are kept as an artifact" in talk.shown()[0]["content"]


@pytest.mark.parametrize("role", ["system", "assistant", "user"])
def test_a_claimed_part_within_its_cap_is_shown_whole(role: str) -> None:
    talk = claimed("tiny", role=role)
    talk.settle()
    assert talk.shown()[0]["content"] == "tiny"


def test_a_claimed_part_that_was_never_uploaded_says_so() -> None:
    talk = claimed("lost", uploaded=False)
    text = "[This part of 4 bytes was announced but never uploaded.]"
    assert spilled(talk).facts == (
        ToolOutputTrimmed(
            number=1,
            pointer="/content",
            bytes=4,
            tokens=4 // ESTIMATE_BYTES_PER_TOKEN,
            estimated=True,
            reason="missing upload",
            text=text,
            text_tokens=COUNT(text),
        ),
    )
    talk.settle()
    assert talk.shown() == [user(text)]


def test_claimed_arguments_stay_json() -> None:
    talk = Talk(WANTED)
    text = json.dumps({"script": words(2000)})
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    pointer = "/tool_calls/0/function/arguments"
    raw = messages.encode(assistant(None, "c", arguments=""))
    claim = Claim(pointer=pointer, sha256=sha256, bytes=len(text))
    talk.say(MessagesAppended(messages=(SaidMessage(raw=raw, claims=(claim,)),)))
    talk.uploads = {sha256: text}
    talk.settle()
    arguments = talk.shown()[0]["tool_calls"][0]["function"]["arguments"]
    assert sha256[:KEY_CHARS] in json.loads(arguments)["spilled"]


def test_one_step_holds_as_many_texts_as_one_commit_and_the_next_ones_the_rest() -> None:
    talk = Talk(policy(2_000_000, spill={"tokens": 60_000, "share": 1.0, "preview": 1.0}))
    said = [user(f"{at} " + words(60_100)) for at in range(9)]
    talk.append(*said)
    talk.settle()
    assert max(len(codec.encode_commit(commit)) for commit in talk.commits) < 900_000
    assert sum(isinstance(fact, ToolOutputSpilled) for fact in talk.facts) == len(said)


def test_what_is_shown_of_one_part_fits_into_a_commit_whatever_the_window() -> None:
    talk = Talk(policy(800_000, spill={"tokens": 2**40, "share": 0.5, "bytes": 2**40, "preview": 1.0}))
    talk.play(user(words(500_000)))
    assert max(len(codec.encode_commit(commit)) for commit in talk.commits) < 900_000
    assert "are kept as an artifact" in talk.shown()[0]["content"]


def test_a_very_large_part_is_estimated_and_says_about() -> None:
    text = "a" * (EXACT_BYTES_MAX + 1)
    (fact,) = spilled(waiting(user(text))).facts
    assert isinstance(fact, ToolOutputSpilled)
    assert (fact.estimated, fact.tokens) == (True, len(text) // ESTIMATE_BYTES_PER_TOKEN)
    assert fact.text.startswith("[About ")


def test_without_a_store_a_part_is_shortened_and_its_message_named() -> None:
    talk = waiting(user(words(2000)))
    found = degraded(talk.state, reason="S3 is down", count=COUNT)
    assert found is not None
    (fact,) = found.facts
    assert found.bodies == ()
    assert isinstance(fact, ToolOutputTrimmed)
    assert (fact.number, fact.reason, fact.tokens) == (1, "S3 is down", 2000)
    assert 'read_artifact("messages:1")' in fact.text
    talk.land(talk.sealed(found.facts))
    assert next_actor(talk.state) is None


def test_messages_behind_a_large_one_wait_for_it_and_keep_their_order() -> None:
    talk = waiting(user(words(2000)), user("small"))
    assert [entry.number for entry in talk.state.arrived] == [1, 2]
    talk.settle()
    assert talk.view().numbers == (1, 2)


def test_under_rules_3_an_error_is_shown_with_its_frames_and_with_what_was_done_before_it() -> None:
    calm = "\n".join(
        f"2025-10-08 12:{at // 60:02}:{at % 60:02} INFO request {at} of payments done" for at in range(300)
    )
    trace = "\n".join(
        (
            "2025-10-08 12:51:24 INFO request ORD-12363 begins",
            "2025-10-08 12:51:24 ERROR no connection",
            "java.sql.SQLException: Connection pool exhausted",
            "\tat com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:197)",
            "\tat com.payment.repository.PaymentRepository.save(PaymentRepository.java:45)",
            "Caused by: java.sql.SQLTimeoutException: Timeout waiting for connection from pool",
            "\tat com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:203)",
        )
    )
    wanted = policy(6_000, spill={"share": 0.2, "index": 0.0}, digest={"records": "fields"})
    (fact,) = spilled(waiting(assistant("", "a"), result("a", f"{calm}\n{trace}\n{calm}"), wanted=wanted)).facts
    assert isinstance(fact, ToolOutputSpilled)
    assert trace in fact.text
