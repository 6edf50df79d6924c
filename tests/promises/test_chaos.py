"""Everything at once, for a moment; `make chaos` goes on for 25,000 turns (promise 38)."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.chaos.agent import Tally
from tests.chaos.checks import Spoken, pointers
from tests.chaos.faults import schedule
from tests.chaos.speech import scripts
from tests.conftest import SAMPLE
from tests.stack import ROOT


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_chaos_violates_nothing() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", "--turns", "60", "--agents", "8", "--seed", "7"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    told = out.decode()
    assert process.returncode == 0, told
    assert "seed 7" in told
    assert "violations                       0" in told


def test_a_seed_repeats_the_schedule_and_what_is_said() -> None:
    def first(seed: int) -> list[object]:
        faults = schedule(seed, kill_seconds=0.5)
        return [*(next(faults) for _ in range(200)), *scripts(seed, 300, [SAMPLE])]

    assert first(3) == first(3)
    assert first(3) != first(4)
    assert Tally().violations == []


def test_the_checks_find_what_is_wrong() -> None:
    spoken = Spoken()
    spoken.add([{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}])
    spoken.add([{"role": "user", "content": "three"}])
    fine = [{"role": "user", "content": "one"}, {"role": "user", "content": "three"}]
    assert spoken._misplaced(fine, 1_000) == []
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
