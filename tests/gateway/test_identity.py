"""Laws of identity: what is in a log stands in the request that it is gone on with, whatever agents do at once."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.canon import hash_of
from actors.gateway.identity import (
    HEADS_MAX,
    POINTS_MAX,
    Aside,
    Begins,
    Branches,
    GoesOn,
    Head,
    Hidden,
    Known,
    Point,
    branched,
    chain_of,
    decide,
    grown,
    is_beside,
    known_with,
    left_over,
    place_of,
    scope_of,
    with_hidden,
)
from tests.laws import LAWS

Json = dict[str, Any]
SECRET = b"s" * 32
NEW = Head(name="", length=0, chain=b"", logged=0, outside=0, tools=True)


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def answer(text: str, call: str = "", **arguments: Any) -> Json:
    if not call:
        return {"role": "assistant", "content": text}
    function = {"name": "look", "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }


def result(call: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": call, "content": text}


def otherwise(message: Json, how: random.Random) -> Json:
    """Return *message* in another form that agents give it."""
    out = json.loads(json.dumps(message))
    if isinstance(out.get("content"), str) and how.random() < 0.5:
        text = out["content"]
        cut = how.randrange(len(text) + 1)
        out["content"] = [{"type": "text", "text": part} for part in (text[:cut], text[cut:]) if part]
    if isinstance(out.get("content"), list) and out["content"] and how.random() < 0.5:
        out["content"][-1]["cache_control"] = {"type": "ephemeral"}
    for index, call in enumerate(out.get("tool_calls", ())):
        arguments = json.loads(call["function"]["arguments"])
        call["function"]["arguments"] = json.dumps(dict(reversed(arguments.items())), indent=how.choice((None, 2)))
        call |= {"index": index} if how.random() < 0.5 else {}
    if out["role"] == "assistant" and how.random() < 0.5:
        out |= {"reasoning_content": "hm", "refusal": None, "annotations": []}
    return dict(reversed(out.items()))


@dataclass
class Gateway:
    """All that the rules are told of, and the logs that follow from what they say."""

    known: dict[str, Known] = field(default_factory=dict)
    logs: dict[str, list[bytes]] = field(default_factory=dict)
    names: int = 0
    forks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Of which conversation a branch is one, and with how many of its messages it begins."""

    def ask(self, messages: list[Json], *, scope: str, tools: bool = True, retried: bool = False) -> str:
        """Do what a request is decided to be; return the conversation whose view it gets, empty for none."""
        hashes = [hash_of(message) for message in messages]
        chain = chain_of(hashes, secret=SECRET)
        place = place_of("caller", scope, hashes[0], secret=SECRET)
        known = self.known.get(place, Known())
        answered = next((at for at, one in enumerate(messages, 1) if one["role"] == "assistant"), len(chain))
        first = not scope and not retried and answered == len(chain)
        match decide(known, chain, tools=tools, beside=False, first=first, answered=answered):
            case GoesOn(head=head):
                pass
            case Branches(head=parent, point=point):
                # nothing longer is known, and what is shared has an answer in it
                shared = [one.length for one in known.heads if hashes[: one.length] == self.logs[one.name]]
                assert max(answered, *shared, 0) <= point.length
                self.names += 1
                head = branched(parent, point, name=f"c{self.names}")
                self.logs[head.name] = self.logs[parent.name][: point.logged]
                self.forks[head.name] = (parent.name, point.length)
            case Begins():
                self.names += 1
                head = Head(name=f"c{self.names}", length=0, chain=b"", logged=0, outside=0, tools=tools)
            case Aside(head=head):
                # the view of all of its log, and what is behind it as it came
                assert self.logs[head.name] == hashes[: head.length]
                return head.name
            case None:
                return ""
        after = grown(head, chain, hashes)
        log = self.logs.setdefault(head.name, [])
        for batch in after.waiting[len(head.waiting) :]:
            assert len(log) == batch.start
            log += hashes[batch.start : batch.end]
        self.known[place] = known_with(known, after)
        assert after.logged == len(log)
        # the law: the view is of exactly what the agent sent
        assert log == hashes
        return head.name


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[tuple[int, str]]]:
    agents = draw(st.integers(1, 5))
    steps = st.sampled_from(["on", "on", "on", "again", "edit", "regenerate", "drop", "aside", "fork"])
    return draw(st.integers(0, 2**32)), draw(st.lists(st.tuples(st.integers(0, agents - 1), steps), max_size=30))


