"""Sessions of the command line: settings, servers, logging and signals, the same for every command."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from actors.host.bootstrap import Runtime, data_folder, runtime
from actors.host.embedded import EmbeddedStack, Endpoints, embedded_stack
from actors.host.settings import LOG_LEVEL, NO_SECRET_IN_URL, KeysSection, Settings, load
from actors.telemetry.log_lines import LogLines
from actors.telemetry.setup import configure
from protocol.errors import UNREADABLE, BadPolicy, LogUnavailable, Rejected
from protocol.ids import Token
from storage.streams import provision

from .options import StackOptions

SWITCH_SECONDS = 0.0005
"""So long a loop that has something to do waits for a thread that calculates, ten times in a request: not Python's
5 ms."""

SETTLED_SECONDS = 10.0
"""After its start a process has what it keeps to its end: modules and tables, 150,000 objects that no longer have to be
gone through for cycles, which holds everything up for 80 ms each time."""

SAID = logging.getLogger("jettison.said")
"""What is said to people, where entries of the log are JSON."""

LAST_SECONDS = 1.0
"""From the second signal to the end of the process: enough to give back what is held, where NATS answers."""

CONNECT_SECONDS = 2.0

ENDPOINTS_FILE = "endpoints.json"
"""Written by `jettison up` into the data folder (mode 0600), so that other commands find the stack."""

KEYS_FOLDER = "keys"
"""Of the embedded stack's tenants, below its data folder."""


class RunningStack(msgspec.Struct, frozen=True, kw_only=True):
    """What the command that runs an embedded stack says of it to other commands on this machine."""

    pid: int
    owner: str
    """The command that runs the stack: only `up` runs it for others."""
    endpoints: Endpoints


def settings_of(stack: StackOptions) -> Settings:
    """Return the settings of a command from file, environment and its flags: `--data` is the stack that runs there.

    Raises `Rejected` for a password in a flag: every user of the machine sees it.
    """
    check_flag("--nats", stack.nats)
    flags = {"nats": {"url": stack.nats or None}, "data": str(stack.data) if stack.data else None}
    settings = load(file=stack.config, flags=flags)
    if not stack.data or stack.nats or not settings.nats.url:
        return settings
    found = running_stack(data_folder(settings))
    if found is None or found.owner != "up" or not _listens(found):
        said(f"note: no stack runs on {stack.data}; the NATS that is set is used, {settings.nats.url}")
    elif found.endpoints.nats_url != settings.nats.url:
        # who names a folder means what runs on it, whatever server is set for all commands
        said(f"note: the stack on {stack.data} is used, and not the NATS that is set, {settings.nats.url}")
        return replace(settings, nats=replace(settings.nats, url=""))
    return settings


def check_flag(flag: str, url: str) -> None:
    """Raise `Rejected` for a *url* with a user in it: every user of the machine sees what *flag* says."""
    if "@" in url:
        raise Rejected(f"{flag} names a user, whom everybody sees in the list of processes; {NO_SECRET_IN_URL}")


def located(settings: Settings) -> Settings:
    """Return settings that point to a running stack: the configured one, else the embedded one of the data folder.

    Raises `LogUnavailable` if there is neither.
    """
    found = running_stack(data_folder(settings))
    if settings.nats.url:
        # by its address, the embedded stack is still the embedded stack
        return _with_keys(settings) if found is not None and found.endpoints.nats_url == settings.nats.url else settings
    if found is None:
        raise LogUnavailable(
            f"no NATS given and no embedded stack runs on {data_folder(settings)}; "
            "start one with `jettison up`, name its folder with --data DIR, or give --nats URL",
            data=str(data_folder(settings)),
        )
    return pointed(settings, found.endpoints)


def pointed(settings: Settings, there: Endpoints) -> Settings:
    """Return *settings* with the embedded stack's addresses, and its keys where no others are set."""
    s3 = replace(
        settings.s3, endpoint=there.s3_endpoint, access_key=there.s3_access_key, secret_key=there.s3_secret_key
    )
    return replace(_with_keys(settings), nats=replace(settings.nats, url=there.nats_url), s3=s3)


def _with_keys(settings: Settings) -> Settings:
    if settings.keys.folder:
        return settings
    keys = KeysSection(folder=str(data_folder(settings) / KEYS_FOLDER), make=True)
    return replace(settings, keys=keys)


def running_stack(data: Path) -> RunningStack | None:
    """Return the embedded stack that runs on *data*, if one does."""
    try:
        found = msgspec.json.decode((data / ENDPOINTS_FILE).read_bytes(), type=RunningStack)
        os.kill(found.pid, 0)
    except (OSError, *UNREADABLE):
        return None
    return found


