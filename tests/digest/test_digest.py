"""Digest: old units give way to the values that later steps may need."""

from __future__ import annotations

import pytest

from actors.core.digest_text import FORM, render
from actors.core.entry import MESSAGE_TOKENS
from actors.core.extract import CATEGORIES, SPOKEN, score
from actors.core.pins import pinned_numbers
from actors.core.text.values import within
from actors.digest.decide import digest
from actors.digest.tail import digest_cap_tokens
from protocol.facts import CompactionDeclined, DigestItem, HistoryDigested
from tests.builders import COUNT, Talk, assistant, policy, result, system, user, words

NOISE = "order ORD-10042 of zoe@shop.example failed in /srv/app/main.py, see https://x.example/t/9 (retry_limit=5)."


def full(*head: dict[str, object], **sections: dict[str, object]) -> Talk:
    """Return a conversation of 1,000 tokens whose digest is asked for; *head*, then users of 104 tokens."""
    talk = Talk(policy(1000, spill={"share": 1.0, "medium": 1.0}, **sections))
    talk.append(*head, *(user(words(100)) for _ in range(9)))
    assert talk.state.episode is not None
    return talk


def digested(talk: Talk) -> HistoryDigested:
    (fact,) = digest(talk.state, count=COUNT)
    assert isinstance(fact, HistoryDigested), fact
    return fact


def test_nothing_is_digested_unasked() -> None:
    talk = Talk(policy(1000))
    assert digest(talk.state, count=COUNT) == ()
    talk.play(user("u"))
    assert digest(talk.state, count=COUNT) == ()


def test_asked_twice_digest_has_nothing_more_to_say() -> None:
    talk = full()
    talk.land(talk.sealed(digest(talk.state, count=COUNT)))
    assert digest(talk.state, count=COUNT) == ()


def test_old_units_leave_and_the_rest_with_the_digest_meets_the_target() -> None:
    talk = full()
    fact = digested(talk)
    before = talk.state
    talk.land(talk.sealed((fact,)))
    assert [entry.number for entry in talk.state.live] == list(range(fact.through + 1, fact.boundary + 1))
    assert (fact.before_tokens, fact.after_tokens) == (before.live_tokens, talk.state.live_tokens)
    assert talk.state.live_tokens <= 350
    assert (fact.boundary, fact.form, fact.kept) == (9, FORM, ())


def test_the_tokens_of_the_digest_are_those_of_its_message() -> None:
    fact = digested(full(user(NOISE)))
    text = render(fact.items, prose="", through=fact.through, form=FORM)
    assert fact.digest_tokens == COUNT(text) + MESSAGE_TOKENS


def test_instructions_and_pinned_users_stay_at_any_age() -> None:
    talk = full(system("s"), user("the task"), cut={"pins": ["first_user", "last_user"]})
    assert pinned_numbers(talk.state, talk.state.live) == {1, 2, talk.state.live[-1].number}
    fact = digested(talk)
    assert fact.kept == (1, 2)
    talk.land(talk.sealed((fact,)))
    assert [entry.number for entry in talk.state.live][:2] == [1, 2]


def test_the_last_user_stays_under_a_long_run_of_calls() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.append(
        user("fix it"), *(one for n in range(9) for one in (assistant(None, f"c{n}"), result(f"c{n}", words(90))))
    )
    fact = digested(talk)
    assert fact.kept == (1,)
    talk.land(talk.sealed((fact,)))
    assert talk.shown()[1] == user("fix it")


def test_a_call_leaves_with_its_results() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    batch = [assistant(None, "a", "b"), result("b", words(60)), result("a", words(60))]
    talk.append(user("u"), *(message for _ in range(6) for message in batch), user("v"))
    fact = digested(talk)
    assert (fact.through - 1) % 3 == 0


def test_the_newest_unit_stays_even_if_it_alone_is_over_the_target() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.append(user(words(300)), user(words(900)))
    (fact,) = digest(talk.state, count=COUNT)
    assert isinstance(fact, HistoryDigested)
    assert (fact.boundary, fact.through) == (2, 1)


@pytest.mark.parametrize(("blocks", "through"), [(0, 8), (1, 8), (3, 6), (7, 2)])
def test_as_many_blocks_stay_as_the_policy_says(blocks: int, through: int) -> None:
    assert digested(full(digest={"keep_blocks": blocks}, target={"min_gain": 0.0})).through == through


@pytest.mark.parametrize(("tokens", "through"), [(0, 8), (103, 8), (104, 7), (207, 7), (208, 6)])
def test_as_many_tokens_stay_as_the_policy_says(tokens: int, through: int) -> None:
    # the last user is pinned, and takes no room
    assert digested(full(digest={"keep_tokens": tokens})).through == through


def test_nothing_older_than_the_kept_units_is_declined() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.append(system("s"), user(words(950)))
    reason = "nothing older than the kept units"
    assert digest(talk.state, count=COUNT) == (CompactionDeclined(boundary=2, stage="digest", reason=reason),)


def test_too_small_a_gain_is_declined_with_its_numbers() -> None:
    talk = full(user("a"), digest={"keep_blocks": 9})
    (fact,) = digest(talk.state, count=COUNT)
    assert isinstance(fact, CompactionDeclined)
    assert fact.reason.startswith("would win -")
    assert fact.reason.endswith(" tokens, less than 50")


