"""A view that was cut for one call: versions, diff, why and where say so, of that call alone."""

from __future__ import annotations

from actors.audit.diff import diff
from actors.audit.replay import replay
from actors.audit.versions import served_context, versions
from actors.audit.where import where
from actors.audit.why import why
from actors.cli.audit_output import diff_cause, version_text, where_text
from actors.core.view import least_budget
from actors.mcp.texts import _version_line
from tests.audit.recorded import serve, small
from tests.builders import Talk, assistant, policy, user, words

VALUE = "ORD-219541-G4"
BUDGET = 400
OLD = 3
"""The message that holds the value, and that a small view has no room for."""


def cut_for_one_call() -> tuple[Talk, int]:
    """Return a conversation with room for all of it, and the version of a call that had room for less."""
    talk = Talk(policy(4000))
    talk.play(user("begin"), assistant("yes"), user(f"look at {VALUE}"))
    for _ in range(4):
        talk.play(assistant(words(90)), user(words(90)))
    serve(talk)
    return talk, serve(talk, BUDGET)


def test_the_row_of_the_call_has_the_tokens_of_its_view_and_says_that_it_was_cut() -> None:
    talk, version = cut_for_one_call()
    *_, whole, row = versions(talk.at, talk.records)
    fact = served_context(talk.at, talk.records, version=version).served
    assert (row.version, row.served_tokens) == (version, fact.tokens)
    assert row.served_tokens <= BUDGET < row.after_tokens == whole.served_tokens
    assert (whole.reasons, row.reasons) == ((), (f"cut for this call alone, to its budget of {BUDGET} tokens (units)",))
    for told in (version_text(row), _version_line(row)):
        assert f"{fact.tokens:,} tokens" in told
        assert f"{row.after_tokens:,} tokens" not in told
        assert "cut for this call alone" in told


def test_a_compaction_that_was_not_done_when_the_view_was_served_is_told() -> None:
    talk = Talk(policy(1000))
    talk.append(*(assistant(words(90)) if number % 2 else user(words(90)) for number in range(14)))
    version = serve(talk)
    event = why(talk.at, talk.records, number=1, version=version).history[-1]
    assert event.rule.endswith("(units), to which no compaction had come down yet")


def test_why_tells_of_the_call_that_did_not_show_the_message() -> None:
    talk, version = cut_for_one_call()
    at_the_call = why(talk.at, talk.records, number=OLD, version=version)
    (event,) = at_the_call.history
    assert at_the_call.now == "not in the view"
    assert (event.version, event.stage, event.did, event.fact) == (version, "serve", "cut", "ContextServed")
    assert event.rule.endswith(f"cut for this call alone, to its budget of {BUDGET} tokens (units)")
    assert (event.before_tokens > 0, event.after_tokens) == (True, 0)
    before, now = (why(talk.at, talk.records, number=OLD, version=one) for one in (version - 1, None))
    assert (before.now, before.history) == ("verbatim", ())
    assert (now.now, now.history) == ("verbatim", (event,))
    kept = why(talk.at, talk.records, number=talk.state.messages, version=version)
    assert (kept.now, kept.history) == ("verbatim", ())


def test_where_does_not_call_retained_what_the_view_had_cut() -> None:
    talk, version = cut_for_one_call()
    found = where(talk.at, talk.records, text=VALUE, uploads={})
    last = found.spans[-1]
    assert (last.first, last.last, last.kept, last.messages) == (version, version, "lost", ())
    assert found.spans[-2].kept == "retained"
    assert found.cut_when_served == (version,)
    assert found.now == "retained"  # the next view shows it again
    assert f"1 call served without it, cut for that call alone: v{version}\n" in where_text(found)


