"""Doctor tells what is missing from what it could not see: nobody at work, a wake-up that nobody takes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.cli import doctor_workers
from actors.cli.doctor_workers import queues_found
from protocol.ids import address
from protocol.subjects import ACTORS, LANES
from storage.streams import provision
from storage.wakes import JetStreamWakes
from tests.cli.test_cli import jettison
from tests.storage.test_durability import plain


async def test_a_wake_up_that_no_worker_takes_is_wrong_and_idle_workers_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with plain(tmp_path, sync="always") as (connection, _):
        (unknown,) = await queues_found(connection)
        assert (unknown.ok, unknown.warns) == (True, True), "nothing is provisioned yet"
        assert "not looked at: " in unknown.detail
        await provision(connection)
        (nobody,) = await queues_found(connection)
        assert (nobody.ok, nobody.warns) == (True, True)
        assert f"no worker of {', '.join(ACTORS)} takes wake-ups; none waits" in nobody.detail

        wakes = JetStreamWakes(connection)
        assert await wakes.wake("spill", address("waits"), headers={})
        young, _ = await queues_found(connection)
        assert (young.ok, young.warns) == (True, True), "its worker may just be replaced"
        monkeypatch.setattr(doctor_workers, "WAITS_SECONDS", 0.0)
        waits, others = await queues_found(connection)
        assert (waits.ok, others.ok) == (False, True)
        assert "no worker of spill takes wake-ups; 1 wake-up not taken" in waits.detail
        assert "jettison worker spill" in waits.fix

        pulls = [wakes.slots(actor, credits=2, lane=lane) for actor in ACTORS if actor != "squeeze" for lane in LANES]
        tasks = [asyncio.ensure_future(anext(one)) for one in pulls]
        try:
            async with asyncio.timeout(180):
                while len(found := await queues_found(connection)) > 1 or found[0].warns:
                    await asyncio.sleep(0.05)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0].detail.startswith("of spill, digest, cut take wake-ups"), "squeeze may be scaled to zero"


def test_without_nats_the_doctor_says_what_it_did_not_look_at(tmp_path: Path) -> None:
    done = jettison("doctor", "--data", str(tmp_path))
    assert done.returncode == 4
    assert [line[:5] for line in done.stdout.splitlines() if line[0] != " "] == ["ok   ", "BAD  ", "WARN ", "WARN "]
    assert "WARN s3: not looked at" in done.stdout
