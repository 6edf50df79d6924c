"""Agents of one release, in a process of their own: it knows of its own release's client and of nothing else.

Reads scripts as lines of JSON, plays all at once, and says each turn as a line of JSON; they end with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from protocol.client import Client, Conversation
from protocol.keys import FolderKeys

Json = dict[str, Any]

PAUSE_SECONDS = 0.1
LINE_BYTES_MAX = 2**26


async def main(url: str, keys: str) -> None:
    """Play what comes; every second conversation is encrypted by its agent."""
    told = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    ended = asyncio.Event()
    open_one, closed_one = Client.connect(url), Client.connect(url, keys=FolderKeys(folder=Path(keys)))
    async with open_one as plain, closed_one as encrypting, asyncio.TaskGroup() as group:
        async for line in told:
            script = json.loads(line)
            client = encrypting if script["number"] % 2 else plain
            group.create_task(lived(client, script, ended))
        ended.set()


async def lived(client: Client, script: Json, ended: asyncio.Event) -> None:
    """Play *script* until its end or until all end; whatever a call raises is its last word."""
    name, last = script["name"], ""
    try:
        talk = await client.open(name, policy=script["policy"])
        for number, turn in enumerate(script["turns"]):
            if ended.is_set():
                break
            await talk.append(turn)
            said(name, **await seen(talk, script["budgets"][number]))
            await asyncio.sleep(PAUSE_SECONDS)
    except Exception as error:
        last = f"{type(error).__name__}: {error}"
    said(name, ended=True, failed=last)


async def seen(talk: Conversation, budget: int) -> Json:
    """Return the view of the next call, and what it points to first."""
    context = await talk.context(budget=budget)
    view = json.dumps(list(context.messages))
    key = view.partition('read_artifact(\\"')[2].partition('\\"')[0]
    read = await talk.read_artifact(key, lines="1-3") if key else "nothing points anywhere"
    shown = {name: getattr(context, name) for name in ("tokens", "budget", "upto", "version", "hash")}
    return {**shown, "messages": list(context.messages), "read": bool(read)}


def said(name: str, **what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps({"name": name, **what}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(os.environ["JETTISON_NATS__URL"], os.environ["JETTISON_KEYS__FOLDER"]))