def test_many_calls_without_a_text_are_one_line_and_do_not_part_the_versions_that_have_it() -> None:
    talk, first = cut_for_one_call()
    for _ in range(3):
        last = serve(talk, BUDGET)
    serve(talk)
    found = where(talk.at, talk.records, text=VALUE, uploads={})
    text = where_text(found)
    assert f"4 calls served without it, cut for that call alone: v{first}-{last}\n" in text
    retained = next(one.first for one in found.spans if one.kept == "retained")
    assert f"v{retained}-{last + 1}" in text
    assert text.count("retained") == 2, "in the headline, and in one row"
    assert f"retained; at v{last + 1} in message {OLD}\n" in text


def test_diff_has_the_tokens_of_the_view_and_names_what_was_cut_for_the_call() -> None:
    talk, version = cut_for_one_call()
    tokens = served_context(talk.at, talk.records, version=version).served.tokens
    found = diff(talk.at, talk.records, older=version - 1, newer=version)
    gone = [row for row in found.rows if row.did == "cut"]
    assert OLD in {row.number for row in gone}
    assert {(row.version, row.fact) for row in gone} == {(version, "ContextServed")}
    assert diff_cause(gone) == f"  for the call of v{version} alone"
    assert found.tokens.after == tokens < found.tokens.before
    assert found.stages == {"serve": tokens - found.tokens.before}
    assert sum(one.after - one.before for one in found.categories.values()) == found.stages["serve"]


def test_behind_the_call_diff_tells_that_all_is_back() -> None:
    talk, version = cut_for_one_call()
    serve(talk)
    found = diff(talk.at, talk.records, older=version, newer=version + 1)
    back = [row for row in found.rows if row.did == "restored"]
    assert OLD in {row.number for row in back}
    assert diff_cause(back) == f"  cut for the call of v{version} alone"
    assert sum(found.stages.values()) == found.tokens.after - found.tokens.before > 0


def test_the_four_agree_about_each_message_of_a_view_that_was_cut() -> None:
    talk, version = cut_for_one_call()
    seen = served_context(talk.at, talk.records, version=version).view
    assert seen is not None
    rows = diff(talk.at, talk.records, older=version - 1, newer=version).rows
    gone = {row.number for row in rows if row.did == "cut"}
    for number in range(1, talk.state.messages + 1):
        told = why(talk.at, talk.records, number=number, version=version)
        assert (told.now == "not in the view") == (number in gone) == (number not in seen.numbers)


def test_a_call_without_room_for_the_digest_is_told_to_have_had_none() -> None:
    talk = Talk(small())
    for number in range(8):
        talk.play(user(f"look at ORD-{number}1954-G4 {words(60)}"), assistant(words(60)))
    assert talk.state.digest is not None
    version = serve(talk, least_budget(talk.state, refused=1, count=talk.count))
    assert served_context(talk.at, talk.records, version=version).served.level == "bare"
    digest, told = (why(talk.at, talk.records, number=number, version=version) for number in (0, 1))
    assert (digest.now, digest.history[-1].did) == ("not in the view", "cut")
    assert (told.now, told.history[-1].version, told.history[-1].did) == ("not in the view", version, "cut")
    assert "(nothing in the view says so)" in told.read[-1]
    row = diff(talk.at, talk.records, older=version - 1, newer=version).rows[0]
    assert (row.number, row.did, row.version, row.after_tokens) == (0, "cut", version, 0)
    found = where(talk.at, talk.records, text="ORD-01954-G4", uploads={})
    assert (found.spans[-1].kept, found.spans[-1].first) == ("lost", version)


def test_a_view_that_no_model_got_is_told_by_its_row_by_why_and_where_it_is_rebuilt() -> None:
    talk, version = cut_for_one_call()
    last = serve(talk, unsent=(version,))
    *_, row, later = versions(talk.at, talk.records)
    assert (row.version, row.reasons[-1]) == (version, "no model got this view")
    assert (later.version, later.reasons) == (last, (f"no model got the view of version {version}",))
    found = [served_context(talk.at, talk.records, version=one).unsent for one in (version, last)]
    assert found == [True, False]
    (event,) = why(talk.at, talk.records, number=OLD, version=version).history
    assert event.rule.endswith("(units); no model got this view")
    assert replay(talk.at, talk.records).divergence is None
