"""Everything at once, for a moment; `make chaos` goes on for 25,000 turns (promise 38)."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import sys
import time

import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from protocol import subjects
from protocol.facts import ContextServed
from protocol.ids import address
from tests.builders import Talk, policy, user, words
from tests.conftest import SAMPLE
from tests.programs.chaos import watch
from tests.programs.chaos.agent import Tally
from tests.programs.chaos.checks import Audit, Json, Spoken, audit, pointers
from tests.programs.chaos.faults import ELDERS, HERD, schedule
from tests.programs.chaos.speech import TENANTS, scripts
from tests.programs.chaos.summary import Summary
from tests.programs.chaos.tenants import STOLEN, Thief
from tests.programs.chaos.watch import Growth, Sample, grown
from tests.stack import ROOT


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_chaos_violates_nothing() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.programs.chaos", "--turns", "60", "--agents", "8", "--seed", "7", "--json"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    told = out.decode()
    assert process.returncode == 0, told
    found = msgspec.json.decode(told, type=Summary)
    assert (found.seed, found.turns, found.violations) == (7, 60, [])
    assert found.contexts_rebuilt >= found.turns
    assert "contexts rebuilt byte for byte" in found.table()
    assert min(found.thieves, found.thieves_heard, found.thieves_asked) > 0


def test_a_seed_repeats_the_schedule_and_what_is_said() -> None:
    def first(seed: int) -> list[object]:
        faults = schedule(seed, kill_seconds=0.5)
        return [*(next(faults) for _ in range(200)), *scripts(seed, 300, [SAMPLE])]

    assert first(3) == first(3)
    assert first(3) != first(4)
    assert Tally().violations == []
    faults = schedule(3, kill_seconds=0.5, spared=ELDERS)
    killed = {fault.index for fault in (next(faults) for _ in range(400)) if fault.kind == "worker"}
    assert killed == set(range(len(HERD))) - set(ELDERS)
    faults = schedule(3, kill_seconds=0.5, cluster=True)
    assert "silent" in {next(faults).kind for _ in range(400)}


def test_the_checks_find_what_is_wrong() -> None:
    spoken = Spoken()
    spoken.add([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}])
    spoken.add([{"role": "user", "content": "three"}])
    fine = [{"role": "user", "content": "one"}, {"role": "user", "content": "three"}]
    assert spoken._misplaced(fine, 1_000) == []
    account = {"role": "user", "content": "[Account of messages 2-2: what was asked and done so far]"}
    assert spoken._misplaced([*fine, account], 1_000) == [], "it stands in order, and nobody said it"
    assert spoken._misplaced(fine[::-1], 1_000) == [
        "message 1 of the view is out of order or there twice",
        "the last user message is not the last of its kind",
    ]
    assert spoken._misplaced([*fine, fine[-1]], 1_000)[-1] == "the last user message is there twice"
    assert spoken._misplaced(fine[:1], 2) == [], "it may be shortened where it is most of the budget"
    assert pointers('read it with read_artifact("messages:3-9") or `read_artifact("0123456789abcdef")`') == [
        "messages:3-9",
        "0123456789abcdef",
    ]
    assert spoken._unresolved('read_artifact("messages:3-9")') == ["the pointer messages:3-9 is beyond the 3 messages"]
    assert spoken._unresolved('read_artifact("0123456789abcdef")') == [
        "the pointer 0123456789abcdef is of nothing that was said"
    ]
    assert spoken._unresolved('read_artifact("messages:1-3")') == []


async def test_a_thief_tells_what_he_has_of_another_tenant() -> None:
    ours, theirs = TENANTS[:2]
    thief = Thief(tenant=ours)

    async def hears(subject: str, body: bytes = b"", headers: dict[str, str] | None = None) -> list[str]:
        before = len(thief.stolen)
        await thief.hear(Msg(Client(), subject=subject, data=body, headers=headers))
        return thief.stolen[before:]

    assert await hears(subjects.ready(address("c", ours)), f"said by {ours}".encode()) == []
    assert (
        await hears(f"{STOLEN}.1.x", headers={"Status": "503", "Nats-Subject": f"ctx.v1.ask.context.{theirs}.c"}) == []
    )
    assert await hears(f"{STOLEN}.1.x", b'{"type":"x","error":{"code":503}}') == []
    own = Msg(Client(), subject=subjects.ask("context", address("c", theirs)), reply=f"{STOLEN}.1.x")
    await thief.hear(own)
    assert (thief.heard, thief.stolen) == (1, []), "what he asked himself is nothing that he heard"
    assert await hears(subjects.ready(address("c", theirs)))
    assert await hears("_INBOX.x", f"said by {theirs}".encode())
    assert await hears("_INBOX.x", headers={"traceparent": theirs})
    assert await hears(f"{STOLEN}.1.x", b"{}")


TURNS = 30


def served() -> tuple[Talk, list[Json], list[str]]:
    """Return a conversation of which a context was served after each turn, what was said, and what was served."""
    talk, said, hashes = Talk(policy(900)), list[Json](), list[str]()
    for number in range(TURNS):
        said.append(user(f"{number} {words(80)}"))
        talk.play(said[-1])
        serve(talk, talk.view().hash)
        hashes.append(talk.view().hash)
    return talk, said, hashes


def serve(talk: Talk, view_hash: str) -> None:
    seen, budget = talk.view(), talk.state.usable_tokens
    talk.land(
        talk.sealed(
            (
                ContextServed(
                    upto=seen.upto,
                    budget=budget,
                    profile=seen.profile,
                    view_hash=view_hash,
                    tokens=seen.tokens,
                    level=seen.level,
                ),
            )
        )
    )


def audited(talk: Talk, said: list[Json], hashes: list[str]) -> Audit:
    return audit(talk.at, talk.records, live=talk.state, spoken=said, said=said, hashes=hashes)


def test_the_audit_rebuilds_every_context_that_was_served() -> None:
    talk, said, hashes = served()
    assert audited(talk, said, hashes) == Audit(rebuilt=TURNS, commits=len(talk.commits), wrong=[])
    assert len(talk.commits) > TURNS, "some of it was compacted"


def test_the_audit_finds_a_context_that_is_not_what_was_served() -> None:
    talk, said, hashes = served()
    serve(talk, "0" * 64)
    found = audited(talk, said, hashes)
    assert found.rebuilt == TURNS
    assert found.wrong[-1].startswith(f"version {talk.state.version} was served, and its bytes are not rebuilt")
    assert audited(talk, said, [*hashes, "1" * 64]).wrong[-1] == "a served view is not recorded, or in another order"


def test_the_audit_finds_a_broken_chain() -> None:
    talk, said, hashes = served()
    place = len(talk.records) // 2
    body = bytearray(talk.records[place].body)
    body[len(body) // 2] ^= 1
    talk.records[place] = dataclasses.replace(talk.records[place], body=bytes(body))
    assert any(wrong.startswith("the chain is broken: sequence") for wrong in audited(talk, said, hashes).wrong)


def lived(rss_mb: list[float], files: list[int], tasks: list[int], *, full_seconds: float = 0.0) -> Growth | None:
    samples = [
        Sample(age_seconds=number * 10.0, rss_mb=mb, files=open_files, tasks=count)
        for number, (mb, open_files, count) in enumerate(zip(rss_mb, files, tasks, strict=True))
    ]
    return grown("spill", 7, samples, full_seconds=full_seconds)


def test_a_process_that_grows_after_its_caches_are_full_fails_the_run() -> None:
    warm = [100.0 + 5 * min(number, 15) for number in range(100)]
    busy = [10 + number % 20 for number in range(100)]
    calm = lived(warm, busy, busy)
    assert calm is not None
    assert calm.wrong() == []
    leaking = [number // 2 for number in range(100)]
    leaky = lived([mb + number for number, mb in enumerate(warm)], leaking, leaking)
    assert leaky is not None
    assert leaky.wrong() == [
        "the memory of spill 7 grew from 194 to 270 MB",
        "the open files of spill 7 grew from 9 to 45",
        "the tasks of spill 7 grew from 9 to 45",
    ]


def test_a_process_whose_caches_were_full_late_is_judged_from_there_or_not_at_all() -> None:
    filling = [100.0 + 3 * min(number, 40) for number in range(100)]
    quiet = [10] * 100
    late = lived(filling, quiet, quiet, full_seconds=410.0)
    assert late is not None
    assert (late.rss_mb, late.wrong()) == ((220.0, 220.0), [])
    assert lived(filling, quiet, quiet, full_seconds=700.0) is None
    assert lived(filling, quiet, quiet, full_seconds=math.inf) is None


def test_a_worker_that_came_late_is_judged_when_its_own_caches_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    looked = watch.Watch(folder=None)
    looked.begun(500)
    for clock[0] in range(0, 1_200, 30):
        looked.look({os.getpid(): "cut"}, {})
        looked.begun(500 + watch.FULL_CONVERSATIONS - 1)
    assert looked.growths() == []
    for clock[0] in range(1_200, 2_100, 30):
        looked.begun(500 + watch.FULL_CONVERSATIONS)
        looked.look({os.getpid(): "cut"}, {})
    assert [one.name for one in looked.growths()] == ["cut"]
