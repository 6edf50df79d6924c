"""The command line, loaded once: a server that forks for each command of the tests (`forked.py` is its client).

`jettison_command` begins a command like any other, for `subprocess`. Loading takes two seconds of a core, and building
the tree of commands a tenth of one: both are done here, once for all testers. Where it matters how a process starts or
is killed, tests start their own.
"""

from __future__ import annotations

import atexit
import marshal
import os
import selectors
import shutil
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import NamedTuple, NoReturn


class Command(NamedTuple):
    """What a client asked for: its command, and what that is to run with."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]

    @classmethod
    def of(cls, asking: socket.socket) -> Command:
        """Return what is asked for. Raises `EOFError` where the client was killed before it had said it."""
        size, streams, _, _ = socket.recv_fds(asking, 4, 3)
        asked = b""
        while len(asked) < int.from_bytes(size, "big"):
            asked += (more := asking.recv(65_536))
            if not more:
                break
        return cls(**marshal.loads(asked), streams=list(streams))

    def become(self) -> None:
        """Take over the client's streams, folder, environment and arguments."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv = ["jettison", *self.arguments]
        sys.modules["__main__"].__package__ = None  # else it is called by the name of this module


class Server:
    """Forks for each client until standard input ends; then it ends whoever still runs."""

    def __init__(self, listening: socket.socket) -> None:
        self.running: dict[int, socket.socket] = {}
        self.ready = selectors.DefaultSelector()
        self.listening = listening
        self.woken, self.wakes = socket.socketpair()
        self.wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakes.fileno())
        for some in (self.listening, self.woken, sys.stdin):
            self.ready.register(some, selectors.EVENT_READ)

    def serve(self) -> Command:
        """Return in each fork, with what it is to run."""
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is sys.stdin:
                    self.end()
                elif key.fileobj is self.woken:
                    self.woken.recv(4096)
                    self.reap()
                elif key.fileobj is self.listening:
                    asking, _ = self.listening.accept()
                    try:
                        command = Command.of(asking)
                    except EOFError:
                        asking.close()
                        continue
                    if not self.fork(asking, command):
                        return command
                else:
                    self.gone(key.fileobj)

    def fork(self, asking: socket.socket, command: Command) -> int:
        """Return the process of *command*, or 0 in it."""
        pid = os.fork()
        if pid:
            for stream in command.streams:
                os.close(stream)
            with suppress(OSError):  # it was killed meanwhile, which `gone` is told of
                asking.sendall(f"{pid}\n".encode())
            self.running[pid] = asking
            self.ready.register(asking, selectors.EVENT_READ)
        return pid

    def gone(self, asking: object) -> None:
        """End what ran for a client that was killed."""
        for pid, one in self.running.items():
            if one is asking:
                self.ready.unregister(one)
                os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        """Tell the clients whose command has ended."""
        while self.running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self.running.pop(pid) as asking:
                if asking in self.ready.get_map():
                    self.ready.unregister(asking)
                with suppress(OSError):  # it was killed
                    asking.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())

    def end(self) -> NoReturn:
        """End what still runs, and go."""
        shutil.rmtree(os.path.dirname(self.listening.getsockname()), ignore_errors=True)
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def listening_at(path: str) -> socket.socket:
    """Return a socket at *path*, and say so: who connects from now on waits for the server."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    return listening


def load() -> None:
    """Load what commands need, and build the tree of commands, which each of them does anew."""
    import gc
    import importlib
    import pkgutil

    import typer.main

    import actors.cli
    from actors.model_info.tokens import counter
    from storage.s3 import S3Settings, _new_client

    for module in pkgutil.iter_modules(actors.cli.__path__, "actors.cli."):
        importlib.import_module(module.name)
    for name in ("actors.host.bootstrap", "actors.page.app", "actors.services.sweeper", "boto3", "openai", "uvicorn"):
        importlib.import_module(name)
    counter("o200k_base")("loaded")
    # the first client reads a megabyte of JSON, which its session keeps
    _new_client(S3Settings(access_key="none", secret_key="none"))
    built = cache(typer.main.get_command)
    built(importlib.import_module("actors.cli.app").app)
    typer.main.get_command = built
    gc.freeze()


def serve(path: str) -> None:
    """Load everything, and in each fork run its command."""
    listening = listening_at(path)
    load()
    import actors.cli

    Server(listening).serve().become()
    try:
        actors.cli.main()
    except SystemExit as ended:
        # to take everything apart that was loaded takes a tenth of a second
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(ended.code or 0))


if __name__ == "__main__":
    serve(sys.argv[1])
