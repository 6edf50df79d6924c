"""`jettison dlq` as an operator meets it: separate processes, exit codes, one document a line."""

import asyncio
import json
from typing import Any

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import Address, Token, fresh_id
from protocol.subjects import Actor
from storage.work_ports import DeadLetter
from tests.promises.harness import told_by

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def dlq(settings: Settings, *arguments: str) -> tuple[int, str, str]:
    """Run `jettison dlq` on the session's servers; return its code and what it wrote."""
    done = await told_by(settings, "dlq", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


async def parked(running: Runtime, actor: Actor = "digest") -> Address:
    """Leave a letter of *actor* for a conversation of its own."""
    at = Address(tenant=Token("default"), conversation=Token(f"parked-{fresh_id()}"))
    letter = DeadLetter(
        actor=actor,
        tenant=at.tenant,
        conversation=at.conversation,
        reason="fault",
        error="KeyError",
        detail="",
        attempts=5,
        deliveries=7,
        version=3,
        hash="ab" * 32,
        seq=17,
        worker="digest@host:1",
    )
    await running.dead_letters.put(letter, headers={"traceparent": TRACE})
    return at


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


async def test_a_letter_is_listed_shown_tried_again_and_gone(running: Runtime, settings: Settings) -> None:
    at = await parked(running)
    listed, shown = await asyncio.gather(
        dlq(settings, "list", "--json"), dlq(settings, "show", str(at), "--actor", "digest")
    )
    assert listed[0] == 0
    (row,) = [row for row in rows(listed[1]) if row["address"] == str(at)]
    assert {key: row[key] for key in ("actor", "reason", "error", "attempts", "version", "seq", "trace")} == {
        "actor": "digest",
        "reason": "fault",
        "error": "KeyError",
        "attempts": 5,
        "version": 3,
        "seq": 17,
        "trace": TRACE,
    }
    assert (shown[0], "digest@host:1" in shown[1], "ab" * 32 in shown[1]) == (0, True, True)
    code, out, _ = await dlq(settings, "retry", str(at), "--json")
    assert (code, [row["address"] for row in rows(out)]) == (0, [str(at)])
    assert await running.wakes.wake("digest", at, headers={}) is False, "the actor was woken"
    code, out, err = await dlq(settings, "retry", str(at))
    assert (code, out) == (1, "")
    assert "there is no dead letter for" in err


async def test_a_dropped_letter_wakes_nobody(running: Runtime, settings: Settings) -> None:
    at, other = await parked(running), await parked(running, "cut")
    code, _, _ = await dlq(settings, "drop", str(at))
    assert code == 0
    assert await running.wakes.wake("digest", at, headers={}) is True
    code, out, _ = await dlq(settings, "drop", "--all", "--actor", "cut", "--json")
    assert (code, str(other) in {row["address"] for row in rows(out)}) == (0, True)
    assert not [left async for left in running.dead_letters.all() if left.letter.at == other]


async def test_what_is_asked_for_wrongly_is_refused_in_a_sentence(settings: Settings) -> None:
    neither, nobody = await asyncio.gather(dlq(settings, "retry"), dlq(settings, "list", "--actor", "spil"))
    assert (neither[0], "name one conversation" in neither[2]) == (2, True)
    assert (nobody[0], "choose from spill" in nobody[2]) == (2, True)
    code, _, err = await dlq(settings, "list", "--nats", "nats://127.0.0.1:9")
    assert (code, "does not answer" in err) == (4, True)
