"""The question for a view goes out with what is appended before it, and is never answered without that."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.gateway.plan import Planner
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.services.context_service import ContextService
from protocol import codec, prepared
from protocol.facts import ContextServed
from protocol.guarded import Guarded
from protocol.ids import address, fresh_id
from protocol.service_call import ask
from protocol.service_messages import Answer, ContextAsked
from protocol.voice import Voice
from storage.gateway_places import JetStreamPlaces
from tests.conftest import done_facts
from tests.gateway.model import Json, before_a_model, words


class Order:
    """What a request waits for, in order; where told so the log gets what was said only behind an early answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.is_late = False
        self.written: dict[int, bytes] = {}
        """What went over each connection, in order. The actors of this process have connections of their own."""
        self._answered = asyncio.Event()
        publish, claim, make, write = Voice._publish, JetStreamPlaces.write, prepared.ready, Guarded._write

        async def claimed(*arguments: Any, **more: Any) -> int | None:
            self.seen.append("claims")
            found = await claim(*arguments, **more)
            self.seen.append("claimed")
            return found

        def ready(raws: Any) -> Any:
            self.seen.append("ready")
            return make(raws)

        def written(connection: Guarded) -> None:
            self.written[id(connection)] = self.written.get(id(connection), b"") + b"".join(connection._pending)
            write(connection)

        async def published(saying: Voice, said: codec.Said, patience: float) -> int:
            if not said.writer.startswith("k-"):
                return await publish(saying, said, patience)
            self.seen.append("sent")
            if self.is_late:
                await self._answered.wait()
            seq = await publish(saying, said, patience)
            self.seen.append("confirmed")
            return seq

        async def asked(connection: Any, at: Any, verb: Any, question: Any, seconds: float) -> tuple[Answer, bytes]:
            if isinstance(question, ContextAsked):
                self.seen.append("asked")
            answer = await ask(connection, at, verb, question, seconds)
            if self.is_late:
                self._answered.set()
            return answer

        monkeypatch.setattr(JetStreamPlaces, "write", claimed)
        monkeypatch.setattr(prepared, "ready", ready)
        monkeypatch.setattr(Guarded, "_write", written)
        monkeypatch.setattr(Voice, "_publish", published)
        monkeypatch.setattr("protocol.voice.ask", asked)


@pytest.mark.slow
async def test_a_view_is_asked_for_before_what_it_shows_is_confirmed_and_shows_it_all_the_same(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Json] = [{"role": "user", "content": f"run {fresh_id()[:8]}: {words(8_000)}"}]

    async def asked(url: str) -> Any:
        got = await session.post(f"{url}/v1/chat/completions", json={"model": "of-nobody", "messages": told})
        assert got.headers["x-jettison"] == "kept"
        told.extend([{"role": "assistant", "content": "On."}, {"role": "user", "content": f"{len(told)}?"}])
        return got.headers

    async with before_a_model(settings, Planner(deadline_seconds=60.0)) as url:
        await asked(url)
        order = Order(monkeypatch)
        await asked(url)
        assert order.seen == ["claims", "ready", "claimed", "sent", "asked", "confirmed"]
        (gateway,) = [sent for sent in order.written.values() if b"ctx.v1.ask.context." in sent]
        assert gateway.index(b".said ") < gateway.index(b"ctx.v1.ask.context.")

        # a service of an earlier release, which answers with what it has
        hears = ContextService._heard

        async def of_before(service: ContextService, at: Any, question: ContextAsked) -> Any:
            return await hears(service, at, msgspec.structs.replace(question, coming=None))

        monkeypatch.setattr(ContextService, "_heard", of_before)
        order.seen.clear()
        order.is_late = True
        headers = await asked(url)
        assert order.seen == ["claims", "ready", "claimed", "sent", "asked", "confirmed", "asked"]
        monkeypatch.setattr(ContextService, "_heard", hears)
        await asked(url)
    facts = done_facts(await working.log.read(address(headers["x-jettison-conversation"]), after=0))
    served = [fact for fact in facts if isinstance(fact, ContextServed)]
    assert [fact.upto for fact in served] == [1, 3, 3, 5, 7]
    assert served[-1].unsent == (int(headers["x-jettison-version"]) - 1,)