def _listens(stack: RunningStack) -> bool:
    """Tell whether a *stack* is there, and not another process with the number of one that was killed."""
    url = urlsplit(stack.endpoints.nats_url)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def started_stack(
    settings: Settings, *, owner: str = "compact", nats_port: int | None = None, s3_port: int | None = None
) -> AsyncIterator[tuple[Settings, EmbeddedStack]]:
    """Start the embedded stack on the data folder, provision it, and say where it is."""
    data = data_folder(settings)
    async with embedded_stack(data, nats_port=nats_port, s3_port=s3_port) as stack:
        ours = pointed(settings, stack.endpoints)
        async with runtime(ours, role="provision") as running:
            await prepared(running, replicas=1)
            # before any agent comes: one that encrypts finds a key there, and makes none
            await running.keys.prepare(Token("default"))
        found = RunningStack(pid=os.getpid(), owner=owner, endpoints=stack.endpoints)
        path = data / ENDPOINTS_FILE
        try:
            # the last: who finds it can work with all that it names
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(found))
            yield ours, stack
        finally:
            path.unlink(missing_ok=True)


async def prepared(running: Runtime, *, replicas: int, partitions: int = 0) -> None:
    """Create or update streams, consumers and bucket."""
    await provision(running.connection, replicas=replicas, partitions=partitions)
    await running.bucket.prepare()


def run(
    main: Coroutine[Any, Any, int], *, service: str, settings: Settings, trace: bool = True, probed: bool = False
) -> int:
    """Run *main* with logs on stderr and spans to their place; SIGTERM ends it like Ctrl-C, with exit 0.

    What is *probed* gathers metrics for `/metrics`, where the settings name a port.
    """
    level = os.environ.get(LOG_LEVEL, "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        main.close()
        raise BadPolicy(f"{LOG_LEVEL} must be DEBUG, INFO, WARNING or ERROR, not {level!r:.20}", key=LOG_LEVEL)
    _start_logs(level, service=service, as_json=settings.log.format == "json")
    folder = traces_folder(settings) if trace else None
    telemetry = configure(service=service, trace_dir=folder, scraped=probed and settings.probe.port > 0)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return asyncio.run(_until_told(main))
    finally:
        telemetry.shutdown()


def _start_logs(level: str, *, service: str, as_json: bool) -> None:
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if as_json:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(LogLines(service=service))
        SAID.setLevel(logging.INFO)


def connected(
    main: Callable[[Runtime], Coroutine[Any, Any, int]],
    stack: StackOptions,
    *,
    role: str = "auditor",
    probed: bool = False,
) -> int:
    """Run *main* on the stack that the options and settings name."""
    settings = settings_of(stack)

    async def on_runtime() -> int:
        async with runtime(located(settings), role=role) as running:
            return await main(running)

    return run(on_runtime(), service=role, settings=settings, trace=False, probed=probed)


def traces_folder(settings: Settings) -> Path:
    """Return the folder of local spans."""
    return Path(settings.telemetry.folder) if settings.telemetry.folder else data_folder(settings) / "traces"


async def _until_told(main: Coroutine[Any, Any, int]) -> int:
    """Run *main* to its end, or to the first signal, which lets it finish; the second one does not."""
    task = asyncio.create_task(main)
    asyncio.get_running_loop().call_later(SETTLED_SECONDS, _settle)
    told: list[int] = []

    def stop(number: int) -> None:
        told.append(number)
        if len(told) == 1:
            said("jettison: stopping; once more stops at once")
        elif len(told) == 2:
            said("jettison: stopped at once; who takes over waits for what was under way here")
            # a thread: the loop may be what hangs
            last = threading.Timer(LAST_SECONDS, os._exit, (128 + number,))
            last.daemon = True
            last.start()
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        code = await task
    except asyncio.CancelledError:
        if not told:
            raise
        code = 130 if told[0] == signal.SIGINT else 0
    except Exception:
        # whatever an end in a hurry breaks is what the second signal asked for
        if len(told) < 2:
            raise
    finally:
        # the loop closes its pipe before it forgets its handlers: a signal between the two prints a traceback
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, _end_at_once)
    return 128 + told[1] if len(told) > 1 else code


def _end_at_once(number: int, _: object) -> None:
    """End a process that has done its work, and is told once more to end."""
    os._exit(128 + number)


def _settle() -> None:
    gc.collect()
    gc.freeze()


def writable(out: Path) -> Path:
    """Return *out*, whose folder is there. Raises `Rejected`."""
    if str(out) == "-" or (out.exists() and not out.is_file()):
        raise Rejected(f"{out} is no file, and is not replaced: give another --out")
    if out.is_symlink():
        return out.resolve()
    if not out.parent.is_dir():
        raise Rejected(f"there is no folder {out.parent} to write {out.name} into; make it, or give another --out")
    return out


def printed(value: Any) -> None:
    """Write one JSON document to stdout, in one line."""
    sys.stdout.write(json_bytes(value).decode() + "\n")


def shown(row: Any, text: str, *, as_json: bool) -> None:
    """Write *row* to stdout as one JSON document, or else the *text* that says it to a person.

    Whoever reads a pipe has it now, and not when eight kilobytes of others have come.
    """
    sys.stdout.write(json_bytes(row).decode() + "\n" if as_json else text)
    sys.stdout.flush()


def json_bytes(value: Any) -> bytes:
    """Return *value* as JSON; text that UTF-8 cannot hold is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


def said(text: str) -> None:
    """Write a line for a person to stderr; an entry of the log, where that is read by machines."""
    if any(isinstance(handler.formatter, LogLines) for handler in logging.getLogger().handlers):
        SAID.info("%s", text)
        return
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
