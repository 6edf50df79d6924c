"""Programs that die, or compute without end, in turns of conversations whose name says so: a spill worker, a sandbox.

python -m tests.promises.deadly worker      ends itself at the first such turn
python -m tests.promises.deadly             is told what to try on its input, as `actors.host.sandbox_child` is
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
from typing import Any

from actors.core.state import State
from actors.host import sandbox_child
from actors.host.bootstrap import runtime
from actors.host.sandbox import ProcessSandbox
from actors.host.sandbox_child import serve
from actors.host.settings import load
from actors.runtime.conversations import Conversations
from protocol.ids import Address

EXIT_CODE = 9


async def main() -> None:
    """Work until the end comes."""
    async with runtime(load(environment=os.environ), role="deadly") as running:
        worker = running.worker("spill")
        ours = ProcessSandbox(settings=running.settings, module="tests.promises.deadly")
        mortal = dataclasses.replace(worker, quarantine=dataclasses.replace(worker.quarantine, sandbox=ours))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await mortal.run()


def poisoned() -> None:
    """Make every look at such a conversation the last one, as memory that runs out or a fault in a C library would."""
    load_state = Conversations.load

    async def dying(self: Any, at: Address, *, upto: int = 0) -> State:
        if at.conversation.startswith("deadly"):
            os._exit(EXIT_CODE)
        while at.conversation.startswith("endless"):
            pass
        return await load_state(self, at, upto=upto)

    sandbox_child.CPU_SECONDS = 4
    Conversations.load = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    poisoned()
    if sys.argv[1:] == ["worker"]:
        asyncio.run(main())
    serve(socket.socket(fileno=0))
