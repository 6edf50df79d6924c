"""Validate: what a provider would refuse in a list of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import BadMessage
from ..ids import PLAIN_LETTERS
from . import anthropic
from .anthropic import THINKING
from .cache_marks import MARKS_MAX
from .messages import ANTHROPIC, CHAT, INSTRUCTION_ROLES, RESPONSES, Message, Profile, parse, takes


def problems(view: Sequence[Mapping[str, Any]], profile: Profile = CHAT) -> list[str]:
    """Return the faults of *view*, in order, its messages counted from one; empty if a provider would take it.

    Calls at the very end may be without a result: the agent has still to bring it.
    """
    found: list[str] = []
    parsed: list[tuple[int, Mapping[str, Any], Message]] = []
    for number, message in enumerate(view, 1):
        try:
            parsed.append((number, message, _parsed(message, profile)))
        except BadMessage as error:
            found.append(f"message {number}: {error}")
    rules: Mapping[Profile, Callable[..., Iterator[str]]] = {CHAT: _chat, RESPONSES: _responses, ANTHROPIC: _anthropic}
    return [*found, *_repeated(parsed), *rules[profile](parsed)]


def _parsed(message: Mapping[str, Any], profile: Profile) -> Message:
    """Return a message as the provider reads it: what it does not know there belongs to nobody else."""
    role = message.get("role")
    if profile == ANTHROPIC and role in ("user", "assistant", "system") and isinstance(message.get("content"), list):
        return anthropic.parse(message, role)
    return parse(message)


Parsed = Sequence[tuple[int, Mapping[str, Any], Message]]


def _repeated(parsed: Parsed) -> Iterator[str]:
    seen: set[str] = set()
    for number, _, message in parsed:
        calls = {call.id for call in message.calls}
        if len(calls) < len(message.calls) or calls & seen:
            yield f"message {number}: a call id stands twice"
        seen |= calls


def _chat(parsed: Parsed) -> Iterator[str]:
    open_calls: set[str] = set()
    for number, message, read in parsed:
        if read.format != CHAT:
            yield f"message {number}: not in the format of OpenAI chat"
        if CHAT not in read.native and not takes(CHAT, message):
            yield f"message {number}: no content, or an empty list of calls"
        if read.role == "tool":
            said = read.results[0].id if read.results else ""
            if said not in open_calls:
                yield f"message {number}: a result without its call"
            open_calls.discard(said)
            continue
        yield from (f"message {number}: a call before it has no result" for _ in open_calls)
        open_calls = {call.id for call in read.calls}
        if message.get("role") in INSTRUCTION_ROLES and not (read.parts or read.fixed):
            yield f"message {number}: instructions without a text"


def _responses(parsed: Parsed) -> Iterator[str]:
    open_calls: dict[str, str] = {}
    reasoning: int | None = None
    for number, item, read in parsed:
        if RESPONSES not in read.native:
            yield f"message {number}: not an item of OpenAI Responses"
        if reasoning is not None and read.role != "assistant":
            yield f"message {reasoning}: reasoning without what it led to"
        reasoning = number if item.get("type") == "reasoning" else None
        for result in read.results:
            kind = open_calls.pop(result.id, "")
            if not kind:
                yield f"message {number}: a result without its call"
            elif item.get("type") not in (f"{kind}_output", kind.replace("request", "response")):
                yield f"message {number}: a result of another type than its call's"
        if open_calls and read.role not in ("assistant", "tool"):
            yield from (f"message {number}: a call before it has no result" for _ in open_calls)
            open_calls = {}
        open_calls |= {call.id: str(item.get("type")) for call in read.calls}
    if reasoning is not None:
        yield f"message {reasoning}: reasoning without what it led to"


def _anthropic(parsed: Parsed) -> Iterator[str]:
    start = 1 if parsed and parsed[0][1].get("role") == "system" else 0
    yield from _system(parsed[:start])
    open_calls: set[str] = set()
    before = "assistant"
    for number, message, read in parsed[start:]:
        if takes(ANTHROPIC, message) and message.get("role") == "system":
            # an instruction that stands where it was said
            yield from (f"message {number}: a call before it has no result" for _ in open_calls)
            yield from () if number > start + 1 else ("the user must begin",)
            before, open_calls = "", set()
            continue
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant") or message.keys() != {"role", "content"}:
            yield f"message {number}: not a message of Anthropic's"
            continue
        if role == before:
            yield (
                f"message {number}: two messages of the {role} in a row"
                if number > start + 1
                else "the user must begin"
            )
        before = str(role)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
        yield from (f"message {number}: {flaw}" for flaw in _block_flaws(blocks, str(role)))
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield f"message {number}: results must stand before anything else"
        said = [result.id for result in read.results]
        yield from (f"message {number}: a result without its call" for one in said if one not in open_calls)
        if number < parsed[-1][0] or read.role != "tool":
            yield from (f"message {number}: a call before it has no result" for one in open_calls if one not in said)
        if len(set(said)) < len(said):
            yield f"message {number}: two results of one call"
        open_calls = {call.id for call in read.calls}
    if parsed and len(parsed) == start:
        yield "no message but the instructions"
    if parsed and before == "assistant" and len(parsed) > start:
        yield from _end_flaws(parsed[-1][0], parsed[-1][1].get("content"))
    if sum(_marks(message) for _, message, _ in parsed) > MARKS_MAX:
        yield f"more than {MARKS_MAX} cache marks"


def _system(parsed: Parsed) -> Iterator[str]:
    for number, message, _ in parsed:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
        if not blocks or any(block.get("type") != "text" or not block["text"].strip() for block in blocks):
            yield f"message {number}: instructions are texts that are not blank"


def _block_flaws(blocks: list[dict[str, Any]], role: str) -> Iterator[str]:
    if not blocks:
        yield "no content"
    for block in blocks:
        kind = block["type"]
        if kind in anthropic.OTHERS:
            yield "a block of another provider's"
        if kind == "text" and not block["text"].strip():
            yield "a blank text"
        if kind in THINKING and role != "assistant":
            yield "reasoning that is not the assistant's"
        if kind == "thinking" and not (block.get("signature") and isinstance(block["signature"], str)):
            yield "reasoning without its signature"
        if kind == "tool_use" and not isinstance(block.get("input"), dict):
            yield "arguments that are no object"
        if kind in ("tool_use", "tool_result") and not PLAIN_LETTERS.fullmatch(block.get("id") or block["tool_use_id"]):
            yield "an id with other characters"
        if kind == "tool_result" and isinstance(block.get("content"), list):
            yield from _block_flaws(block["content"], role) if block["content"] else ()
    if role == "assistant" and blocks and blocks[-1]["type"] in THINKING:
        yield "reasoning at the end"


def _end_flaws(number: int, content: Any) -> Iterator[str]:
    """Say what is wrong with an end that the model goes on from: a text; a block of an unknown type is none."""
    end = content[-1] if content and isinstance(content, list) else {"type": "text", "text": content or ""}
    if end["type"] == "text" and end["text"] != end["text"].rstrip():
        yield f"message {number}: white space at the end"


def _marks(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(_marks(item) for key, item in value.items() if key != "input")
    return sum(map(_marks, value)) if isinstance(value, list) else 0
