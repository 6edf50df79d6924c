"""As it was sent: a conversation that declares its format is shown to that provider byte for byte, whatever is in it.

The requests are made after what Claude Code sends: instructions between the messages that change the effort or the
tools, one without content, marks that move, and reasoning that holds behind what its call saw and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.entry import measure
from actors.core.view import View, view
from actors.runtime.fold import folded
from protocol.errors import BadMessage, BudgetRefused, NotReady
from protocol.facts import ConversationOpened, SaidMessage
from protocol.formats import messages
from protocol.formats.bound_reasoning import Prefixes, binds
from protocol.formats.cache_marks import MARKS_KEPT, NO_MARKS, Marks, marked, marks_in, without_marks
from protocol.formats.messages import ANTHROPIC, CHAT, PROFILES, Profile
from protocol.formats.validate import problems
from protocol.policy import Policy
from tests.audit.recorded import serve
from tests.builders import COUNT, Talk, assistant, policy, result, system, user, words
from tests.core.conversations import policies
from tests.core.providers import any_conversations, broken_conversations
from tests.laws import LAWS

Json = dict[str, Any]
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said} | more


def thought(said: str) -> Json:
    return {"type": "thinking", "thinking": said, "signature": hashlib.sha256(said.encode()).hexdigest()}


def called(ident: str, *led: Json) -> Json:
    use = {"type": "tool_use", "id": ident, "name": "Bash", "input": {"command": f"cat {ident}.log", "timeout": 1.5}}
    return {"role": "assistant", "content": [*led, use]}


def answered(ident: str, content: Any = "ok", **more: Any) -> Json:
    return user([{"type": "tool_result", "tool_use_id": ident, "content": content} | more])


TOOL = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "WebFetch"}}
CLAUDE_CODE: list[Json] = [
    user([text("<system-reminder>\nToday is a Tuesday.\n</system-reminder>"), text("Why do the payouts fail?")]),
    {"role": "system", "content": [text("Tools load on demand.")], "output_config": {"effort": "high"}},
    called("toolu_1", thought("look at the log first"), text("I look.")),
    answered("toolu_1", [{"type": "tool_reference", "tool_name": "WebFetch"}], is_error=False),
    {"role": "system", "content": [TOOL], "clear_at": "next_user_message"},
    called("toolu_2", thought("")),
    answered("toolu_2", [text("line 1"), {"type": "tomorrow", "deep": [None, {"x": 1}]}]),
    {"role": "system", "content": [], "output_config": {"effort": "low"}},
    {
        "role": "assistant",
        "content": [thought("so"), {"type": "fallback", "to": {"model": "m"}}, text("The key is old.")],
    },
    user([text("And now?"), {"type": "a_block_of_tomorrow", "data": "x" * 40}]),
    system("The user changed the plan."),
    user("go on"),
]


def opened(wanted: Policy | None = None, *, profile: Profile = ANTHROPIC, model: str = "") -> Talk:
    talk = Talk(wanted or policy(20_000, shape={"profile": profile}))
    talk.say(ConversationOpened(name="as sent", late_results=True, format=profile, model=model))
    return talk


def raws(*said: Json) -> tuple[bytes, ...]:
    return tuple(map(messages.encode, said))


def test_what_claude_code_sends_comes_back_byte_for_byte_at_each_of_its_requests() -> None:
    talk = opened()
    for upto, message in enumerate(CLAUDE_CODE, 1):
        talk.play(message)
        if message.get("role") == "user":
            serve(talk)
            assert talk.view().messages == raws(*CLAUDE_CODE[:upto])
            assert problems(talk.shown(), ANTHROPIC) == []
    assert folded(talk.at, talk.records).shown == talk.state.shown


def test_a_type_of_tomorrow_comes_back_in_openais_chat_too() -> None:
    said = [
        system("s"),
        user([text("look"), {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}}]),
        assistant(None, "c1"),
        result("c1", [text("found"), {"type": "tomorrow", "x": 1}]),
    ]
    talk = opened(profile=CHAT)
    talk.play(*said)
    assert talk.view().messages == raws(*said)
    other = view(talk.state, budget=10_000, count=COUNT, profile=ANTHROPIC)
    assert problems([json.loads(raw) for raw in other.messages], ANTHROPIC) == []


def test_an_instruction_that_led_is_sent_apart_and_a_later_one_never_becomes_it() -> None:
    talk = opened(policy(600, shape={"profile": ANTHROPIC}, digest={"keep_blocks": 1}))
    later = {"role": "system", "content": [text("Be brief.")], "output_config": {"effort": "low"}}
    talk.play(system("s"), user("u"), later, *(user(words(90)) for _ in range(9)))
    shown = talk.shown()
    assert shown[0] == system("s")
    assert problems(shown, ANTHROPIC) == []
    assert all(message["role"] != "system" or message == later for message in shown[1:])


def runs(turns: int) -> list[Json]:
    """Return a run in which each call thinks, with results that a compaction makes smaller."""
    out: list[Json] = [user("Mend ORD-10042.")]
    for turn in range(turns):
        out += [called(f"t{turn}", thought(f"step {turn}")), answered(f"t{turn}", words(80))]
    return out


def strict(seen: dict[str, str], request: list[Json]) -> list[str]:
    """Return the signatures that a provider refuses, as it knows what each call saw."""
    bad = []
    for at, message in enumerate(request):
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            before = json.dumps(request[:at])
            if block["type"] == "thinking" and seen.get(block["signature"], before) != before:
                bad.append(block["thinking"])
    return bad


def played(talk: Talk, said: list[Json]) -> tuple[dict[str, str], int]:
    """Play *said* as an agent does: each answer comes from the view before it. Return what each call saw, and drops."""
    seen: dict[str, str] = {}
    dropped = 0
    for message in said:
        if message["role"] == "assistant":
            serve(talk)
            request = talk.shown()
            assert strict(seen, request) == []
            kept = json.dumps(request)
            dropped += sum(signature not in kept for signature in seen)
            for block in message["content"]:
                if block["type"] == "thinking":
                    seen[block["signature"]] = json.dumps(request)
        talk.play(message)
    return seen, dropped


def test_reasoning_stays_where_its_call_saw_all_before_it_and_nowhere_else() -> None:
    talk = opened(policy(1000, shape={"profile": ANTHROPIC}))
    seen, dropped = played(talk, runs(24))
    serve(talk)
    assert talk.state.digest is not None
    assert dropped > 0
    newest = [block for message in talk.shown()[-4:] for block in message["content"] if block["type"] == "thinking"]
    assert newest, "the view only grew at its end since the newest compaction"
    assert strict(seen, talk.shown()) == []


@given(wanted=policies(), turns=st.integers(1, 12), budgets=st.lists(st.integers(150, 4000), max_size=3))
@LAWS
def test_no_view_shows_reasoning_behind_what_its_call_did_not_see(
    wanted: Policy, turns: int, budgets: list[int]
) -> None:
    talk = opened(wanted)
    try:
        seen, _ = played(talk, runs(turns))
    except (BudgetRefused, NotReady):
        return
    for budget in budgets:
        found = view_or_none(talk, ANTHROPIC, budget)
        if found is not None:
            assert strict(seen, [json.loads(raw) for raw in found.messages]) == []


def test_what_was_never_served_keeps_its_reasoning_until_something_before_it_changes() -> None:
    talk = opened(policy(1000, shape={"profile": ANTHROPIC}))
    said = runs(4)
    talk.play(*said)
    assert talk.view().messages == raws(*said)
    talk.play(*runs(30)[9:])
    assert "thinking" not in json.dumps(talk.shown()[:3])


def test_a_model_that_binds_nothing_keeps_its_reasoning() -> None:
    talk = opened(policy(1000, shape={"profile": ANTHROPIC}), model="claude-sonnet-4-5-20250929")
    talk.play(*runs(24))
    newest = [block for message in talk.shown()[-8:] for block in message["content"] if block["type"] == "thinking"]
    assert len(newest) == 4


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("", True),
        ("claude-opus-5-5", True),
        ("claude-fable-5.1", True),
        ("a-model-of-somebody", True),
        ("claude-sonnet-4-5-20250929", False),
        ("anthropic/claude-opus-4.6", False),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", False),
        ("claude-opus-4", False),
    ],
)
def test_models_from_before_the_fifth_bind_no_reasoning(model: str, bound: bool) -> None:
    assert binds(model) is bound


def test_the_hash_of_a_beginning_is_that_of_the_view_that_it_was() -> None:
    items = raws(*CLAUDE_CODE[:4])
    for head in ((), raws(system("s"))):
        prefixes = Prefixes(head)
        for upto in range(4):
            whole = hashlib.sha256(b"[" + b",".join((*head, *items[:upto])) + b"]").hexdigest()
            assert prefixes.has(whole, items[len(prefixes) : upto])
        prefixes.back_to(1)
        assert len(prefixes) == 1
        assert prefixes.has("", ())


def view_or_none(talk: Talk, profile: Profile, budget: int = 0) -> View | None:
    try:
        return view(talk.state, budget=budget or talk.state.usable_tokens, count=COUNT, profile=profile)
    except (BudgetRefused, NotReady):
        return None


blocks_of_tomorrow = st.fixed_dictionaries(
    {"type": st.sampled_from(("tomorrow", "video_url", "x")), "a": st.integers()}
)
of_tomorrow = st.one_of(
    st.builds(lambda block: user([text("x"), block]), blocks_of_tomorrow),
    st.builds(lambda block: {"role": "assistant", "content": [block]}, blocks_of_tomorrow),
    st.builds(lambda block: {"role": "system", "content": [block]}, blocks_of_tomorrow),
    st.builds(
        lambda said: {"role": "system", "content": said, "output_config": {}}, st.sampled_from(("", "x", [], None))
    ),
    st.sampled_from([message for message in CLAUDE_CODE if message.get("role") != "user"]),
    st.just({"type": "tomorrow_too", "content": [1, {"type": []}]}),
)


@st.composite
def mixed(draw: st.DrawFn) -> list[Json]:
    """Draw a conversation of any format with what no release knows in it."""
    said: list[Json] = []
    for message in draw(st.one_of(any_conversations(), broken_conversations())):
        said += [message, *draw(st.lists(of_tomorrow, max_size=1))]
    return said


@given(said=mixed(), wanted=policies(), declared=st.sampled_from(PROFILES), budget=st.integers(60, 20_000))
@LAWS
def test_every_view_of_a_declared_conversation_is_legal_and_within_its_budget(
    said: list[Json], wanted: Policy, declared: Profile, budget: int
) -> None:
    talk = opened(wanted, profile=declared)
    talk.play(*said)
    for profile in PROFILES:
        found = view_or_none(talk, profile, min(budget, talk.state.usable_tokens))
        if found is not None:
            assert problems([json.loads(raw) for raw in found.messages], profile) == []
            cost = [measure(SaidMessage(raw=raw), number=1, count=COUNT, declared=profile) for raw in found.messages]
            assert sum(entry.tokens + entry.apart_tokens for entry in cost) <= found.tokens <= budget


@given(said=any_conversations(), wanted=policies())
@LAWS
def test_a_conversation_without_anything_new_in_it_is_shown_as_before(said: list[Json], wanted: Policy) -> None:
    """Declared, it differs in two things alone: instructions in the middle, and reasoning behind another view."""
    new = ("thinking", '"tomorrow"')
    plain = [
        message
        for message in said
        if message.get("role") != "system" and not any(mark in json.dumps(message) for mark in new)
    ]
    before, after = Talk(wanted), Talk(wanted)
    before.say(ConversationOpened(name="x"))
    after.say(ConversationOpened(name="x", format=ANTHROPIC))
    for talk in (before, after):
        talk.play(*plain)
    for profile in PROFILES:
        one, other = view_or_none(before, profile), view_or_none(after, profile)
        assert (one and one.messages) == (other and other.messages)


@given(said=mixed())
@LAWS
def test_marks_leave_nothing_else_and_stand_once_before_the_messages_and_twice_in_them_at_most(
    said: list[Json],
) -> None:
    marks = NO_MARKS
    for message in said:
        marks = marks.after(message)
        bare = without_marks(message)
        assert marks_in(messages.encode(bare)) == 0
        assert without_marks(bare) == bare
    marks = Marks(system={"type": "ephemeral"}, messages={"type": "ephemeral", "ttl": "1h"})
    chosen = [message for message in said if isinstance(message.get("content"), (str, list))]
    content = [text("rules", **EPHEMERAL)]
    apart, shown = marked(content, [message for message in chosen if is_readable(message)], marks)
    assert marks_in(messages.encode({"content": apart})) == 1
    assert sum(marks_in(messages.encode(one)) for one in shown) <= MARKS_KEPT


def is_readable(message: Json) -> bool:
    try:
        messages.parse(message)
    except BadMessage:
        return False
    return True


def test_marks_stand_at_the_end_of_the_rules_and_on_the_two_newest_messages_of_the_users() -> None:
    marks = NO_MARKS.after(user([text("x", **EPHEMERAL)]))
    said = [user("a"), assistant("b"), answered("t1"), called("t2"), user([text("c"), {"type": "tomorrow"}])]
    apart, shown = marked("rules", said, marks)
    assert apart == "rules"
    assert [marks_in(messages.encode(one)) for one in shown] == [0, 0, 1, 0, 1]
    assert shown[4]["content"][0] == text("c", **EPHEMERAL)
    assert marked("rules", said, Marks(system={"type": "ephemeral"}))[0] == [text("rules", **EPHEMERAL)]
