"""A command of ours that is killed as soon as it has written so many times: to NATS, to S3 or to a file.

python -m tests.promises.mortal_repair 3 repair CONV --yes
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from actors.cli import main
from protocol.guarded import Guarded
from storage.s3 import S3Artifacts

WRITES = re.compile(r"ctx\.v1\.|\$JS\.API\.STREAM\.(MSG\.DELETE|PURGE)")
"""Of what is sent to NATS. The actors' pause is none: it ends by itself, whoever asked for it."""


class Death:
    """Comes with the write after which none is left."""

    def __init__(self, left: int) -> None:
        self._left = left

    def wrote(self) -> None:
        """Count one; it has reached who keeps it, and whether it is answered is not waited for."""
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def mortal(left: int) -> None:
    """Have this process die of its writes."""
    death = Death(left)
    publish, store, synced = Guarded.publish, S3Artifacts._run, os.fsync

    async def published(self: Guarded, subject: str, *arguments: Any, **more: Any) -> None:
        await publish(self, subject, *arguments, **more)
        if WRITES.match(subject):
            await self.flush()
            death.wrote()

    async def stored(self: S3Artifacts, method: str, key: str, call: Callable[[], Any], **more: Any) -> Any:
        found: Awaitable[Any] = store(self, method, key, call, **more)
        answer = await found
        if method.startswith(("Put", "Delete")):
            death.wrote()
        return answer

    def kept(file: int) -> None:
        synced(file)
        death.wrote()

    Guarded.publish = published  # type: ignore[method-assign]
    S3Artifacts._run = stored  # type: ignore[method-assign]
    os.fsync = kept  # type: ignore[assignment]


if __name__ == "__main__":
    mortal(int(sys.argv[1]))
    sys.argv = ["jettison", *sys.argv[2:]]
    main()
