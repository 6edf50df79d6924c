"""A release decides by older rules too, and writes what the releases before it read."""

from __future__ import annotations

import msgspec
import pytest

from actors.core import older_rules
from actors.core.flow import next_actor
from actors.core.older_rules import policy_bytes, policy_under, under
from actors.digest.decide import digest
from actors.runtime.conversations import Conversations
from actors.runtime.stepping import Effects
from protocol import codec
from protocol import policy as policies
from protocol.facts import CompactionDeclined, HistoryDigested
from protocol.ids import address, fresh_id
from storage.memory import MemoryArtifacts, MemoryLog, MemorySnapshots
from tests.builders import COUNT, Talk, appended, policy, user, words


@pytest.fixture(autouse=True)
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this release one whose newest rules brought the key `digest.mode`; before them it was off."""
    versions = ("1", "9")
    monkeypatch.setattr(codec, "RULES_VERSIONS", versions)
    monkeypatch.setattr(codec, "RULES_VERSION", "9")
    monkeypatch.setattr(codec, "RULES_WRITTEN", versions)
    monkeypatch.setattr(older_rules, "KEYS_SINCE", {"9": {"digest": {"mode": "off"}}})


def full() -> Talk:
    """Return a conversation in which digest is to decide."""
    talk = Talk(policy(1000))
    for _ in range(12):
        talk.append(user(words(100)))
        while next_actor(talk.state) not in (None, "digest"):
            talk.step()
    assert next_actor(talk.state) == "digest"
    return talk


def test_newer_keys_of_the_policy_mean_nothing_to_older_rules() -> None:
    talk = full()
    (old,) = digest(under("1", talk.state), count=COUNT)
    (new,) = digest(under("9", talk.state), count=COUNT)
    assert isinstance(old, CompactionDeclined)
    assert old.reason == "digest.mode is off"
    assert isinstance(new, HistoryDigested)


def test_the_newest_rules_see_the_state_as_it_is() -> None:
    state = full().state
    assert under("9", state) is state


def test_older_releases_are_given_no_key_that_they_do_not_know() -> None:
    wanted = policy(1000)
    body = policy_bytes("1", wanted)
    assert "mode" not in msgspec.json.decode(body)["digest"]
    assert policies.decode(body) == wanted
    assert policy_bytes("9", wanted) == policies.encode(wanted)
    assert policy_under("1", wanted).digest.mode == "off"


@pytest.mark.parametrize("rules", ["1", "9"])
async def test_a_commit_says_by_which_rules_it_was_decided(rules: str) -> None:
    at, log = address(fresh_id()), MemoryLog()
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w", rules=rules)
    body = codec.encode_said(codec.Said(writer="w", count=1, facts=(appended([user("hello")]),)))
    await log.say(at, body, message_id=fresh_id(), headers={})
    state = await known.load(at)
    step = await Effects(artifacts=MemoryArtifacts()).step("spill", at, state, rules=known.rules)
    assert await known.commit(at, state, step.facts, headers={}, adopt=step.adopt)
    commit = codec.decode_commit((await log.read(at, after=0))[-1].body)
    assert commit.rules_version == rules
    assert ("mode" in msgspec.json.decode(commit.policy)["digest"]) == (rules == "9")
    assert commit.policy_hash == policies.fingerprint_of(commit.policy)
    assert (await known.load(at)).terms.policy_hash == commit.policy_hash


def test_the_hash_of_a_policy_stays_that_of_the_commit_that_adopted_it(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    talk.rules = "1"
    talk.land(talk.sealed((), adopt=policy(1000)))
    talk.rules = "9"
    talk.play(user("hello"))
    talk.land(talk.sealed(()))
    hashes = {commit.policy_hash for commit in talk.commits}
    assert hashes == {policies.fingerprint_of(talk.commits[0].policy)}
