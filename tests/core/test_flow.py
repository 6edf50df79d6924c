"""Flow: who acts next, and that its table says the same."""

from __future__ import annotations

import pytest

from actors.core.flow import next_actor
from protocol.facts import CompactionDeclined, ConversationOpened, StageFailed
from protocol.policy import Policy
from protocol.subjects import Actor
from tests.builders import Talk, policy, user, words


def over(**sections: dict[str, object]) -> Talk:
    """Return a conversation over its trigger, with as many units as digest needs."""
    talk = Talk(policy(1000, spill={"share": 1.0}, **sections))
    talk.append(*(user(words(100)) for _ in range(9)))
    return talk


SQUEEZING: dict[str, object] = {"mode": "squeeze", "model": "m"}


def test_nothing_said_needs_nobody() -> None:
    assert next_actor(Talk().state) is None
    assert next_actor(Talk(Policy()).state) is None


def test_a_new_conversation_wakes_spill_to_adopt_a_policy() -> None:
    opened, spoken, garbled = Talk(), Talk(), Talk()
    opened.say(ConversationOpened(name="n"))
    spoken.append(user("u"))
    garbled.hear(b"")
    assert [next_actor(talk.state) for talk in (opened, spoken, garbled)] == ["spill"] * 3


def test_a_small_message_is_ready_at_once() -> None:
    talk = Talk(Policy())
    talk.append(user("u"))
    assert next_actor(talk.state) is None


def test_a_large_part_and_a_repair_wake_spill() -> None:
    talk = Talk(policy(1000))
    talk.append(user(words(500)))
    assert next_actor(talk.state) == "spill"
    broken = Talk(policy(1000))
    broken.hear(b"")
    assert next_actor(broken.state) == "spill"


@pytest.mark.parametrize(("tokens", "follower"), [(846, None), (847, "digest")])
def test_the_view_must_be_strictly_above_the_trigger(tokens: int, follower: Actor | None) -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.append(user(words(tokens)))
    assert talk.state.live_tokens == tokens + 4
    assert next_actor(talk.state) == follower


def test_a_declined_stage_hands_on_like_a_done_one() -> None:
    talk = over(digest={"mode": "off"})
    seen: list[Actor | None] = []
    for stage in ("digest", "cut"):
        seen.append(next_actor(talk.state))
        talk.land(talk.sealed((CompactionDeclined(boundary=9, stage=stage, reason=""),)))
    assert [*seen, next_actor(talk.state)] == ["digest", "cut", None]


def test_squeeze_follows_digest_where_a_model_is_configured_and_cut_follows_both() -> None:
    talk = over(squeeze=SQUEEZING, digest={"keep_blocks": 6})
    assert talk.step()
    assert next_actor(talk.state) == "squeeze"
    talk.land(talk.sealed((StageFailed(boundary=9, stage="squeeze", error="down"),)))
    assert next_actor(talk.state) == "cut"
    plain = over(digest={"keep_blocks": 6})
    assert plain.step()
    assert next_actor(plain.state) == "cut"


def test_where_a_digest_wins_too_little_nothing_is_dropped_while_the_view_fits() -> None:
    fits, full = over(), over()
    full.append(user(words(100)), user(words(100)))
    for talk, follower in ((fits, None), (full, "digest")):
        talk.land(talk.sealed((CompactionDeclined(boundary=9, stage="digest", reason="would win too little"),)))
        assert next_actor(talk.state) == follower
    assert fits.state.agenda.quiet_tokens == fits.state.live_tokens + 50
    full.land(full.sealed((CompactionDeclined(boundary=10, stage="digest", reason="would win too little"),)))
    assert next_actor(full.state) == "cut"


def test_without_a_digest_there_is_nothing_to_squeeze() -> None:
    talk = over(squeeze=SQUEEZING, digest={"mode": "off"})
    talk.land(talk.sealed((CompactionDeclined(boundary=9, stage="digest", reason=""),)))
    assert next_actor(talk.state) == "cut"


def test_within_the_target_nobody_follows() -> None:
    talk = over()
    assert talk.step()
    assert next_actor(talk.state) is None


def test_what_could_not_be_helped_is_not_tried_again_before_it_has_grown() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}, cut={"on_overflow": "refuse"}))
    talk.play(user(words(950)))
    tried = len(talk.facts)
    assert talk.state.agenda.quiet_tokens == 954 + 50
    talk.play({"role": "assistant", "content": "a"})
    assert len(talk.facts) == tried


def test_messages_behind_a_boundary_wait_until_its_compaction_is_over() -> None:
    talk = over()
    talk.append(user("later"))
    assert [entry.number for entry in talk.state.arrived] == [10]
    talk.settle()
    assert talk.state.arrived == ()
    assert talk.view().numbers[-1] == 10