def test_values_are_verbatim_distinct_and_name_their_newest_message() -> None:
    talk = full(user(NOISE), assistant(f"Looking. {NOISE}"))
    items = digested(talk).items
    found = {item.value: item for item in items}
    for value in ("ORD-10042", "zoe@shop.example", "/srv/app/main.py", "https://x.example/t/9", "retry_limit=5"):
        assert value in NOISE
        assert found[value].number == 2
    assert len({(item.category, item.value) for item in items}) == len(items)


def test_items_are_in_one_order_whatever_order_they_were_found_in() -> None:
    items = digested(full(user(NOISE), user(f"{NOISE} AB-1234 ZX-9876"))).items
    assert list(items) == sorted(items, key=lambda item: (item.number, item.category, item.value))


@pytest.mark.parametrize("cap", [0.12, 0.2, 0.25])
def test_the_digest_stays_within_its_cap(cap: float) -> None:
    ids = " ".join(f"ORD-{number:05}" for number in range(100))
    talk = full(user(ids), digest={"cap": cap, "keep_blocks": 1})
    fact = digested(talk)
    assert 0 < len(fact.items) < 100
    assert fact.digest_tokens <= digest_cap_tokens(talk.state)


def test_what_does_not_fit_is_dropped_by_worth() -> None:
    ids = " ".join(f"ORD-{number:05}" for number in range(100))
    spoken = [assistant("The order is ORD-00099.")] * 3
    talk = full(user("u"), assistant(None, "c"), result("c", ids), *spoken, digest={"cap": 0.15, "keep_blocks": 1})
    values = [item.value for item in digested(talk).items]
    assert "ORD-00099" in values
    assert len([value for value in values if value.startswith("ORD-")]) < 99


def test_a_second_digest_merges_the_first() -> None:
    talk = full(user("keep AB-1234"))
    talk.settle()
    talk.play(*(user(f"{words(80)} CD-{5000 + number}") for number in range(12)))
    digests = [fact for fact in talk.facts if isinstance(fact, HistoryDigested)]
    assert len(digests) > 1
    values = {item.value for item in digests[-1].items}
    assert {"AB-1234", "CD-5000"} <= values
    assert digests[-1].through > digests[0].through


def test_worth_falls_with_age_and_grows_with_use() -> None:
    def item(number: int, uses: int) -> DigestItem:
        return DigestItem(category="id", value="v", number=number, uses=uses)

    assert score(item(9, 1), 10) > score(item(1, 1), 10) > 0
    assert score(item(5, 2), 10) > score(item(5, 1), 10)
    assert score(item(12, 1), 10) == score(item(10, 1), 10) == 1


def test_the_text_of_a_digest_never_changes() -> None:
    items = (
        DigestItem(category="rule", value="never guess", number=1),
        DigestItem(category="id", value="A-100", number=2),
        DigestItem(category="id", value="B-200", number=3),
    )
    assert render(items, prose="Shorter.", through=7, form=1) == (
        "[Notes on messages 1-7 of this conversation, kept by its memory. They record what happened: only the user's "
        "rules and open requests still ask for anything, and what was answered is done. The messages themselves: "
        'read_artifact("messages:1-7").]\nShorter.\nRules of the user:\nnever guess\nIds: A-100 B-200'
    )


def test_a_value_inside_a_kept_path_takes_no_second_place_and_leaves_it_its_uses() -> None:
    talk = full(user("read /srv/app/order_sync.py"), assistant("order_sync broke"), assistant("order_sync again"))
    items = {item.value: item for item in digested(talk).items if item.category in ("path", "symbol")}
    assert list(items) == ["/srv/app/order_sync.py"]
    assert (items["/srv/app/order_sync.py"].number, items["/srv/app/order_sync.py"].uses) == (3, 3 * SPOKEN)


def test_what_stands_in_the_messages_that_stay_takes_no_second_place() -> None:
    talk = full(system("Never touch /srv/app/main.py."), user("read /srv/app/main.py and /srv/app/run.py"))
    assert {item.value for item in digested(talk).items if item.category == "path"} == {"/srv/app/run.py"}


def test_rules_of_the_user_come_before_all_else_and_those_of_others_are_talk() -> None:
    ids = " ".join(f"ORD-{number:05}" for number in range(100))
    talk = full(user("You must never deploy on Friday"), assistant(f"You should always look at {ids}"))
    assert [item.value for item in digested(talk).items if item.category == "rule"] == [
        "You must never deploy on Friday"
    ]


def test_what_somebody_said_outlasts_what_a_tool_printed() -> None:
    assert score(DigestItem(category="path", value="v", number=1, uses=SPOKEN), 60) > score(
        DigestItem(category="path", value="v", number=60), 60
    )
    spoken, printed = (DigestItem(category="setting", value="v", number=9, uses=uses) for uses in (SPOKEN, 1))
    assert score(spoken, 9) == SPOKEN * score(printed, 9)


def test_values_within_a_path_are_its_names_heads_and_tails() -> None:
    found = set(within("src/app/load_order.py"))
    assert {"src", "src/app", "app/load_order.py", "load_order.py", "load_order"} <= found


def test_every_category_is_rendered() -> None:
    items = tuple(DigestItem(category=category, value=f"<{category}>", number=1) for category in CATEGORIES)
    text = render(items, prose="", through=1, form=FORM)
    assert [text.index(f"<{category}>") for category in CATEGORIES] == sorted(text.index(f"<{c}>") for c in CATEGORIES)
