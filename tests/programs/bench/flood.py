"""A tenant that floods: keeps hundreds of its conversations waiting for spill, until the process ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from actors.cli.options import StackOptions
from actors.cli.session import located, said, settings_of
from actors.host.bootstrap import Runtime, runtime
from protocol import codec, subjects
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import Address, address, fresh_id

CONVERSATIONS = 1_000
WAITING = 500
"""Kept waiting all the time: more than all workers hold, and some seconds of their work."""

AT_ONCE = 50
LOOK_SECONDS = 0.05


async def flood(data: Path, tenant: str) -> None:
    """Fill the slots again and again as they are worked off."""
    async with runtime(located(settings_of(StackOptions(data=data))), role="flood") as running:
        envelopes = _envelopes(tenant)
        consumer = subjects.durable("spill", "normal")
        jetstream = running.connection.jetstream()
        told = False
        while True:
            info = await jetstream.consumer_info(subjects.WAKE_STREAM, consumer)
            if (info.num_pending or 0) < WAITING:
                await asyncio.gather(*(_say(running, *next(envelopes)) for _ in range(AT_ONCE)))
                continue
            if not told:
                said(f"flood works on {tenant}")
                told = True
            await asyncio.sleep(LOOK_SECONDS)


def _envelopes(tenant: str) -> Iterator[tuple[Address, bytes]]:
    count = 0
    while True:
        count += 1
        for index in range(CONVERSATIONS):
            raw = messages.encode({"role": "user", "content": f"{count}: and once more, what of order {index}? " * 5})
            facts = (MessagesAppended(messages=(SaidMessage(raw=raw),)),)
            body = codec.encode_said(codec.Said(writer="flood", count=count, facts=facts))
            yield address(f"c{index}", tenant), body


async def _say(running: Runtime, at: Address, body: bytes) -> None:
    await running.log.say(at, body, message_id=fresh_id(), headers={})


if __name__ == "__main__":
    _, folder, tenant = sys.argv
    asyncio.run(flood(Path(folder), tenant))
