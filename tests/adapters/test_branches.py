"""Branches: each list of messages continues its own conversation, in this process and in the next."""

import gc
from typing import Any
from weakref import ref

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.adapters import branches
from protocol.adapters.adapter import Adapter, overflowed
from protocol.adapters.atoms import Atom, Telling
from protocol.errors import LogUnavailable, Rejected
from protocol.formats import messages
from protocol.ids import address
from tests.conftest import layer
from tests.said import said_messages


def said(*texts: str) -> list[Atom]:
    """Return what a user and an assistant said in turn."""
    out = []
    for place, text in enumerate(texts):
        told = Telling(role=("user", "assistant")[place % 2], own={"x": text})
        told.text("/x")
        out.append(told.atom(source=text))
    return out


async def log_of(running: Runtime, name: str) -> list[Any]:
    """Return the texts in the log of a conversation."""
    return [messages.decode(one.raw)["content"] for one in await said_messages(address(name), log=running.log)]


async def test_lists_are_kept_apart_and_said_once_also_by_another_process(
    working: Runtime, settings: Settings, name: str
) -> None:
    first = Adapter(settings.nats.url, framework="test", policy=layer())
    shown = await first.arun(first.view(name, said("one", "two", "three")))
    assert [seen.source for seen in shown.seen] == ["one", "two", "three"]
    # the same call again, as frameworks retry, and a list that goes on
    await first.arun(first.view(name, said("one", "two", "three")))
    await first.arun(first.keep(name, said("one", "two", "three", "four")))
    # an edit of the second message, and an agent of another task under the same name
    await first.arun(first.view(name, said("one", "other", "third")))
    await first.arun(first.view(name, said("task")))
    names = set(first.names())
    first.close()
    second = Adapter(settings.nats.url, framework="test", policy=layer())
    try:
        await second.arun(second.view(name, said("one", "two", "three", "four", "five")))
        await second.arun(second.view(name, said("one", "other", "third", "fourth", "fifth")))
        assert set(second.names()) <= names, "a resumed list found its conversation"
    finally:
        second.close()
    logs = sorted([await log_of(working, one) for one in names])
    assert logs == [
        ["one", "other", "third", "fourth", "fifth"],
        ["one", "two", "three", "four", "five"],
        ["task"],
    ]
    assert await log_of(working, name) == ["one", "two", "three", "four", "five"]


async def test_a_run_of_many_calls_goes_on_from_the_view_that_it_began_with(
    working: Runtime, settings: Settings, name: str
) -> None:
    first = Adapter(settings.nats.url, framework="test", budget=2_000)
    long = said(*(f"{number} and so on " * 60 for number in range(20)))
    await first.arun(first.view(name, long))
    first.close()
    second = Adapter(settings.nats.url, framework="test", budget=2_000)
    try:
        more = [f"{letter} and so on " * 60 for letter in "abcdefghij"]
        begun = [Atom(chat=one.chat) for one in (await second.arun(second.history(name))).seen]
        assert len(begun) < len(long), "the view is shorter than what was said"
        for calls in range(1, 11):
            await second.arun(second.view(name, [*begun, *said(*more)[:calls]]))
        assert second.names() == (name,)
    finally:
        second.close()
    assert (await log_of(working, name))[20:] == more


async def test_a_model_whose_calls_have_no_ids_reads_in_the_conversation_that_it_is_asked_in(
    working: Runtime, settings: Settings, name: str
) -> None:
    adapter = Adapter(settings.nats.url, framework="test", policy=layer())
    try:
        for text in ("one", "other"):
            adapter.asked(await adapter.arun(adapter.view(f"{name}-{text}", said(text))), [""])
        found = await adapter.arun(adapter.read(f"{name}-one", {"key": "messages:1"}))
        assert found == "--- message 1 (user) ---\none"
    finally:
        adapter.close()


async def test_conversations_that_are_not_at_hand_any_more_are_held_by_nothing(
    working: Runtime, settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "BRANCHES_MAX", 2)
    adapter = Adapter(settings.nats.url, framework="test", policy=layer())
    try:
        held = []
        for number in range(4):
            shown = await adapter.arun(adapter.view(f"{name}-{number}", said("one")))
            held.append(ref(shown.branch))
        del shown
        gc.collect()
        assert [one() is None for one in held] == [True, True, False, False]
    finally:
        adapter.close()


async def test_an_agent_goes_on_with_its_own_messages_while_nobody_is_there() -> None:
    away = Adapter("nats://127.0.0.1:9", framework="test")
    shown = await away.arun(away.view("any", said("one")))
    assert ([seen.source for seen in shown.seen], shown.branch) == (["one"], None)
    assert "cannot be read now" in await away.arun(away.read("any", {"key": "messages:1"}))
    away.close()


async def test_who_wants_no_run_without_it_is_told() -> None:
    strict = Adapter("nats://127.0.0.1:9", framework="test", strict=True)
    with pytest.raises(LogUnavailable):
        await strict.arun(strict.view("any", said("one")))
    strict.close()


def test_a_frameworks_own_exception_of_a_request_that_is_too_long_is_known_by_its_name() -> None:
    class ContextWindowOverflowException(Exception):
        """As in Strands."""

    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = ContextWindowOverflowException("Input exceeds the limit")
    assert overflowed(wrapped)
    assert not overflowed(RuntimeError("the model failed"))


def test_arguments_that_an_adapter_does_not_know_are_named() -> None:
    with pytest.raises(Rejected, match="bugdet"):
        Adapter("nats://127.0.0.1:9", framework="test", bugdet=1)  # type: ignore[call-arg]


async def test_what_a_provider_counts_of_instructions_takes_no_budget_from_an_adapter(
    working: Runtime, settings: Settings, name: str
) -> None:
    adapter = Adapter(settings.nats.url, framework="test", budget=2_000)
    shown = await adapter.arun(adapter.view(name, said("one")))
    assert shown.context is not None
    await adapter.arun(adapter.used(shown, sent=4 * shown.context.tokens, answered=1, cached=0))
    long = said("one", *(f"{word} and so on" * 60 for word in ("two", "three", "four", "five")))
    shown = await adapter.arun(adapter.view(name, long))
    assert [seen.source for seen in shown.seen] == [atom.source for atom in long]
