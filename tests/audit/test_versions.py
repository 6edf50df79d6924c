"""Every version has a row, every served context comes back byte for byte, and every address is understood."""

from __future__ import annotations

import hashlib
from collections import Counter

import msgspec
import pytest

from actors.audit.trail import versioned
from actors.audit.versions import served_context, versions
from actors.cli.audit_output import version_text
from actors.cli.inspect import facts_told
from actors.core.state import initial
from actors.runtime.fold import decisions, fold, head, tokens_of
from protocol import codec
from protocol.errors import BadId, ChainBroken, NotFound
from protocol.facts import CompactionDeclined, HistoryDigested, MessagesAppended, StageFailed
from protocol.ids import address
from tests.audit.recorded import recorded, serve, small
from tests.builders import AT, Talk, assistant, policy, result, user, words


def test_every_commit_has_a_row_with_all_its_facts() -> None:
    talk = recorded()
    rows = list(versions(talk.at, talk.records))
    assert [row.version for row in rows] == list(range(1, talk.state.version + 1))
    told = Counter[str]()
    for row in rows:
        told.update(row.facts)
    assert told == Counter(["PolicyAdopted", *(type(fact).__name__ for fact in talk.facts)])


def test_a_row_says_who_did_what_and_what_the_view_had_before_and_after() -> None:
    talk = recorded()
    rows = {row.version: row for row in versions(talk.at, talk.records)}
    digested = [
        (commit.version, fact) for commit in talk.commits for fact in commit.facts if isinstance(fact, HistoryDigested)
    ]
    assert digested
    for version, fact in digested:
        row = rows[version]
        assert (row.stage, row.outcome) == ("digest", "applied")
        assert (row.before_tokens, row.after_tokens) == (fact.before_tokens, fact.after_tokens)
    assert rows[talk.state.version].after_tokens == tokens_of(talk.state)


def test_a_row_names_the_newest_message_by_its_number_and_travels_as_it_always_did() -> None:
    talk = recorded()
    seen = 0
    for row, commit in zip(versions(talk.at, talk.records), talk.commits, strict=True):
        said = [one for one in talk.records if one.side == "said" and one.seq <= commit.upto]
        facts = [fact for one in said for fact in codec.decode_said(one.body).facts]
        seen = sum(len(fact.messages) for fact in facts if isinstance(fact, MessagesAppended))
        assert row.upto == row.messages == seen
        assert row.upto_seq == commit.upto
        assert msgspec.json.decode(msgspec.json.encode(row))["upto"] == commit.upto
    assert 0 < seen < talk.commits[-1].upto


def test_an_item_without_a_role_is_told_by_its_type() -> None:
    talk = Talk(small())
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    talk.append(user("hi"), call)
    rows = [row for record in talk.records for row in facts_told(record) if row["fact"] == "MessagesAppended"]
    assert [one["role"] for row in rows for one in row["messages"]] == ["user", "function_call"]


def test_a_refused_and_a_failed_step_are_rows_with_their_reasons() -> None:
    talk = Talk(small())
    talk.append(user("hi"))
    told = CompactionDeclined(boundary=1, stage="cut", reason="nothing to drop")
    talk.land(talk.sealed((told,)))
    talk.land(talk.sealed((StageFailed(boundary=1, stage="squeeze", error="ModelUnavailable"),)))
    rows = list(versions(talk.at, talk.records))
    assert [(row.stage, row.outcome, row.reasons) for row in rows] == [
        ("", "noop", ()),
        ("cut", "declined", ("nothing to drop",)),
        ("squeeze", "failed", ("ModelUnavailable",)),
    ]


def test_a_compaction_says_itself_what_it_lost_and_counted_anew_it_is_the_same() -> None:
    talk = recorded()
    told = {row.version: row.loss for row in versions(talk.at, talk.records) if row.loss is not None}
    anew = {row.version: row for row in versions(talk.at, talk.records, losses=True)}
    assert {anew[version].stage for version in told} == {"digest"}
    for version, loss in told.items():
        again = anew[version].loss
        assert again is not None
        assert loss.categories == again.categories
        assert f"values: {loss.total.retained} retained" in version_text(anew[version])


