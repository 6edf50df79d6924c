"""Callers of Responses who name a conversation that their provider keeps, and send what is new of it alone."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from openai import APIError, AsyncOpenAI, BadRequestError

from actors.gateway.apis import RESPONSES_API
from actors.gateway.bodies import Body
from actors.gateway.conversations import added_to
from actors.gateway.ends import BrokenOff, Ends
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.formats import messages
from protocol.ids import fresh_id
from tests.gateway.model import JSON, Json, Reply, StrictModel
from tests.gateway.provider import Answer, Asked, in_front_of, provider, without_nats
from tests.gateway.test_stateful import TOLD, TURNS, WINDOW, asked, client, replies, results
from tests.said import said_messages

PAGE = 3
"""Items that the provider shows at once, however many are asked for."""


class Keeping:
    """A strict provider that keeps conversations, as OpenAI does: what it is asked in one is put behind what it has."""

    def __init__(self, model: StrictModel) -> None:
        self.model = model
        self.items: dict[str, list[Json]] = {}
        self.takes = True
        """What is to be added."""
        self.named = 0
        """Requests that named one, so that it put its own items before them."""

    def __call__(self, given: Asked) -> Answer:
        path, _, query = given.target.partition("?")
        if path == "/v1/conversations":
            ident = f"conv_{fresh_id()}"
            self.items[ident] = []
            return told({"id": ident, "object": "conversation", "created_at": 0, "metadata": {}})
        if path.startswith("/v1/conversations/"):
            kept = self.items.get(path.split("/")[3])
            if kept is None:
                return told({"error": {"message": "no such conversation"}}, status=404)
            return self._added(kept, given.json["items"]) if given.method == "POST" else self._page(kept, query)
        body = given.json
        if (ident := body.pop("conversation", None)) is None:
            return self.model(given)
        ident = ident["id"] if isinstance(ident, dict) else ident
        self.named += 1
        if ident not in self.items:
            return told({"error": {"message": "no such conversation"}}, status=400)
        body["input"] = [*self.items[ident], *body["input"]]
        return self.model(Asked(method="POST", target=path, headers=(), body=json.dumps(body).encode()))

    def _added(self, kept: list[Json], items: list[Json]) -> Answer:
        if not self.takes or len(items) > 20:
            return told({"error": {"message": "too many"}}, status=400)
        kept += [{"id": f"item_{fresh_id()}", "type": "message", "status": "completed", **one} for one in items]
        return told({"object": "list", "data": items})

    def _page(self, kept: list[Json], query: str) -> Answer:
        asked_for = parse_qs(query)
        assert asked_for["order"] == ["asc"]
        after = asked_for.get("after", [""])[0]
        start = next((at for at, one in enumerate(kept, 1) if one["id"] == after), 0)
        data = kept[start : start + PAGE]
        page = {"data": data, "has_more": start + PAGE < len(kept), "last_id": data[-1]["id"] if data else None}
        return told({"object": "list", **page})


def told(body: Json, *, status: int = 200) -> Answer:
    return Answer(status=status, headers=JSON, pieces=(json.dumps(body).encode(),))


@pytest.mark.slow
async def test_who_names_a_conversation_goes_on_in_a_window_that_it_does_not_fit(
    working: Runtime, settings: Settings
) -> None:
    model, run = StrictModel(window=WINDOW, replies=replies), f"n{fresh_id()[:8]}"
    keeping, before = Keeping(model), set(await working.log.addresses())
    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    async with provider(keeping) as there, in_front_of(there, settings, **section) as url, client(url, "k") as llm:
        ident = (await llm.conversations.create()).id
        items: list[Json] = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Look."}]
        answer = await asked(llm, run, items, conversation=ident)
        for turn in range(TURNS):
            answer = await asked(llm, run, results(answer), conversation=ident, streams=bool(turn % 2))
        assert (model.refused, keeping.named) == ([], 0)
        (at,) = set(await working.log.addresses()) - before
        kept = json.dumps(keeping.items[ident])
        # its provider has what its agent said and saw, the log what really was; each word once
        assert (kept.count(TOLD), kept.count("Be short."), kept.count("read_artifact")) == (TURNS, 1, 0)
        said = json.dumps([messages.decode(one.raw) for one in await said_messages(at, log=working.log)])
        assert (said.count(TOLD), said.count('"read_artifact"')) == (TURNS, 1)
        for text in (kept, said):
            assert [text.count(f'"{turn}."') for turn in range(TURNS)] == [1] * TURNS
        await _not_added(keeping, llm, run, answer, ident)
        for nobodys in ("conv_of_nobody", {"id": "../files"}, "a/b?c"):
            count = len(there.asked)
            with pytest.raises(BadRequestError, match="no such conversation"):
                await asked(llm, run, items, conversation=nobodys)
            # an id stands in a path, and leads nowhere else
            targets = {"/v1/responses", f"/v1/conversations/{nobodys}/items"}
            assert {one.target.partition("?")[0] for one in there.asked[count:]} <= targets


async def _not_added(keeping: Keeping, llm: AsyncOpenAI, run: str, answer: Any, ident: str) -> None:
    """Ask while the provider adds nothing: its caller is told, and asks again from where it was."""
    kept, keeping.takes = list(keeping.items[ident]), False
    for streams in (True, False):
        with pytest.raises(APIError, match="not added"):
            await asked(llm, run, results(answer), conversation=ident, streams=streams)
    assert keeping.items[ident] == kept
    keeping.takes = True
    assert (await asked(llm, run, results(answer), conversation=ident)).output_text
    assert len(keeping.items[ident]) > len(kept)


async def test_without_nats_its_provider_is_asked_as_it_came() -> None:
    keeping = Keeping(StrictModel(window=WINDOW, replies=lambda run, turn: Reply(text="On.")))
    async with (
        provider(keeping) as there,
        in_front_of(there, without_nats(), mode="manage") as url,
        client(url, "k") as llm,
    ):
        ident = (await llm.conversations.create()).id
        assert (await asked(llm, "x", [{"role": "user", "content": "Look."}], conversation=ident)).output_text == "On."
    assert keeping.named == 1


@pytest.mark.parametrize("end", [None, 7, {}, {"output": 7}, {"output": [None]}], ids=repr)
async def test_what_is_no_list_of_items_is_not_added_and_its_caller_hears_no_end(end: Any) -> None:
    def ask(**_: Any) -> Any:
        raise AssertionError("half of it would be there")

    body = Body(api=RESPONSES_API, fields={}, head=(), messages=(), tail=(), conversation="conv_1", own=(b"{}",))
    ends = Ends(added_to(body, ask), seconds=60.0)
    with pytest.raises(BrokenOff, match="was not added to its conversation"):
        await ends.hear(json.dumps({"type": "response.completed", "response": end}).encode())
