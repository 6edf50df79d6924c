"""What pi and agents of the AI SDK really sent, each API, before the gateway again: npm is not needed for it.

`tests/programs/clients/record.py` has written it. pi itself runs in `tests/gateway/test_pi.py`, all clients in
`make clients`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.gateway.canon import hash_of
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import address, fresh_id
from protocol.jsonbytes import decode
from tests.gateway.model import API_OF, refusal, size_of
from tests.gateway.provider import Answer, Asked, in_front_of, provider
from tests.said import said_messages

pytestmark = pytest.mark.slow

WINDOW = 16_000
LOG_LINES = 400
RECORDED = sorted((Path(__file__).parents[1] / "data" / "clients").glob("*.json"))

Json = dict[str, Any]


@dataclass
class Client:
    """One recording, played again under a key of its own."""

    name: str
    told: Json
    key: str = field(default_factory=fresh_id)
    answered: int = 0

    def log(self, number: int) -> str:
        return "\n".join(f"{self.name} {number} line {at}: {at * 7919 % 9973} ms" for at in range(LOG_LINES))

    def body(self, request: Json) -> bytes:
        first, *listed, last = (self.told["parts"][one] for one in request["parts"])
        whole = first + ",".join(listed) + last
        for number in range(5):
            whole = whole.replace(f"@LOG{number}@", json.dumps(self.log(number))[1:-1])
        return str(whole).encode()

    def headers(self, request: Json) -> list[tuple[str, str]]:
        recorded = json.loads(self.told["parts"][request["headers"]])
        return [(key, value.replace(f"sk-{self.name}", self.key)) for key, value in recorded]


async def played(client: Client, session: aiohttp.ClientSession, url: str) -> list[tuple[str, str]]:
    """Send all its requests; return how each was managed, and as which conversation."""
    out = []
    for request in client.told["requests"]:
        asked = session.post(f"{url}{request['path']}", data=client.body(request), headers=client.headers(request))
        async with asked as got:
            assert got.status == 200, await got.text()
            await got.read()
            out.append((got.headers["x-jettison"], got.headers.get("x-jettison-conversation", "")))
    return out


async def test_what_real_clients_sent_is_kept_whole_and_served_within_the_window(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession
) -> None:
    clients = {path.stem: Client(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in RECORDED}
    assert len(clients) == 6
    wrong: list[str] = []

    def answer(asked: Asked) -> Answer:
        client = clients[asked.header("x-run")]
        why = refusal(API_OF[asked.target], asked.json, size=size_of(asked.json), window=WINDOW)
        # their thoughts were signed behind other logs
        wrong.extend(f"{client.name}: {one}" for one in why.split("; ") if one and "is bound to" not in one)
        recorded = client.told["requests"][client.answered]["answer"]
        client.answered += 1
        return Answer(headers=recorded["headers"], pieces=(recorded["body"].encode(),))

    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    async with provider(answer) as there, in_front_of(there, settings, **section) as url:
        found = await asyncio.gather(*(played(client, session, url) for client in clients.values()))
    assert wrong == []
    assert len({name for hows in found for _, name in hows}) == len(clients)
    for client, hows in zip(clients.values(), found, strict=True):
        counted = Counter(how for how, _ in hows)
        assert counted["view"] > 1, (client.name, hows)
        assert counted.total() == counted["view"] + counted["kept"]
        (name,) = {name for _, name in hows}
        said = [one.raw for one in await said_messages(address(name), log=working.log)]
        body = json.loads(client.body(client.told["requests"][-1]))
        sent = [one for one in body.get("input") or body["messages"] if one.get("role") not in ("system", "developer")]
        assert len(said) == len(sent)
        # an item that is only named is in the log itself
        named = [at for at, one in enumerate(sent) if one.get("type") != "item_reference"]
        assert [hash_of(decode(said[at])) for at in named] == [hash_of(sent[at]) for at in named]
        assert not [other for other in clients if other != client.name and f"{other} 0 line".encode() in b"".join(said)]
