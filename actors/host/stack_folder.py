"""The folder of an embedded stack, and the ports that it listens on: made, held by one process alone, remembered."""

import asyncio
import errno
import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from protocol.errors import Unavailable

LOOPBACK = "127.0.0.1"
LOCK_SECONDS = 1.0  # after a SIGKILL of the last owner, its children need a moment to die and free the lock
POLL_SECONDS = 0.05
LOG_BYTES_MAX = 16 * 1024 * 1024
FREE_BYTES_MIN = 8 * 1024 * 1024
"""For both servers to start; with less the S3 store breaks off with a trace that says nothing of a disk."""

# With the offsets below 32768: above, an outgoing connection of a child may take a port promised to a listener.
PORTS = range(10_000, 22_700)
PORTS_END = 1 << 16

# SeaweedFS' inner listeners, from its base port. Its workers dial admin.port + 10000, whatever admin.port.grpc says.
WEED = "admin.port master.port master.port.grpc volume.port volume.port.grpc filer.port filer.port.grpc s3.port.grpc"
WEED_PORTS = {name: offset for offset, name in enumerate(WEED.split())} | {"admin.port.grpc": 10_000}


class StackError(Unavailable):
    """Say what keeps the embedded stack from running, and what to do about it."""

    def __init__(self, *, what: str, fix: str) -> None:
        super().__init__(f"{what}; {fix}", what=what, fix=fix)
        self.what, self.fix = what, fix


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports of one run; *monitor* is NATS' monitoring port, *weed* the base of the S3 store's inner ones."""

    nats: int
    monitor: int
    s3: int
    weed: int


@contextmanager
def usable(data: Path) -> Iterator[None]:
    """Say of which file or folder *data* cannot be used, and why. Raises `StackError` for any `OSError`."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename or data} cannot be used: {error.strerror or type(error).__name__}"
        raise StackError(what=what, fix="name a folder that this user may write to with --data") from None


def made(data: Path) -> Path:
    """Make the folders and the lock, and set a long log aside, replacing the one before."""
    data = data.absolute()
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (free := shutil.disk_usage(data).free) < FREE_BYTES_MIN:
        what = f"the disk of {data} is full: {free:,} bytes are left"
        raise StackError(what=what, fix=f"make room there, {FREE_BYTES_MIN:,} bytes at least")
    for name in ("nats", "s3", "logs"):
        (data / name).mkdir(exist_ok=True)
    (data / "lock").touch(mode=0o600)
    for log in (data / "logs").glob("*.log"):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
    return data


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[int]:
    """Hold the folder's lock as an open file; raise `StackError`, naming the owner, when another stack has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    owner = os.pread(lock, 32, 0).decode()
                    used = f"{path.parent} is in use by the stack of process {owner}, or by a child it left behind"
                    raise StackError(what=used, fix="stop that process, or use another folder") from None
            await asyncio.sleep(POLL_SECONDS)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
    finally:
        os.close(lock)


@contextmanager
def chosen_ports(memory: Path, *, nats_port: int | None, s3_port: int | None) -> Iterator[Ports]:
    """Give free ports: the wanted ones, else those of the last run, else new ones; remember them.

    No other stack of this user is given one of them, unasked, before the context ends. Raises `StackError`.
    """
    if nats_port is not None and nats_port == s3_port:
        raise StackError(what=f"port {nats_port} is wanted for NATS and for S3", fix="name two different ones, or none")
    with ExitStack() as held:

        def pick(last: int | None, *offsets: int) -> int:
            """Claim the last run's port, or a new one, that is free together with those at *offsets* from it."""
            tried = random.sample(PORTS, len(PORTS))  # two stacks that start at the same time seldom meet
            for base in tried if last is None else (last, *tried):
                with ExitStack() as tries:
                    if all(tries.enter_context(claimed(base + offset)) for offset in {0, *offsets}):
                        held.enter_context(tries.pop_all())
                        return base
            raise StackError(
                what=f"no free port in {PORTS.start}-{PORTS.stop - 1}", fix="end programs that listen there"
            )

        for name, port in (("--nats-port", nats_port), ("--s3-port", s3_port)):
            # who names a port may have promised it to this stack
            if port is not None and not (held.enter_context(claimed(port)) or _is_free(port)):
                what = f"port {port} on {LOOPBACK} is taken, or this user may not listen there"
                raise StackError(what=what, fix=f"give another {name}, or leave it out for a free one")
        last = _last_ports(memory)
        ports = Ports(
            nats=nats_port or pick(last.get("nats")),
            monitor=pick(last.get("monitor")),
            s3=s3_port or pick(last.get("s3")),
            weed=pick(last.get("weed"), *WEED_PORTS.values()),
        )
        memory.write_text(json.dumps(asdict(ports)), encoding="utf-8")
        yield ports


@contextmanager
def claimed(port: int) -> Iterator[bool]:
    """Tell whether *port* is free, and if so keep it from all who ask here until the context ends.

    That a port is free says nothing of the moment at which a server opens it: two stacks would be given the same.
    """
    with ExitStack() as held:
        with _claimable() as claims:
            path = claims / str(port)
            claim = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            held.callback(os.close, claim)
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # who tidies the folder may have taken the file away that others locked
                is_ours = os.path.samestat(os.fstat(claim), path.stat())
            except (BlockingIOError, FileNotFoundError):
                is_ours = False
        yield is_ours and _is_free(port)


@contextmanager
def _claimable() -> Iterator[Path]:
    """Give the folder in which this user claims ports. Raises `StackError` for any `OSError`."""
    claims = Path(tempfile.gettempdir()) / f"jettison-ports-{os.getuid()}"
    try:
        claims.mkdir(mode=0o700, exist_ok=True)
        if claims.lstat().st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        yield claims
    except OSError as error:
        what = f"ports cannot be claimed in {claims}: {error.strerror or error}"
        raise StackError(what=what, fix="name a folder of your own in TMPDIR") from None


def _last_ports(memory: Path) -> dict[str, int]:
    """Return the ports of the last run by name; empty if there was none, or what it left is not readable."""
    try:
        found = {str(name): int(port) for name, port in json.loads(memory.read_text(encoding="utf-8")).items()}
    except (FileNotFoundError, AttributeError, TypeError, ValueError, OverflowError):
        return {}
    return {name: port for name, port in found.items() if 0 < port < PORTS_END}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: without it, connections of the last run that linger in TIME_WAIT would count as a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError, OverflowError):
            probe.bind((LOOPBACK, port))
            return True
    return False


def secret_of(path: Path) -> str:
    """Return the secret key of the S3 store: random, made once, so that clients stay configured over a restart."""
    path.touch(mode=0o600)
    if not (secret := path.read_text(encoding="utf-8").strip()):
        secret = secrets.token_hex(20)
        path.write_text(secret, encoding="utf-8")
    return secret
