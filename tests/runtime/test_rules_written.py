"""Workers of a release decide by the version of the rules that their settings name, and every commit says it."""

from __future__ import annotations

import msgspec
import pytest

from actors.audit.replay import replay
from actors.host.settings import RulesSection, Settings
from protocol import codec
from protocol.client import Client
from tests.conftest import at_work, settled
from tests.runtime.test_poison import gone

OLD = codec.RULES_VERSION


@pytest.mark.parametrize("written", [OLD, "9"])
async def test_every_commit_says_the_rules_that_the_settings_name(
    settings: Settings, client: Client, name: str, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "RULES_VERSIONS", (*codec.RULES_VERSIONS, "9"))
    monkeypatch.setattr(codec, "RULES_WRITTEN", (OLD, "9"))
    monkeypatch.setattr(codec, "RULES_VERSION", "9")
    wanted = msgspec.structs.replace(settings, rules=RulesSection(write=int(written)))
    async with at_work(wanted) as working:
        talk = await client.open(f"{name}-{written}", policy={"budget": {"window": 3000}, "spill": {"share": 0.15}})
        for number in range(2):
            await talk.append([{"role": "user", "content": f"{number} {'word ' * 900}"}])
            await talk.context(patience=180)
        await settled(working, talk.at)
        records = await working.log.read(talk.at, after=0)
        await gone(working, talk.at)
    commits = [codec.decode_commit(record.body) for record in records if record.side == "done"]
    assert {commit.rules_version for commit in commits} == {written}
    assert {type(fact).__name__ for commit in commits for fact in commit.facts} >= {
        "ContextServed",
        "ToolOutputSpilled",
    }
    found = replay(talk.at, records, rules=(wanted.rules_written,))
    assert (found.divergence, found.rests) == (None, {})
    assert found.decided_again > 0
