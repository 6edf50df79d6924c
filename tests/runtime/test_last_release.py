"""The last release beside ours on one log; `make upgrade` goes forwards and back between them with all workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from actors.audit.replay import replay
from actors.host.settings import RulesSection, Settings
from protocol import codec
from tests.conftest import at_work, settled
from tests.programs.upgrade.parts import Agents, Workers, agents
from tests.programs.upgrade.release import LAST_RELEASE, NoHistory, Release, built, rules_of, todays
from tests.promises.harness import environment

TURNS = 6


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Return the last release."""
    try:
        return built(LAST_RELEASE, tmp_path_factory.mktemp("release"))
    except NoHistory as reason:  # an archive or a shallow clone has nothing to build it from, in CI too
        pytest.skip(str(reason))


async def said(speaking: Agents, turns: int) -> None:
    """Wait until the agents have had so many turns."""
    async with asyncio.timeout(120):
        while speaking.turns < turns and not speaking.wrong and not speaking.hearing.done():
            await asyncio.sleep(0.02)


async def test_actors_and_agents_of_the_last_release_work_with_ours(
    settings: Settings, old: Release, tmp_path: Path
) -> None:
    rules = rules_of(old)
    ours = msgspec.structs.replace(settings, rules=RulesSection(write=int(rules)))
    there = environment(settings)
    workers = Workers(environment=there, logs=tmp_path)
    try:
        # each reads what the other decides, in every conversation
        async with at_work(ours, ("squeeze", "cut")) as busy:
            speaking = [await agents(release, there) for release in (old, todays())]
            for one in speaking:
                for _ in range(2):
                    one.begin()
            await workers.start(old, ("spill", "digest"))
            for one in speaking:
                await said(one, TURNS)
            ended = [talk for one in speaking for talk in await one.end()]
            assert [wrong for one in speaking for wrong in one.wrong] == []
            assert [one.turns >= TURNS for one in speaking] == [True, True]
            for talk in ended:
                await settled(busy, talk.at)
                records = await busy.log.read(talk.at, after=0)
                commits = [codec.decode_commit(record.body) for record in records if record.side == "done"]
                assert {one.writer.partition("@")[0] for one in commits} >= {"spill"}
                found = replay(talk.at, records, rules=(rules,))
                assert (found.divergence, found.rests) == (None, {})
        for worker in workers.running:
            await worker.stop()
    finally:
        workers.kill()