def test_a_step_that_changed_what_has_no_values_does_not_count_them_as_none_lost() -> None:
    talk = Talk(small(spill={"tokens": 200}))
    talk.play(user("look"), assistant(None, "c1"), result("c1", words(400)))
    *_, row = versions(talk.at, talk.records, losses=True)
    assert row.stage == "spill"
    assert "values: none in what it changed; steps: 1 retained" in version_text(row)


def test_rows_before_the_damage_are_still_listed() -> None:
    talk = recorded()
    third = [record for record in talk.records if record.side == "done"][2]
    without = [record for record in talk.records if record is not third]
    found: list[int] = []
    with pytest.raises(ChainBroken):
        found.extend(row.version for row in versions(talk.at, without))
    rows = versions(talk.at, without)
    assert [next(rows).version, next(rows).version] == [1, 2]


def test_every_served_context_is_rebuilt_byte_for_byte() -> None:
    talk = recorded()
    served_at = [row.version for row in versions(talk.at, talk.records) if row.stage == "serve"]
    assert len(served_at) > 40
    for version in served_at:
        found = served_context(talk.at, talk.records, version=version)
        assert found.same
        assert found.view is not None
        assert hashlib.sha256(found.view.body).hexdigest() == found.served.view_hash


def test_a_context_that_was_served_differently_is_told_apart() -> None:
    talk = Talk(small())
    talk.play(user("hello"))
    version = serve(talk, view_hash="0" * 64)
    assert not served_context(talk.at, talk.records, version=version).same


def test_without_a_version_the_newest_served_context_is_meant() -> None:
    talk = Talk(small())
    talk.play(user("hello"))
    version = serve(talk)
    talk.play(assistant("hi"), user("more"))
    assert served_context(talk.at, talk.records).version == version


def test_a_version_that_served_nothing_names_the_one_before_that_did() -> None:
    talk = recorded()
    version = next(row.version for row in versions(talk.at, talk.records) if row.stage == "digest")
    with pytest.raises(NotFound, match=rf"no context was served at version {version} .*newest served before it is"):
        served_context(talk.at, talk.records, version=version)


@pytest.mark.parametrize("version", [0, 10**9])
def test_a_version_out_of_range_is_refused_with_the_range(version: int) -> None:
    talk = Talk(small())
    with pytest.raises(NotFound, match=f"no version {version};"):
        served_context(talk.at, talk.records, version=version)


@pytest.mark.parametrize(
    ("text", "conversation", "tenant", "version"),
    [
        ("talk", "talk", "default", None),
        ("acme/talk@12", "talk", "acme", 12),
        ("talk@0", "talk", "default", 0),
        ("nobody@example.com", "nobody@example.com", "default", None),
        ("nobody@example.com@3", "nobody@example.com", "default", 3),
        ("talk@", "talk@", "default", None),
        ("talk@-1", "talk@-1", "default", None),
        ("talk@١٢", "talk@١٢", "default", None),
        ("a/b/c@7", "b/c", "a", 7),
        ("../*.>@1", "*.>", "..", 1),
        ("\ud800@1", "\ud800", "default", 1),
    ],
)
def test_an_address_with_a_version_is_read(text: str, conversation: str, tenant: str, version: int | None) -> None:
    assert versioned(text) == (address(conversation, tenant), version)


def test_an_address_without_a_name_and_a_version_without_end_are_refused() -> None:
    for text in ("", "@3", "tenant/@3"):
        with pytest.raises(BadId):
            versioned(text)
    with pytest.raises(NotFound):
        versioned("talk@" + "9" * 5000)


def test_a_message_that_landed_while_a_step_was_written_is_folded_as_its_writer_did() -> None:
    talk = Talk(policy(1000))
    talk.append(user("look"), assistant(None, "c1"), result("c1", words(400)))
    late = talk.decided()
    assert late is not None
    talk.append(user("are you there?"))
    talk.land(late)
    talk.settle()
    *_, last = decisions(talk.at, talk.records)
    ended = head(last, talk.at, talk.records)
    folded = fold(initial(codec.genesis(AT)), talk.records)
    assert (ended.hash, ended.entries, ended.position.said_hash) == (
        folded.hash,
        folded.entries,
        folded.position.said_hash,
    )
