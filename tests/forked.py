"""A command in a process of its own that need not load everything again: `tests.forking` has, and forks.

The client of that server: it hands its arguments, folder, environment and three streams over, passes signals on, and
ends as the fork ended. Run by its path, and small, as it is started some three hundred times in a run of the tests.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from contextlib import suppress

PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def client(path: str, arguments: list[str]) -> None:
    """Have the server at *path* run the command, and end as it does."""
    # the command may have written, and be told to end, before there is anybody to pass that on to
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    asked = marshal.dumps({"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)})
    with socket.socket(socket.AF_UNIX) as server, server.makefile("r") as told:
        server.connect(path)
        socket.send_fds(server, [len(asked).to_bytes(4, "big")], [0, 1, 2])
        server.sendall(asked)
        pid = int(told.readline())
        for number in PASSED_ON:
            signal.signal(number, lambda sent, _: pass_on(sent, pid))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        code = int(told.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def pass_on(number: int, pid: int) -> None:
    """Send a signal on to the fork, which may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    client(sys.argv[1], sys.argv[2:])
