"""Connections: what the processes that are at work say of themselves to the server, by their connections' names.

No subject and no right is needed for it, and a release from before these names is seen as well: it says less.
"""

from __future__ import annotations

import re

import msgspec

from protocol import codec
from protocol.subjects import ACTORS

from .durability import monitored

PAGE_SIZE = 1024
"""Connections that a server names at once."""

WORKERS = frozenset((*ACTORS, *(f"trial-{actor}" for actor in ACTORS), "service", "up", "compact"))
"""Roles of processes that decide."""

_NAME = re.compile(r"jettison-(?P<role>[a-z-]+)(?: reads (?P<reads>\d+), writes (?P<writes>\d+))?")


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """One process that decides; of a release before these names, the versions are empty."""

    role: str
    reads: str
    """The newest version of the rules that it reads."""
    writes: str
    """The version of the rules that it decides by."""


def connection_name(role: str, *, writes: str) -> str:
    """Return the name of the connection of a process that decides by the rules *writes*."""
    return f"jettison-{role} reads {codec.RULES_VERSION}, writes {writes}"


async def at_work(monitor_url: str) -> list[AtWork]:
    """Return the workers that are connected to the server with this monitoring port.

    Raises `LogUnavailable` if no NATS server answers there.
    """
    found: list[AtWork] = []
    offset = 0
    while True:
        page = await monitored(monitor_url, f"connz?limit={PAGE_SIZE}&offset={offset}")
        names = [str(one.get("name", "")) for one in page.get("connections") or ()]
        for name in names:
            said = _NAME.fullmatch(name)
            if said and said["role"] in WORKERS:
                found.append(AtWork(role=said["role"], reads=said["reads"] or "", writes=said["writes"] or ""))
        offset += len(names)
        if not names or offset >= int(page.get("total", 0)):
            return found
