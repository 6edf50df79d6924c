"""`jettison dlq`: look at the wake-ups that were given up, and decide about each."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Conv, JsonOption, StackOptions, WrongUsage, on_stack

if TYPE_CHECKING:  # `jettison --help` needs none of it
    from actors.host.bootstrap import Runtime
    from storage.work_ports import StoredLetter

dlq = typer.Typer(help="Wake-ups that were given up: list, show, retry, drop.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION; none with --all.", metavar="[CONV]")]
Everyone = Annotated[bool, typer.Option("--all", help="Every letter.")]


def _known(actor: str) -> str:
    from protocol.subjects import ACTORS

    if actor and actor not in ACTORS:
        raise WrongUsage(f"there is no actor {actor!r}; choose from {', '.join(ACTORS)}")
    return actor


OfActor = Annotated[str, typer.Option("--actor", help="Only letters of this actor.", callback=_known)]


@dlq.command("list")
@on_stack
def list_(stack: StackOptions, actor: OfActor = "", json: JsonOption = False) -> int:
    """List all dead letters, oldest first."""
    from .session import said

    async def main(running: Runtime) -> int:
        count = 0
        async for stored in _letters(running, conv="", actor=actor):
            _letter_shown(stored, as_json=json)
            count += 1
        if not count:
            said("no dead letters" + (f" of {actor}" if actor else ""))
        return 0

    return _connected(main, stack)


@dlq.command()
@on_stack
def show(stack: StackOptions, conv: Conv, actor: OfActor = "", json: JsonOption = False) -> int:
    """Print the letters of one conversation; exit 1 if there is none."""

    async def main(running: Runtime) -> int:
        for stored in await _wanted(running, conv, actor=actor):
            _letter_shown(stored, as_json=json, whole=True)
        return 0

    return _connected(main, stack)


@dlq.command()
@on_stack
def retry(
    stack: StackOptions, conv: Which = "", everything: Everyone = False, actor: OfActor = "", json: JsonOption = False
) -> int:
    """Wake the actor again, and forget the letter; if it fails again, there will be a new one."""

    async def one(running: Runtime, stored: StoredLetter) -> None:
        headers = {"traceparent": stored.trace} if stored.trace else {}
        # first woken: a crash in between leaves a letter too many, never one too few
        await running.wakes.wake(stored.letter.actor, stored.letter.at, headers=headers)
        await running.dead_letters.drop(stored)

    return _each(one, stack, conv, everything=everything, actor=actor, json=json)


@dlq.command()
@on_stack
def drop(
    stack: StackOptions, conv: Which = "", everything: Everyone = False, actor: OfActor = "", json: JsonOption = False
) -> int:
    """Forget the letter and wake nobody; the conversation stays as it is in the log."""

    async def one(running: Runtime, stored: StoredLetter) -> None:
        await running.dead_letters.drop(stored)

    return _each(one, stack, conv, everything=everything, actor=actor, json=json)


def _each(
    one: Callable[[Runtime, StoredLetter], Awaitable[None]],
    stack: StackOptions,
    conv: str,
    *,
    everything: bool,
    actor: str,
    json: bool,
) -> int:
    if bool(conv) == everything:
        raise WrongUsage("name one conversation, or say --all")

    async def main(running: Runtime) -> int:
        for stored in await _wanted(running, conv, actor=actor):
            await one(running, stored)
            _letter_shown(stored, as_json=json)
        return 0

    return _connected(main, stack)


def _connected(main: Callable[[Runtime], Coroutine[Any, Any, int]], stack: StackOptions) -> int:
    from .session import connected

    return connected(main, stack, role="dlq")


async def _wanted(running: Runtime, conv: str, *, actor: str) -> list[StoredLetter]:
    """Return the letters of *conv*, or all of them. Raises `NotFound`."""
    from protocol.errors import NotFound

    found = [stored async for stored in _letters(running, conv=conv, actor=actor)]
    if conv and not found:
        raise NotFound(f"there is no dead letter for {conv}", conversation=conv)
    return found


async def _letters(running: Runtime, *, conv: str, actor: str) -> AsyncIterator[StoredLetter]:
    from protocol.ids import written_address

    wanted = written_address(conv) if conv else None
    async for stored in running.dead_letters.all():
        if wanted in (None, stored.letter.at) and actor in ("", stored.letter.actor):
            yield stored


def _letter_shown(stored: StoredLetter, *, as_json: bool, whole: bool = False) -> None:
    import msgspec

    from .session import printed

    row = {
        "address": str(stored.letter.at),
        **msgspec.structs.asdict(stored.letter),
        "time": stored.time,
        "trace": stored.trace,
        "revision": stored.revision,
    }
    if as_json:
        printed(row)
    elif whole:
        sys.stdout.write("".join(f"{key:13} {value}\n" for key, value in row.items()))
    else:
        sys.stdout.write("{time}  {address}  {actor}  {reason}  {error}  {attempts} attempts\n".format(**row))