@given(histories(), st.booleans(), st.booleans())
@LAWS
def test_no_view_has_a_message_that_its_agent_did_not_send(
    given_: tuple[int, list[tuple[int, str]]], scoped: bool, equal: bool
) -> None:
    """*scoped*: all agents share a session id. *equal*: all begin with the same words, and are answered alike."""
    seed, steps = given_
    how, gateway = random.Random(seed), Gateway()
    scope = "session/one" if scoped else ""
    agents: dict[int, list[Json]] = {}
    for who, step in steps:
        mine = agents.setdefault(who, [user("Go." if equal else f"Go, {who}.")])
        if (step == "on" and len(mine) > 1) or (step != "again" and len(mine) == 1):
            # the same ids in all of them, as some models write them
            call, told = f"call_{len(mine)}", "done" if equal and how.random() < 0.7 else f"done by {who}"
            mine += [answer("On.", call, b=how.choice((1, 2)), a=2), result(call, told)]
        elif step == "edit":
            at = how.randrange(0, len(mine))
            mine[at:] = [user(how.choice(("No.", f"No, says {who}.")))]
        elif step == "regenerate":
            mine[-2:] = mine[-2:-1] if mine[-1]["role"] == "assistant" else [answer("Other."), user("And?")]
        elif step == "drop" and len(mine) > 2:
            del mine[-2]
        elif step == "aside":
            asked = [*mine, answer("Well."), user("Summarize all of it.")]
            gateway.ask([otherwise(one, how) for one in asked], scope=scope, tools=False)
            continue
        elif step == "fork":
            agents[max(agents) + 1] = list(mine)
        gateway.ask([otherwise(one, how) for one in mine], scope=scope, retried=step == "again")


@given(st.integers(0, 2**32), st.booleans())
@LAWS
def test_who_only_goes_on_stays_in_one_conversation_in_whatever_form_he_sends_it(seed: int, scoped: bool) -> None:
    how, gateway = random.Random(seed), Gateway()
    mine, names = [user("Go.")], set()
    for turn in range(8):
        names.add(gateway.ask([otherwise(one, how) for one in mine], scope="s" if scoped else ""))
        names.add(gateway.ask([otherwise(one, how) for one in mine], scope="s" if scoped else "", retried=True))
        mine += [answer("On.", f"c{turn}", x=1, y=[2, {"z": 3}]), result(f"c{turn}", f"done {turn}")]
    assert len(names) == 1


def test_three_equal_openings_at_once_are_three_conversations() -> None:
    gateway = Gateway()
    assert len({gateway.ask([user("Go.")], scope="") for _ in range(3)}) == 3
    again = gateway.ask([user("Go.")], scope="", retried=True)
    assert again in {"c1", "c2", "c3"}
    ends = {gateway.ask([user("Go."), answer(f"I am {who}."), user("On.")], scope="") for who in range(3)}
    assert len(ends) == 3


def test_what_is_edited_or_regenerated_is_a_branch_and_a_retry_is_none() -> None:
    gateway = Gateway()
    turns = [[answer(f"a{turn}.", f"c{turn}", x=1), result(f"c{turn}", f"done {turn}")] for turn in range(4)]
    mine = [user("Go.")]
    for turn in turns:
        gateway.ask(mine, scope="s")
        mine += turn
    assert gateway.ask(mine, scope="s") == gateway.ask(mine, scope="s") == "c1"
    edited = [*mine[:5], answer("Other."), user("No.")]
    assert gateway.ask(edited, scope="s") == "c2"
    regenerated = gateway.ask(mine[:7], scope="s")
    assert gateway.forks == {"c2": ("c1", 5), regenerated: ("c1", 7)}
    # all of them go on where they are
    assert [gateway.ask([*one, answer("On."), user("?")], scope="s") for one in (mine, edited, mine[:7])] == [
        "c1",
        "c2",
        regenerated,
    ]
    # who shares the opening alone shares no conversation, and without tools it is another model's
    assert gateway.ask([user("Go."), answer("Hello."), user("?")], scope="s") not in gateway.forks
    assert gateway.ask([*edited[:5], user("Title?")], scope="s", tools=False) not in gateway.forks


def test_a_fork_that_ends_earlier_is_given_what_is_missing_unless_hidden_turns_are() -> None:
    def at(length: int, logged: int) -> Point:
        return Point(length=length, chain=b"c", logged=logged)

    def missing(copied: int) -> tuple[int, int] | None:
        head = Head(
            name="", length=9, chain=b"", logged=12, outside=0, tools=True, points=(at(1, 1), at(3, 3), at(5, 7))
        )
        found = left_over(branched(head, at(7, 9), name="b"), copied=copied, key=b"k")
        return (found.start, found.end) if found else None

    assert [missing(9), missing(8), missing(7)] == [None, (6, 7), (5, 7)]
    for copied in (10, 6, 3):
        with pytest.raises(ValueError, match="does not end"):
            missing(copied)


