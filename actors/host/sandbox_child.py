"""The processes of a sandbox: a nursery that has loaded everything, and one delivery in each process that it forks.

A worker cannot fork: its loop and its threads would be there by half. Here is neither until a process is forked, which
does one delivery as any worker does. Only this program imports the whole service.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import select
import socket
import threading
import traceback
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from actors.model_info.tokens import counter
from actors.model_info.windows import window_of
from actors.runtime.registry import asks_model
from protocol.subjects import Actor

from .bootstrap import runtime
from .sandbox import BEGUN, ENDED, SURVIVED, Case

log = logging.getLogger("jettison.sandbox")

CPU_SECONDS = 120
"""Work that computes for so long has stopped the loop of every worker that began it. Waiting does not count: a store
or a model may be slow."""


IDLE_SECONDS = 600.0
"""Without a delivery for so long a nursery ends; another one takes some seconds, and this one 180 MB."""


def serve(line: socket.socket) -> None:
    """Fork a process for each case that comes on *line*, one after the other, until who watches is gone, or idle."""
    with suppress(OSError), line.makefile("rb") as cases:
        while select.select([line], [], [], IDLE_SECONDS)[0] and (body := cases.readline()):
            _load(msgspec.json.decode(body, type=Case).actor)
            pid = os.fork()
            if pid == 0:
                _try(body, line)
            _, status = os.waitpid(pid, 0)
            line.sendall(b"%s%d\n" % (ENDED, os.waitstatus_to_exitcode(status)))


@cache
def _load(actor: Actor) -> None:
    """Load what work waits for that begins anew: half a second of a processor each."""
    import_module("actors.runtime.worker")  # else each case would
    counter("o200k_base")
    window_of("gpt-4o")
    import boto3

    # without the two it would ask the machine's own cloud for some
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")  # noqa: S106
    if asks_model(actor):
        import openai

        assert openai.AsyncOpenAI(api_key="none").chat.completions is not None
    gc.freeze()  # what is shared with those to be forked stays shared


def _try(body: bytes, line: socket.socket) -> None:
    """Be the process that is forked for one case; it never returns."""
    try:
        _limit()
        _watch(line)
        asyncio.run(tried(msgspec.json.decode(body, type=Case), line))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _limit() -> None:
    with suppress(OSError):
        # where memory ends, the kernel takes this process before the one that watches
        Path("/proc/self/oom_score_adj").write_text("1000")
    # the kernel ends what computes without end, also when nobody watches it any more
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def _watch(line: socket.socket) -> None:
    """End this process when who watches is gone: until this one has ended, it says nothing on the line."""

    def watch() -> None:
        try:
            line.recv(1)
        finally:  # also by a reset: who was killed may have left unread what was said
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


async def tried(case: Case, line: socket.socket) -> None:
    """Do the work, and tell who watches how far it came."""
    async with runtime(case.settings, role=f"trial-{case.actor}") as running:
        worker = running.worker(case.actor)
        line.sendall(BEGUN)
        try:
            async for _ in worker.stepping.work(case.at):
                pass
        except Exception as error:
            log.warning("%s of %s was survived: %s", case.actor, case.at, type(error).__name__)
    line.sendall(SURVIVED)
    os._exit(0)  # what threads of its own still wait for is nobody's


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
