"""What doctor says of the workers: who takes wake-ups, what waits, which releases are at work and how they decide."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from nats.aio.client import Client as NatsConnection

from actors.host.settings import Settings
from protocol import codec
from protocol.errors import JettisonError, Unavailable
from protocol.subjects import ACTORS, Actor
from storage.backlog import Queue, queues
from storage.connections import WORKERS, AtWork, at_work, release

from .doctor_store import Finding
from .terminal_text import counted

LOOKS, BETWEEN_SECONDS = 4, 0.15
"""Before it is said that nobody takes wake-ups: between two of them a worker asks for none for a moment."""

WAITS_SECONDS = 60.0
"""So long nobody is missed: processes are replaced."""


async def queues_found(connection: NatsConnection) -> list[Finding]:
    """Say of which actors no worker takes wake-ups, and what waits; no monitoring port is needed for that."""
    try:
        found = await queues(connection)
        missing = set(ACTORS)
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(BETWEEN_SECONDS)
                found = await queues(connection)
            missing -= {one.actor for one in found if one.is_served}
            if not missing:
                break
    except JettisonError as error:
        fix = "see what is said of streams"
        return [Finding(what="workers", ok=True, warns=True, detail=f"not looked at: {error}", fix=fix)]
    taken = [_taken(found, missing)] if len(missing) < len(ACTORS) else []
    return [*taken, *_missed(found, missing)]


def _missed(found: Sequence[Queue], missing: set[Actor]) -> list[Finding]:
    """Return the findings about actors without a worker: it is wrong once something waits for them."""
    from actors.runtime.registry import asks_model

    of = {actor: _waits([one for one in found if one.actor == actor]) for actor in ACTORS if actor in missing}
    waiting = {actor: (count, age) for actor, (count, age) in of.items() if age}
    idle = [actor for actor in of if actor not in waiting]
    told = [
        Finding(
            what="workers",
            ok=age < WAITS_SECONDS,
            warns=True,
            detail=f"no worker of {actor} takes wake-ups; {_waiting_text(count, age)}",
            fix=f"start one: jettison worker {actor}, or `jettison up` for all",
        )
        for actor, (count, age) in waiting.items()
    ]
    # for a model no agent waits: such an actor may have no worker as long as nothing waits (`infra/kubernetes`)
    if not all(map(asks_model, idle)):
        fix = "start them: jettison worker ACTOR, or `jettison up` for all"
        detail = f"no worker of {', '.join(idle)} takes wake-ups; none waits for them"
        told.append(Finding(what="workers", ok=True, warns=True, detail=detail, fix=fix))
    return told


def _taken(found: Sequence[Queue], missing: set[Actor]) -> Finding:
    names = ", ".join(actor for actor in ACTORS if actor not in missing)
    count, age = _waits([one for one in found if one.actor not in missing])
    return Finding(what="workers", ok=True, detail=f"of {names} take wake-ups; {_waiting_text(count, age)}")


def _waits(of: Sequence[Queue]) -> tuple[int, float]:
    """Return how many wait untaken, and since when the oldest is not done."""
    return sum(one.slots for one in of), max(one.age_seconds for one in of)


def _waiting_text(count: int, age: float) -> str:
    if not age:
        return "none waits"
    return f"{counted(count, 'wake-up')} not taken, the oldest not done since {age:,.0f} s"


async def at_work_found(settings: Settings, monitor: str) -> list[Finding]:
    """Say by which rules the workers of the server at *monitor* decide, and which releases are at work."""
    what = f"rules {settings.rules_written} are to decide, of {codec.RULES_VERSION} that this release reads"
    if not monitor:
        fix = "give --monitor http://HOST:8222 of each server"
        detail = f"{what}; what workers read cannot be seen from here"
        return [Finding(what="rules", ok=True, warns=True, detail=detail, fix=fix)]
    try:
        found = await at_work(monitor)
    except Unavailable as error:
        return [Finding(what="rules", ok=False, detail=str(error), fix="give --monitor http://HOST:8222")]
    workers = [one for one in found if one.role in WORKERS]
    if not workers:
        fix = "start them, or give --monitor of the server that they are connected to"
        nobody = Finding(what="rules", ok=True, warns=True, detail=f"{what}; no worker is on this server", fix=fix)
        return [nobody, _releases(found)] if found else [nobody]
    return [_rules(what, settings.rules_written, workers), _releases(found)]


def _rules(what: str, written: str, workers: Sequence[AtWork]) -> Finding:
    """Say whether one of *workers* is left that does not read the newest rules."""
    newest = codec.RULES_VERSION
    older = [one for one in workers if not one.reads or int(one.reads) < int(newest)]
    names = ", ".join(sorted({f"{one.role} (reads {one.reads or 'none that it says'})" for one in older}))
    if older:
        few = f"{len(older)} of {counted(len(workers), 'worker')} on this server"
        detail = f"{what}; {few} do not read {newest}: {names}"
        if written == newest:
            fix = "set rules.write to what all of them read (JETTISON_RULES__WRITE), or update them"
            return Finding(what="rules", ok=False, detail=detail, fix=fix)
        fix = f"update them before rules.write becomes {newest}"
        return Finding(what="rules", ok=True, warns=True, detail=detail, fix=fix)
    behind = sum(one.writes != newest for one in workers)
    detail = f"{what}; all of {counted(len(workers), 'worker')} on this server read {newest}"
    fix = f"rules.write = {newest} is safe now: {counted(behind, 'worker')} decide by older ones" if behind else ""
    return Finding(what="rules", ok=True, detail=detail, fix=fix)


def _releases(found: Sequence[AtWork]) -> Finding:
    """Say which releases are at work, where there is more than one: whose processes they are."""
    roles: dict[str, Counter[str]] = {}
    for one in found:
        roles.setdefault(one.release or "one that does not say", Counter())[one.role] += 1
    told = [
        f"{name} ({', '.join(f'{count} {role}' for role, count in sorted(of.items()))})"
        for name, of in sorted(roles.items())
    ]
    if set(roles) <= {release()}:
        detail = f"{counted(len(found), 'program')} on this server, all of this release, {release()}"
        return Finding(what="releases", ok=True, detail=detail)
    detail = f"this is {release()}; on this server are {'mixed ones: ' if len(told) > 1 else ''}{'; '.join(told)}"
    fix = "two releases side by side are an update under way: end it, or go back (infra/docs/operations.md)"
    return Finding(what="releases", ok=True, warns=len(told) > 1, detail=detail, fix=fix if len(told) > 1 else "")
