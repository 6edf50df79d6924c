"""Logs that earlier releases wrote, kept as they were: folded, verified and replayed by today's code, for ever.

Each was made on the real path by the commit in its name. What stands here is what that commit's own `replay` said.
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import msgspec
import pytest

from actors.audit.bundle import Bundle, judged, sound, unpacked
from actors.audit.replay import replay
from actors.runtime.fold import folded
from protocol import codec

LOGS = Path(__file__).parents[1] / "data" / "logs"


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the release that wrote a log said of it."""

    version: int
    hash: str
    view_hash: str
    messages: int
    views: int
    decided: int
    """Steps that it decided again."""
    rules: str
    artifacts: int
    facts: frozenset[str]


TOLD = {
    "1337676": Told(
        version=110,
        hash="8c1c7a719d369a4f7e3725375b33ba91e856f360a4766cc9d2b6d9355c7da287",
        view_hash="02c2d8b33ad627d13e15956c1a69164d6ade0213fa6914a7b1f5f0d1c37fe26e",
        messages=156,
        views=54,
        decided=52,
        rules="1",
        artifacts=40,
        facts=frozenset(
            {
                "ToolOutputSpilled",
                "HistoryDigested",
                "DigestSqueezed",
                "HistoryCut",
                "CompactionDeclined",
                "HookFired",
                "ReminderInjected",
                "HistoryExpanded",
                "ConversationRewound",
                "ContextServed",
            }
        ),
    )
}


@cache
def kept(name: str) -> Bundle:
    """Return the bundle of one log."""
    return sound(unpacked(lzma.decompress((LOGS / f"{name}.tar.xz").read_bytes())))


def test_every_log_that_is_kept_is_tried() -> None:
    assert {file.name.removesuffix(".tar.xz") for file in LOGS.iterdir()} == set(TOLD)


@pytest.mark.parametrize(("name", "told"), TOLD.items(), ids=TOLD)
def test_an_old_log_is_folded_to_the_same_head(name: str, told: Told) -> None:
    state = folded(kept(name).at, kept(name).records)
    assert (state.version, state.messages, state.hash.hex()) == (told.version, told.messages, told.hash)


@pytest.mark.parametrize(("name", "told"), TOLD.items(), ids=TOLD)
def test_an_old_log_is_verified_with_all_of_its_artifacts(name: str, told: Told) -> None:
    verdict = judged(kept(name))
    assert (verdict.ok, verdict.head, verdict.artifacts) == (True, told.hash, told.artifacts), verdict.problems
    assert verdict.rules == {told.rules: told.version}


@pytest.mark.parametrize(("name", "told"), TOLD.items(), ids=TOLD)
def test_an_old_log_is_replayed_and_every_view_that_was_served_is_rebuilt(name: str, told: Told) -> None:
    found = replay(kept(name).at, kept(name).records)
    assert found.divergence is None
    assert (found.version, found.hash, found.view_hash, found.views) == (
        told.version,
        told.hash,
        told.view_hash,
        told.views,
    )
    # once there are newer rules, they rest on the record
    rests = {} if told.rules == codec.RULES_VERSION else {told.rules: told.decided}
    assert (found.decided_again, found.rests) == (0 if rests else told.decided, rests)


@pytest.mark.parametrize(("name", "told"), TOLD.items(), ids=TOLD)
def test_an_old_log_is_decided_again_by_its_own_rules_as_long_as_they_are_written(name: str, told: Told) -> None:
    assert told.rules in codec.RULES_WRITTEN
    found = replay(kept(name).at, kept(name).records, rules=[told.rules])
    assert (found.divergence, found.decided_again, found.rests) == (None, told.decided, {})


@pytest.mark.parametrize(("name", "told"), TOLD.items(), ids=TOLD)
def test_an_old_log_holds_every_kind_of_step_that_it_was_made_for(name: str, told: Told) -> None:
    commits = [codec.decode_commit(record.body) for record in kept(name).records if record.side == "done"]
    assert {type(fact).__name__ for commit in commits for fact in commit.facts} == told.facts
