"""Nursery: fork worker processes from one that has imported everything, so that a killed one is replaced at once.

A worker needs a second of processor time to start; with one killed every half second, nobody would work. Reads names of
actors from its input, answers each with a process id, and takes all of them along when it ends.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import boto3
import openai

from actors import conversations
from actors.cli.serve import worker
from actors.tokens import counter

SNAPSHOT_COMMITS = 8
"""Far fewer than in earnest: whoever begins anew every few seconds begins from snapshots, which tries those too."""


def main(data: Path) -> None:
    """Serve until the input ends."""
    # what a worker loads at its first need, half a second each
    counter("o200k_base")
    boto3.client("s3", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    assert openai.AsyncOpenAI(api_key="none").chat.completions is not None
    conversations.SNAPSHOT_COMMITS = SNAPSHOT_COMMITS  # type: ignore[attr-defined]
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets who ended
    born: list[int] = []
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _work(line.strip(), data)
        born.append(pid)
        print(pid, flush=True)
    for pid in born:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _work(actor: str, data: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(data / "logs" / "workers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    code = 70
    try:
        code = worker(actor=actor, config=None, nats="", data=data)
    except BaseException as error:
        sys.stderr.write(f"{actor} {os.getpid()} ended: {error!r}\n")
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
