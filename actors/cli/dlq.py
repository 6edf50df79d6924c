"""`jettison dlq`: look at the wake-ups that were given up, and decide about each."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # `jettison --help` needs none of it
    from actors.bootstrap import Runtime
    from storage.dead_letters import Kept

dlq = typer.Typer(help="Wake-ups that were given up: list, show, retry, drop.", no_args_is_help=True)

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default ./jettison.toml.")]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL; default from settings, else the running embedded stack.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the embedded stack.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Conv = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION.", metavar="CONV")]
Which = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION; none with --all.", metavar="[CONV]")]
Everyone = Annotated[bool, typer.Option("--all", help="Every letter.")]
OfActor = Annotated[str, typer.Option("--actor", help="Only letters of this actor.")]


@dlq.command("list")
def list_(actor: OfActor = "", config: Config = None, nats: Nats = "", data: Data = None, json: Json = False) -> int:
    """List all dead letters, oldest first."""

    async def main(running: Runtime) -> int:
        async for kept in _letters(running, conv="", actor=actor):
            _told(kept, as_json=json)
        return 0

    return _connected(main, config=config, nats=nats, data=data)


@dlq.command()
def show(
    conv: Conv, actor: OfActor = "", config: Config = None, nats: Nats = "", data: Data = None, json: Json = False
) -> int:
    """Print the letters of one conversation; exit 1 if there is none."""

    async def main(running: Runtime) -> int:
        for kept in await _wanted(running, conv, everything=False, actor=actor):
            _told(kept, as_json=json, whole=True)
        return 0

    return _connected(main, config=config, nats=nats, data=data)


@dlq.command()
def retry(
    conv: Which = "",
    everything: Everyone = False,
    actor: OfActor = "",
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    json: Json = False,
) -> int:
    """Wake the actor again, and forget the letter; if it fails again, there will be a new one."""

    async def one(running: Runtime, kept: Kept) -> None:
        headers = {"traceparent": kept.trace} if kept.trace else {}
        # first woken: a crash in between leaves a letter too many, never one too few
        await running.wakes.wake(kept.letter.actor, kept.letter.at, headers=headers)
        await running.dead_letters.drop(kept)

    return _each(one, conv, everything, actor, config=config, nats=nats, data=data, json=json)


@dlq.command()
def drop(
    conv: Which = "",
    everything: Everyone = False,
    actor: OfActor = "",
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    json: Json = False,
) -> int:
    """Forget the letter and wake nobody; the conversation stays as it is in the log."""

    async def one(running: Runtime, kept: Kept) -> None:
        await running.dead_letters.drop(kept)

    return _each(one, conv, everything, actor, config=config, nats=nats, data=data, json=json)


def _each(
    one: Callable[[Runtime, Kept], Awaitable[None]],
    conv: str,
    everything: bool,
    actor: str,
    *,
    config: Path | None,
    nats: str,
    data: Path | None,
    json: bool,
) -> int:
    async def main(running: Runtime) -> int:
        for kept in await _wanted(running, conv, everything=everything, actor=actor):
            await one(running, kept)
            _told(kept, as_json=json)
        return 0

    return _connected(main, config=config, nats=nats, data=data)


def _connected(main: Callable[[Runtime], Awaitable[int]], *, config: Path | None, nats: str, data: Path | None) -> int:
    from actors.bootstrap import runtime

    from .session import located, run, settings_of

    settings = settings_of(config=config, nats=nats, data=data)

    async def connected() -> int:
        async with runtime(located(settings), role="dlq") as running:
            return await main(running)

    return run(connected(), service="dlq", settings=settings, trace=False)


async def _wanted(running: Runtime, conv: str, *, everything: bool, actor: str) -> list[Kept]:
    """Return the letters that are asked for. Raises `Rejected` where none is named, `NotFound` where there is none."""
    from protocol.errors import NotFound, Rejected

    if bool(conv) == everything:
        raise Rejected("name one conversation, or say --all")
    found = [kept async for kept in _letters(running, conv=conv, actor=actor)]
    if conv and not found:
        raise NotFound(f"there is no dead letter for {conv}", conversation=conv)
    return found


async def _letters(running: Runtime, *, conv: str, actor: str) -> AsyncIterator[Kept]:
    from protocol.errors import Rejected
    from protocol.ids import written_address
    from protocol.subjects import ACTORS

    if actor and actor not in ACTORS:
        raise Rejected(f"there is no actor {actor!r}; choose from {', '.join(ACTORS)}", actor=actor)
    wanted = written_address(conv) if conv else None
    async for kept in running.dead_letters.all():
        if wanted in (None, kept.letter.at) and actor in ("", kept.letter.actor):
            yield kept


def _told(kept: Kept, *, as_json: bool, whole: bool = False) -> None:
    import msgspec

    from .session import printed

    row = {
        "address": str(kept.letter.at),
        **msgspec.structs.asdict(kept.letter),
        "time": kept.time,
        "trace": kept.trace,
        "revision": kept.revision,
    }
    if as_json:
        printed(row)
    elif whole:
        sys.stdout.write("".join(f"{key:13} {value}\n" for key, value in row.items()))
    else:
        sys.stdout.write("{time}  {address}  {actor}  {reason}  {error}  {attempts} attempts\n".format(**row))