def test_points_stay_few_and_the_newest_are_all_known() -> None:
    hashes = [hash_of(user(f"{at}")) for at in range(400)]
    chain, head = chain_of(hashes, secret=SECRET), NEW
    for n in range(1, 400, 2):
        head = grown(head, chain[: n + 1], hashes[:n])
    lengths = [one.length for one in head.points]
    assert len(lengths) <= POINTS_MAX
    assert lengths == sorted(set(lengths))
    assert lengths[-POINTS_MAX // 2 :] == list(range(397 - POINTS_MAX + 2, 398, 2))


def test_only_so_many_are_known_and_the_forgotten_begin_anew() -> None:
    gateway = Gateway()
    for _ in range(HEADS_MAX + 5):
        gateway.ask([user("Go.")], scope="")
    (known,) = gateway.known.values()
    assert len(known.heads) == HEADS_MAX


def test_what_a_model_read_back_is_in_the_log_where_its_agent_saw_one_answer() -> None:
    seen = answer("It is 7.")
    asked = [user("What is it?")]
    chain = chain_of(list(map(hash_of, asked)), secret=SECRET)
    head = grown(NEW, chain, list(map(hash_of, asked)))
    head = with_hidden(head, Hidden(seen=(hash_of(seen),), turns=b"[1,2,3]", messages=3))
    asked += [seen, user("Thanks.")]
    hashes = list(map(hash_of, asked))
    after = grown(head, chain_of(hashes, secret=SECRET), hashes)
    assert (after.length, after.logged) == (3, 1 + 3 + 1)
    assert after.waiting[-1].real == ((1, 2, b"[1,2,3]"),)
    assert after.hidden == ()


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("a"), user("b")),
        (user("a"), answer("a")),
        (answer("a", "x", p=1), answer("a", "x", p=2)),
        (answer("a", "x", p=1), answer("a", "y", p=1)),
        (result("x", "a"), result("y", "a")),
        ({"type": "reasoning", "encrypted_content": "a"}, {"type": "reasoning", "encrypted_content": "b"}),
        ({"type": "local_shell_call", "id": "a"}, {"type": "local_shell_call", "id": "b"}),
        (user("a"), {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "a"}}]}),
        (
            {"role": "assistant", "content": [THOUGHT]},
            {"role": "assistant", "content": [{**THOUGHT, "signature": "t"}]},
        ),
    ],
)
def test_messages_that_differ_are_two(one: Json, other: Json) -> None:
    assert hash_of(one) != hash_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (user("ab"), {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        (user("a"), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "m"}),
        ({"role": "assistant", "content": [THOUGHT]}, {"role": "assistant", "content": [{**THOUGHT, "thinking": ""}]}),
        (
            {"type": "reasoning", "id": "r", "encrypted_content": "e", "summary": []},
            {"type": "reasoning", "encrypted_content": "e"},
        ),
        (answer("", "x", p=1), {**answer("", "x", p=1), "content": None}),
        # Claude Code's summaries are asked for without the thoughts of the turns before
        (
            answer("ab"),
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, THOUGHT, {"type": "text", "text": "b"}]},
        ),
        (user("\ud800"), {"role": "user", "content": [{"type": "text", "text": "\ud800"}]}),
    ],
)
def test_forms_of_one_message_are_one(one: Json, other: Json) -> None:
    assert hash_of(one) == hash_of(other)


def test_a_summary_of_what_nobody_knows_as_it_stands_is_a_branch_or_a_conversation_of_its_own() -> None:
    told = [user("a"), answer("", "x", p=1), result("x", "b"), answer("", "y", p=1)]
    hashes = [*map(hash_of, told), hash_of(result("y", "c"))]
    head = NEW
    for sent in (3, 5):
        head = grown(head, chain_of(hashes[:sent], secret=SECRET), hashes[:sent])
    known = Known(heads=(head,))
    # Claude Code puts what it asks into the last message of all, with the last result
    asked = chain_of([*hashes[:4], hash_of(result("y", "c, now sum up"))], secret=SECRET)
    how: Json = {"tools": True, "beside": True, "first": False, "answered": 2}
    assert decide(known, asked, **how) is None
    assert decide(known, asked, **how, alone=True) == Branches(head=head, point=head.points[0])
    assert decide(Known(), asked, **how, alone=True) == Begins()
    assert decide(known, chain_of(hashes, secret=SECRET), **how, alone=True) == Aside(head=head)


def test_what_clients_say_of_their_conversation() -> None:
    claude = {"x-claude-code-session-id": "S"}
    assert scope_of(claude, {}) == "claude/S/main"
    assert scope_of({**claude, "x-claude-code-agent-id": "a1"}, {}) == "claude/S/a1"
    assert scope_of({}, {"metadata": {"user_id": json.dumps({"session_id": "S"})}}) == "claude/S/main"
    assert scope_of({}, {"metadata": {"user_id": "user_1_account__session_S"}}) == "claude/S/main"
    assert scope_of({"thread-id": "T", "session-id": "S"}, {"prompt_cache_key": "S"}) == "thread-id/T"
    assert scope_of({"x-jettison-conversation": "mine", "session-id": "S"}, {}) == "named/mine"
    assert scope_of({}, {"prompt_cache_key": "k"}) == "cache/k"
    assert scope_of({"x-client-request-id": "r"}, {"user": "u", "metadata": "odd", "safety_identifier": "x"}) == ""


def test_what_clients_say_is_beside_their_conversation() -> None:
    assert is_beside({"x-claude-code-request-class": "compaction"})
    assert not is_beside({"x-claude-code-request-class": "main"})
    assert is_beside({"x-codex-turn-metadata": '{"request_kind": "compaction"}'})
    assert not is_beside({"x-codex-turn-metadata": "no JSON"})
