"""A fork is a conversation of its own: the same views, its own chain, and nothing that its parent is needed for."""

from __future__ import annotations

import pytest

from actors.audit.forking import forked
from actors.audit.replay import replay
from actors.audit.stats import conversation_stats, stats
from actors.audit.sums import Sums
from actors.audit.verify import Evidence, verify
from actors.runtime.fold import decisions, folded
from protocol import codec
from protocol.errors import NotFound, Rejected
from protocol.facts import ConversationForked, ConversationRewound
from protocol.ids import address
from storage.ports import Record
from tests.audit.recorded import recorded, serve
from tests.builders import AT, Talk, policy, user

NEW = address("other", "tests")


@pytest.fixture(scope="module", params=(1, 5, 40))
def fork(request: pytest.FixtureRequest) -> tuple[Record, ...]:
    return forked(AT, recorded().records, version=request.param, new=NEW, name="other")


def test_a_fork_is_replayed_and_verified_alone(fork: tuple[Record, ...]) -> None:
    found = replay(NEW, fork)
    assert (found.divergence, found.version) == (None, len([one for one in fork if one.side == "done"]))
    assert verify(Evidence(at=NEW, records=fork)).ok


def test_a_fork_has_the_views_of_its_parent_and_says_whose_they_are(fork: tuple[Record, ...]) -> None:
    version = folded(NEW, fork).version - 1
    parent = next(one for one in decisions(AT, recorded().records) if one.commit.version == version)
    child = folded(NEW, fork)
    assert (child.live, child.digest, child.ledger, child.messages) == (
        parent.after.live,
        parent.after.digest,
        parent.after.ledger,
        parent.after.messages,
    )
    assert child.terms.name == "other"
    marker = codec.decode_commit(fork[-1].body).facts
    assert marker == (ConversationForked(name="other", parent=str(AT), version=version, hash=parent.commit.hash),)


def test_no_commit_of_a_fork_fits_its_parents_chain(fork: tuple[Record, ...]) -> None:
    assert replay(AT, fork).divergence is not None


def test_a_fork_of_what_was_rewound_goes_back_too() -> None:
    talk = Talk(policy(1000))
    talk.play(user("one"))
    talk.land(talk.sealed((ConversationRewound(to_version=1, upto=0, before_tokens=0, after_tokens=0),)))
    talk.play(user("two"))
    talk.land(talk.sealed(()))
    copies = forked(AT, talk.records, version=3, new=NEW, name="other")
    assert [entry.number for entry in folded(NEW, copies).entries] == [2]


def test_a_fork_of_a_fork_names_its_own_parent() -> None:
    first = forked(AT, recorded().records, version=5, new=NEW, name="other")
    second = forked(NEW, first, version=6, new=address("third", "tests"), name="third")
    markers = [
        fact
        for one in decisions(address("third", "tests"), second)
        for fact in one.commit.facts
        if isinstance(fact, ConversationForked)
    ]
    assert [(one.parent, one.version) for one in markers] == [(str(AT), 5), (str(NEW), 6)]


def test_what_was_said_after_the_version_stays_with_the_parent() -> None:
    talk = Talk(policy(1000))
    talk.append(user("before"))
    unseen = talk.sealed(())
    talk.append(user("between"))
    talk.land(unseen)
    talk.append(user("after"))
    copies = forked(AT, talk.records, version=2, new=NEW, name="other")
    assert [record.side for record in copies] == ["done", "said", "done", "done"]


def test_statistics_count_what_a_fork_copied_where_it_happened_and_what_it_did_itself() -> None:
    parent = conversation_stats(AT, recorded().records, price_as="gpt-4o")
    assert parent.sums.saved_dollars > 0
    first = forked(AT, recorded().records, version=40, new=NEW, name="other")
    third = address("third", "tests")
    second = forked(NEW, first, version=41, new=third, name="third")
    for at, records in ((NEW, first), (third, second)):
        fork = conversation_stats(at, records, price_as="gpt-4o")
        assert fork.sums == Sums(conversations=1, versions=1)
        assert (list(fork.stages), fork.course, fork.reasons, fork.values, fork.damage) == (["fork"], (), {}, {}, "")
    both = stats([parent, conversation_stats(NEW, first, price_as="gpt-4o")]).total
    assert (both.calls, both.saved_dollars) == (parent.sums.calls, parent.sums.saved_dollars)
    # its own call goes without what the copied steps took away
    talk = Talk(at=third)
    talk.records, talk.state = [*second], folded(third, second)
    talk.resume()
    talk.append(user("and now?"))
    serve(talk)
    own = conversation_stats(third, talk.records, price_as="gpt-4o")
    assert (own.sums.calls, own.sums.messages) == (1, 1)
    assert own.sums.saved_tokens == sum(one.saved_tokens for one in own.stages.values()) > 0


def test_another_tenant_itself_and_a_version_that_is_not_there_are_refused() -> None:
    records = recorded().records
    with pytest.raises(Rejected, match="stays with its tenant"):
        forked(AT, records, version=1, new=address("other", "else"), name="other")
    with pytest.raises(Rejected, match="itself"):
        forked(AT, records, version=1, new=AT, name="tested")
    with pytest.raises(NotFound, match="no version 9999"):
        forked(AT, records, version=9999, new=NEW, name="other")
