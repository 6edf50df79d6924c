"""Nursery: fork worker processes from one that has imported everything, so that a killed one is replaced at once.

A worker needs a second of processor time to start; with one killed every half second, nobody would work. Reads names of
actors from its input, answers each with a process id, and takes all of them along when it ends.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import boto3
import openai

from actors.cli.options import StackOptions
from actors.cli.serve import _worker
from actors.cli.session import located, run, settings_of
from actors.host import sandbox
from actors.host.sandbox_child import serve
from actors.model_info.tokens import counter
from actors.runtime import conversations
from protocol.subjects import Actor

SNAPSHOT_COMMITS = 8
"""Far fewer than in earnest: whoever begins anew every few seconds begins from snapshots, which tries those too."""

WARM_MAX = 64
"""Fewer than in earnest, and a few more than there are agents: full in minutes, so that what still grows then leaks."""

TASKS_SECONDS = 2.0


def main(data: Path) -> None:
    """Serve until the input ends."""
    # what a worker loads at its first need, half a second each
    counter("o200k_base")
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    assert openai.AsyncOpenAI(api_key="none").chat.completions is not None
    conversations.SNAPSHOT_COMMITS = SNAPSHOT_COMMITS  # type: ignore[attr-defined]
    conversations.WARM_MAX = WARM_MAX
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets who ended
    born: list[int] = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _work(cast(Actor, line.strip()), data)
        born.append(pid)
        print(pid, flush=True)
    for pid in born:
        with suppress(OSError):
            if _parent(pid) == os.getpid():  # who ended long ago may have left its number to a stranger
                os.kill(pid, signal.SIGKILL)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _work(actor: Actor, data: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(data / "logs" / "workers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ["JETTISON_NATS__USER"] = actor  # each kind of worker has rights of its own
    _sandboxes_are_forked()
    code = 70
    try:
        settings = settings_of(StackOptions(data=data))
        code = run(_worker_and_count(actor, data), service=f"worker-{actor}", settings=settings)
    except BaseException as error:
        sys.stderr.write(f"{actor} {os.getpid()} ended: {error!r}\n")
        sys.stderr.flush()
    os._exit(code)


def _sandboxes_are_forked() -> None:
    """Have the nursery of this worker's sandboxes there at once too: it costs what a worker costs to start."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        ours.close()
        serve(theirs)
        os._exit(0)
    theirs.close()
    usual, there = sandbox.started, [ours]

    async def started(module: str) -> sandbox.Nursery:
        if not there:  # ended with its runtime, when NATS was lost
            return await usual(module)
        reader, writer = await asyncio.open_connection(sock=there.pop())
        return sandbox.Nursery(pid=pid, reader=reader, writer=writer)

    sandbox.started = started


async def _worker_and_count(actor: Actor, data: Path) -> int:
    """Do what `jettison worker` does, and write down how many tasks there are."""
    counting = asyncio.create_task(_count(tasks_folder(data) / str(os.getpid())))
    try:
        return await _worker(located(settings_of(StackOptions(data=data))), actor)
    finally:
        counting.cancel()


async def _count(file: Path) -> None:
    while True:
        file.write_text(str(len(asyncio.all_tasks())))
        await asyncio.sleep(TASKS_SECONDS)


def tasks_folder(data: Path) -> Path:
    """Return where workers write how many tasks they have, each into a file that is named by its process id."""
    return data / "logs" / "tasks"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
