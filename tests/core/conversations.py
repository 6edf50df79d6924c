"""Random conversations, as agents really write them and as they should not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from protocol.policy import Policy
from tests.builders import assistant, policy, result, system, user

_PLACES = ("/srv/app/main.py", "ORD-10042", "https://shop.example/a?b=1", "a3f9c2d1e", "retry_limit=5", "Zoë", "日本")
_SAID = (
    "You must never restart it.",
    "We decided to use sqlite.",
    "ERROR: ValueError in step",
    "ok",
    "👩‍💻 done.",
    "\n\n",
)

snippets = st.lists(st.sampled_from(_PLACES + _SAID), max_size=6).map(" ".join)
wild = st.text(st.characters(codec="utf-8"), max_size=30)
huge = st.builds(
    lambda piece, times: (piece + "\n") * times,
    st.sampled_from((*_PLACES, *_SAID, "x" * 40, "ERROR \ud800")),
    st.integers(20, 900),
)
broken = st.sampled_from(("\ud800", "half a pair \udc00", "\ud83d text"))
texts = st.one_of(st.just(""), snippets, snippets, wild, huge, broken)
contents = st.one_of(
    texts,
    texts,
    st.none(),
    st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), max_size=3),
)
arguments = st.one_of(st.just("{}"), st.builds(lambda text: '{"path":"' + text * 20 + '"}', st.sampled_from(_PLACES)))
fresh = st.just("fresh")
WRITTEN = (
    ("{0}\n```\n{1}\n```", "{0}\n(Current directory: /srv)\nbash-$"),
    ("THOUGHT: {0}\n```bash\n{1}\n```", "<returncode>1</returncode>\n<output>\n{0}\n</output>"),
    ("{0}\n<read_file>\n<path>{1}</path>\n</read_file>", "[read_file for 'x'] Result:\n{0}"),
    ("{0}\n<function=run>\n<parameter=cmd>{1}</parameter>\n</function>", "EXECUTION RESULT of [run]:\n{0}"),
    ("{0}\nAction: run\nAction Input: {1}", "Observation: {0}"),
    (
        '{0}<tool_call>{{"name": "run", "arguments": {{"cmd": "{1}"}}}}</tool_call>',
        "<tool_response>{0}</tool_response>",
    ),
)
"""How agents without tool calls write one, and what their programs answer in the user's place."""

NOTICES = (
    "<task-notification>\n<task-id>b1</task-id>\n<event>{0}</event>\n</task-notification>",
    "<environment_details>\n{0}\n</environment_details>",
    "<bash-stdout>{0}</bash-stdout>",
)
"""What programs say unasked."""

idents = st.one_of(fresh, fresh, fresh, st.sampled_from(("c1", "c2", "c1-3-0", "\ud800", "a b>*")))


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """Draw what happens between two users: calls with results in any order, some missing, some nobody asked for."""
    kind = draw(
        st.sampled_from(("user", "talk", "notice", "written", "batch", "batch", "batch", "orphan", "system", "bad"))
    )
    if kind == "user":
        return [user(draw(contents.filter(lambda content: content is not None)))]
    if kind == "notice":
        return [user(draw(st.sampled_from(NOTICES)).format(draw(texts)))]
    if kind == "talk":
        return [assistant(draw(snippets)) | draw(st.sampled_from(({}, {"tool_calls": []})))]
    if kind == "written":
        call, frame = draw(st.sampled_from(WRITTEN))
        asked = assistant(call.format(draw(snippets), draw(st.one_of(snippets, broken))))
        return [asked, *([user(frame.format(draw(texts)))] if draw(st.booleans()) else [])]
    if kind == "orphan":
        return [result(draw(st.sampled_from(("c1", "nobody", "\udfff"))), draw(contents))]
    if kind == "system":
        return [system(draw(snippets))]
    if kind == "bad":
        return [draw(st.sampled_from(({"role": "tool"}, {"role": []}, {}, user(7), {"role": "user", "x": [[]]})))]
    chosen = draw(st.lists(idents, min_size=1, max_size=3))
    calls = [f"t{number}-{index}" if ident == "fresh" else ident for index, ident in enumerate(chosen)]
    answered = draw(st.permutations(calls))[: draw(st.sampled_from((0, 1, 2, 3, 3, 3, 3)))]
    asked = assistant(draw(st.one_of(st.none(), snippets)), *calls, arguments=draw(arguments))
    return [asked, *(result(ident, draw(contents)) for ident in answered)]


@st.composite
def conversations(draw: st.DrawFn, *, turns_max: int = 14) -> list[dict[str, Any]]:
    """Draw one conversation."""
    head = draw(st.sampled_from(([], [system("You are an agent. You must never guess.")])))
    first = [user(draw(texts))] if draw(st.booleans()) else []
    count = draw(st.integers(0, turns_max))
    return [*head, *first, *(message for number in range(count) for message in draw(turns(number)))]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy with a small window, so that every stage has something to do."""
    low_water = draw(st.sampled_from((0.2, 0.5, 0.6)))
    squeezing = {"mode": "squeeze", "model": "m"}
    mode: dict[str, Any] = draw(st.sampled_from(({}, squeezing, squeezing)))
    return policy(
        draw(st.integers(300, 20_000)),
        target={"low_water": low_water, "min_gain": draw(st.sampled_from((0.0, 0.05, 0.3)))},
        trigger={"ratio": draw(st.sampled_from((0.6, 0.9)))},
        digest={"keep_blocks": draw(st.sampled_from((None, 0, 2)))},
        cut={
            "pins": draw(st.sampled_from((["last_user"], ["last_user", "first_user"]))),
            "on_overflow": draw(st.sampled_from(("shrink", "shrink", "refuse"))),
            "by": draw(st.sampled_from(("units", "units", "blocks"))),
            "floor": draw(st.sampled_from(({}, {}, {"blocks": 2}, {"blocks": 3, "mode": "hard"}))),
        },
        spill={"users": draw(st.sampled_from(("spill", "spill", "keep")))},
        squeeze=mode,
    )


ANSWERS = st.sampled_from(("", "short notes", "<think>hm</think>kept ORD-10042", "\ud800 broken"))
