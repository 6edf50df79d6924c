"""Extract: what is kept of a message, in which category, and on whose word."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.extract import found_in
from actors.core.text import patterns
from protocol.facts import DigestItem
from tests.builders import Talk, assistant, policy, result, system, user


def items(*said: dict[str, Any]) -> list[DigestItem]:
    talk = Talk(policy(200_000, spill={"share": 1.0, "medium": 1.0}))
    talk.append(*said)
    return list(found_in(talk.state.live).items)


@pytest.mark.parametrize(
    ("text", "category", "value"),
    [
        ("You must never deploy on Friday. Thanks", "rule", "You must never deploy on Friday"),
        ("Ok. Never touch /srv/main.py in 2.3.1 at noon. Ok", "rule", "Never touch /srv/main.py in 2.3.1 at noon"),
        ("Hallo. Bitte niemals löschen!", "rule", "Bitte niemals löschen"),
        ("Vous ne devez jamais supprimer. Merci", "rule", "Vous ne devez jamais supprimer"),
        ("Nunca borres la tabla. Gracias", "rule", "Nunca borres la tabla"),
        ("你好。请务必备份。好", "rule", "请务必备份"),
        ("はい。必ず確認して。", "rule", "必ず確認して"),
        ("Никогда не удаляй. Да", "rule", "Никогда не удаляй"),
        ("We decided to use sqlite.", "decision", "We decided to use sqlite"),
        ("Wir haben uns für NATS entschieden.", "decision", "Wir haben uns für NATS entschieden"),
        ("Nous avons décidé.", "decision", "Nous avons décidé"),
        ("Hemos decidido usar S3.", "decision", "Hemos decidido usar S3"),
        ("我们决定使用它。", "decision", "我们决定使用它"),
        ("これを採用に決定した。", "decision", "これを採用に決定した"),
        ("All tests passed.", "outcome", "All tests passed"),
        ("Der Fehler ist behoben.", "outcome", "Der Fehler ist behoben"),
        ("C'est terminé.", "outcome", "C'est terminé"),
        ("Está resuelto.", "outcome", "Está resuelto"),
        ("问题已修复。", "outcome", "问题已修复"),
        ("作業が完了した。", "outcome", "作業が完了した"),
        ("see https://a.example/x?y=1).", "url", "https://a.example/x?y=1"),
        ("bucket s3://logs/2024/a", "url", "s3://logs/2024/a"),
        ("in ./src/app.py:", "path", "./src/app.py"),
        (r"in C:\Users\zoe\app.ini now", "path", r"C:\Users\zoe\app.ini"),
        ("build a3f9c2d1e4", "id", "a3f9c2d1e4"),
        ("booking XKLMNQ", "id", "XKLMNQ"),
        ("pod payment-service-7d9f8c4b-xk2p9 fails", "id", "payment-service-7d9f8c4b-xk2p9"),
        ("mail zoe@x.example.", "email", "zoe@x.example"),
        ("commit a3f9c2d", "commit", "a3f9c2d"),
        ("at 10.0.3.17:5432", "host", "10.0.3.17:5432"),
        ("on fe80::1ff:fe23:4567:890a now", "host", "fe80::1ff:fe23:4567:890a"),
        ("db-1.prod.internal:5432 is down", "host", "db-1.prod.internal:5432"),
        ("localhost:8080", "host", "localhost:8080"),
        ("requests==2.31.0", "version", "requests==2.31.0"),
        ("now at v1.4.2-rc.1", "version", "v1.4.2-rc.1"),
        ("Python 3.11", "version", "Python 3.11"),
        ("since 2024-05-01T10:00:00Z", "date", "2024-05-01T10:00:00Z"),
        ("on May 3, 2024", "date", "May 3, 2024"),
        ("am 3. Mai 2024", "date", "3. Mai 2024"),
        ("2024年5月3日", "date", "2024年5月3日"),
        ("daily at 3:00 AM UTC", "date", "3:00 AM UTC"),
        ("costs $1,299.50", "amount", "$1,299.50"),
        ("12,50 € each", "amount", "12,50 €"),
        ("in 35% of cases", "amount", "35%"),
        ("grew to 1.8GB", "amount", "1.8GB"),
        ("keep 90 days", "amount", "90 days"),
        ("limit 145 req/s", "amount", "145 req/s"),
        ("timeout=30", "setting", "timeout=30"),
        ("set LOG_LEVEL=debug", "setting", "LOG_LEVEL=debug"),
        ("HTTP 503", "status", "HTTP 503"),
        ("call parse_order now", "symbol", "parse_order"),
        ("call parseOrder now", "symbol", "parseOrder"),
        ("read MAX_RETRIES", "symbol", "MAX_RETRIES"),
        ("call Order.parse() now", "symbol", "Order.parse()"),
    ],
)
def test_what_is_looked_for(text: str, category: str, value: str) -> None:
    assert (category, value) in {(item.category, item.value) for item in items(user(text))}


@pytest.mark.parametrize(
    "line", ["ValueError: no such order", "java.io.IOException: gone", "FATAL: disk", "bash: Permission denied"]
)
def test_errors_are_taken_from_tool_output(line: str) -> None:
    found = items(assistant(None, "c"), result("c", f"ok\n{line}\nok"))
    assert ("error", line) in {(item.category, item.value) for item in found}


def test_words_that_only_look_like_ids_are_left_out() -> None:
    assert [item for item in items(user("the SERVERS defaced a well-known-name")) if item.category == "id"] == []


def test_a_value_has_one_category_and_the_highest_trust_of_those_who_said_it() -> None:
    found = items(
        assistant("see ORD-10042", "c"), result("c", "ORD-10042 ORD-10043"), user("ORD-10042"), system("ORD-7777")
    )
    assert {(item.category, item.value, item.trust, item.number) for item in found if "ORD" in item.value} == {
        ("id", "ORD-10042", "user", 3),
        ("id", "ORD-10043", "tool", 2),
        ("request", "ORD-10042", "user", 3),
        ("id", "ORD-7777", "user", 4),
    }


def test_only_the_user_gives_rules() -> None:
    found = items(user("Never guess."), assistant("I must always look."), system("Never stop."))
    assert {item.value for item in found if item.category == "rule"} == {"Never guess", "Never stop"}


def test_a_request_is_kept_word_for_word_with_its_lines() -> None:
    text = "Fix it:\n\n  1. first\n  2. second " + "x" * 500
    assert [item.value for item in items(user(text)) if item.category == "request"] == [text]


def test_a_setting_has_a_key_where_a_newer_value_replaces_it() -> None:
    def keys(*said: dict[str, Any]) -> set[tuple[str, str]]:
        return {(item.value, item.key) for item in items(*said) if item.category == "setting"}

    assert keys(user("timeout=30")) == {("timeout=30", "setting timeout")}
    assert keys(user("ab: 1 ab: 2")) == {("ab: 1", ""), ("ab: 2", "")}
    assert keys(assistant(None, "c", arguments='{"offset": 10}')) == {('offset": 10', "")}
    printed = [assistant(None, "c"), result("c", "offset=10 port=8080 DB_POOL=5")]
    assert keys(*printed) == {("offset=10", ""), ("port=8080", "setting port"), ("DB_POOL=5", "setting db_pool")}


LARGEST_IN_A_MESSAGE = 60_000
"""Bytes; a larger text is uploaded, and nothing is looked for in it."""


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000,
        "a-" * 30_000,
        "/".join("ab" * 20_000),
        "ERROR " * 10_000,
        "must " * 10_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        "password=" * 5_000,
        "1.2.3." * 10_000,
        "必须。" * 10_000,
        "x://a:" * 10_000,
    ],
)
def test_twice_the_text_is_at_most_twice_the_work(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text.encode()[:LARGEST_IN_A_MESSAGE].decode("utf-8", "ignore")
    read = [0]
    plain = patterns.places

    def counted(pattern: Any, data: bytes, *, most: int) -> list[list[tuple[int, int]]]:
        # RE2 reads its text once, and each match once more
        found = plain(pattern, data, most=most)
        read[0] += len(data) + sum(end - start for (start, end), *_ in found)
        return found

    def work(said: str) -> int:
        read[0] = 0
        talk = Talk(policy(200_000))
        talk.append(user(said))
        with monkeypatch.context() as patched:
            patched.setattr(patterns, "places", counted)
            found_in(talk.state.entries)
        return read[0]

    half, whole = work(text[: len(text) // 2]), work(text)
    assert 0 < half <= whole <= 2 * half + 10_000
