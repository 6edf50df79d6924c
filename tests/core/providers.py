"""Random conversations in the formats of Anthropic and of OpenAI Responses, good ones and bad ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from protocol.formats.messages import json_copy
from tests.core.conversations import contents, idents, texts
from tests.core.conversations import turns as chat_turns

Blocks = st.SearchStrategy[dict[str, Any]]
PNG = "iVBORw0KGgo="
inputs = st.sampled_from(({}, {"path": "/srv/app/main.py"}, {"q": ["日本", 1.5, None]}, {"text": "ORD-10042 " * 60}))
marks = st.sampled_from(({}, {}, {}, {"cache_control": {"type": "ephemeral"}}))
words: Blocks = st.builds(lambda text, mark: {"type": "text", "text": text} | mark, texts, marks)
pictures: Blocks = st.sampled_from(
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "a plain text"},
            "title": "t",
        },
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "inner"}]}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]},
        {"type": "container_upload", "file_id": "file_2"},
        {"type": "tomorrow", "what": {"deep": [None, {"x": "y"}]}},
    )
)
thinking: Blocks = st.sampled_from(
    (
        {"type": "thinking", "thinking": "hm, ORD-10042", "signature": "c2lnbmVk"},
        {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
        {"type": "thinking", "thinking": "unsigned", "signature": ""},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
    )
)
hosted: Blocks = st.sampled_from(
    (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    )
)
told = st.one_of(texts, st.none(), st.lists(st.one_of(words, pictures), max_size=3))


@st.composite
def anthropic_turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from(("user", "talk", "batch", "batch", "batch", "orphan", "system")))
    if kind == "user":
        return [{"role": "user", "content": draw(st.one_of(texts, st.lists(st.one_of(words, pictures), max_size=3)))}]
    if kind == "system":
        return [{"role": "system", "content": draw(st.one_of(texts, st.lists(words, max_size=2)))}]
    if kind == "orphan":
        return [{"role": "user", "content": [_result("nobody", draw(told)), *draw(st.lists(words, max_size=1))]}]
    led = draw(st.lists(st.one_of(thinking, words, hosted), max_size=3))
    if kind == "talk":
        whole = {"role": "assistant", "content": led}
        return [draw(st.sampled_from((whole, whole | {"id": "msg_1", "type": "message", "stop_reason": "end_turn"})))]
    chosen = draw(st.lists(idents, min_size=1, max_size=3))
    calls = [f"toolu_{number}-{index}" if ident == "fresh" else ident for index, ident in enumerate(chosen)]
    made = [{"type": "tool_use", "id": ident, "name": "look", "input": draw(inputs)} for ident in calls]
    answered = draw(st.permutations(calls))[: draw(st.sampled_from((0, 1, 2, 3, 3, 3, 3)))]
    results = [_result(ident, draw(told)) | draw(st.sampled_from(({}, {"is_error": True}))) for ident in answered]
    asked = {"role": "assistant", "content": [*led, *made]}
    spoken = draw(st.lists(words, max_size=1))
    if not draw(st.booleans()):
        return [asked, *({"role": "user", "content": [result]} for result in results), *_user(spoken)]
    together = draw(st.sampled_from(([*results, *spoken], [*spoken, *results])))
    return [asked, *_user(together)]


def _result(ident: str, content: Any) -> dict[str, Any]:
    made = {"type": "tool_result", "tool_use_id": ident}
    return made if content is None else made | {"content": content}


def _user(blocks: list[Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": blocks}] if blocks else []


reasonings: Blocks = st.sampled_from(
    (
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
        {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "hm"}]},
    )
)
others: Blocks = st.sampled_from(
    (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG},
        {"type": "compaction", "encrypted_content": "b3BhcXVl"},
        {"type": "item_reference", "id": "msg_7"},
        {"type": "some_new_thing", "id": "x", "what": {"deep": [None]}},
    )
)
inner: Blocks = st.one_of(
    st.builds(lambda text: {"type": "input_text", "text": text}, texts),
    st.just({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}),
    st.just({"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}),
    st.just({"type": "input_file", "file_id": "file_1"}),
)
spoken: Blocks = st.builds(
    lambda text: {
        "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    },
    texts,
)  # fmt: skip


@st.composite
def responses_turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from(("user", "talk", "batch", "batch", "batch", "orphan", "system")))
    if kind in ("user", "system"):
        said = draw(st.one_of(texts, st.lists(inner, min_size=1, max_size=3)))
        return [{"role": kind, "content": said} | draw(st.sampled_from(({}, {"type": "message"})))]
    if kind == "orphan":
        return [{"type": "function_call_output", "call_id": "nobody", "output": draw(texts)}]
    led: list[dict[str, Any]] = draw(st.lists(st.one_of(reasonings, spoken, others), max_size=3))
    if kind == "talk":
        return [*led, draw(spoken)]
    chosen = draw(st.lists(idents, min_size=1, max_size=3))
    made: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for index, ident in enumerate(chosen):
        said = f"call_{number}-{index}" if ident == "fresh" else ident
        call, result = draw(st.sampled_from(PAIRS))
        made.append(call(said))
        answered.append(result(said, draw(st.one_of(texts, st.lists(inner, max_size=2)))))
    answered = draw(st.permutations(answered))[: draw(st.sampled_from((0, 1, 2, 3, 3, 3, 3)))]
    return led + made + answered


def _function(said: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": said, "name": "look", "arguments": '{"path":"/srv/app/main.py"}'}


def _custom(said: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": said, "name": "patch", "input": "not { JSON"}


def _shell(said: str) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": said, "action": {"commands": ["ls"]}}


def _computer(said: str) -> dict[str, Any]:
    return {"type": "computer_call", "id": "cu_1", "call_id": said, "pending_safety_checks": [], "status": "completed"}


def _screen(said: str) -> dict[str, Any]:
    shot = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"}
    return {"type": "computer_call_output", "call_id": said, "output": shot}


PAIRS: tuple[tuple[Any, Any], ...] = (
    (_function, lambda said, text: {"type": "function_call_output", "call_id": said, "output": text}),
    (_function, lambda said, text: {"type": "function_call_output", "call_id": said, "output": text}),
    (_custom, lambda said, text: {"type": "custom_tool_call_output", "call_id": said, "output": text}),
    (_shell, lambda said, _: {"type": "shell_call_output", "call_id": said, "output": []}),
    (_computer, lambda said, _: _screen(said)),
)


@st.composite
def any_conversations(draw: st.DrawFn, *, turns_max: int = 10) -> list[dict[str, Any]]:
    """Draw a conversation in one of the formats, now and then one that changes between them."""
    makers: list[Any] = draw(
        st.sampled_from(
            (
                [anthropic_turns],
                [anthropic_turns],
                [responses_turns],
                [responses_turns],
                [chat_turns],
                [chat_turns, anthropic_turns, responses_turns],
            )
        )
    )
    head = draw(st.sampled_from(([], [{"role": "system", "content": "You are an agent. You must never guess."}])))
    first = [{"role": "user", "content": draw(contents)}] if draw(st.booleans()) else []
    said = [
        message
        for number in range(draw(st.integers(0, turns_max)))
        for message in draw(draw(st.sampled_from(makers))(number))
    ]
    return [*head, *first, *said]


things: st.SearchStrategy[Any] = st.one_of(
    *(st.none(), st.booleans(), st.just(1.5), st.just(10**30), texts, st.just("c1"), st.just([]), st.just({})),
    *(words, pictures, st.lists(st.one_of(words, pictures, hosted, thinking, inner), max_size=2)),
)


@st.composite
def broken_conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a conversation in which any value may be another one, or missing."""
    # the generators hand out the same objects again and again
    said: list[dict[str, Any]] = json_copy(draw(any_conversations(turns_max=3)))
    for message in said:
        for _ in range(draw(st.integers(0, 2))):
            _break(message, draw)
    return said


def _break(message: dict[str, Any], draw: st.DrawFn) -> None:
    inside: list[tuple[Any, Any]] = []
    left: list[Any] = [message]
    while left:
        outer = left.pop()
        keys = list(outer) if isinstance(outer, dict) else range(len(outer))
        inside += [(outer, key) for key in keys]
        left += [outer[key] for key in keys if isinstance(outer[key], (dict, list))]
    if not inside:
        return
    outer, key = draw(st.sampled_from(inside))
    if draw(st.integers(0, 3)):
        outer[key] = json_copy(draw(things))
    else:
        del outer[key]
