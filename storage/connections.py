"""Connections: what the processes that are at work say of themselves to the server, by their connections' names.

No subject and no right is needed for it, and a release from before these names is seen as well: it says less.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution

import msgspec

from protocol import codec
from protocol.subjects import ACTORS

from .durability import monitored

PAGE_SIZE = 1024
"""Connections that a server names at once."""

WORKERS = frozenset((*ACTORS, *(f"trial-{actor}" for actor in ACTORS), "service", "all", "up", "compact"))
"""Roles of processes that decide; a sandbox of an actor says `trial-` before its name."""

LASTING = WORKERS | {"sweeper", "gateway", "auditor"}
"""Roles of the processes that an update has to reach; the page is an auditor."""

_NAME = re.compile(
    r"jettison-(?P<role>[a-z-]+)(?: reads (?P<reads>\d+), writes (?P<writes>\d+))?(?:, release (?P<release>\S+))?"
)


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """One process at work; what a release from before these names does not say is empty."""

    role: str
    reads: str
    """The newest version of the rules that it reads."""
    writes: str
    """The version of the rules that it decides by."""
    release: str = ""


@cache
def release() -> str:
    """Return the number of this release, and which code it is: two builds of one number are two releases.

    The code is known by what its wheel says of its files; what runs from its sources says so.
    """
    try:
        installed = distribution("jettison")
    except PackageNotFoundError:
        return "unknown"
    ours = sorted(line for line in (installed.read_text("RECORD") or "").splitlines() if ".py,sha256=" in line)
    code = sha256("\n".join(ours).encode()).hexdigest()[:8] if ours else "source"
    return f"{installed.version}+{code}"


def connection_name(role: str, *, writes: str) -> str:
    """Return the name of the connection of a process that decides by the rules *writes*.

    Releases before the last part of it pass over who says it: they ask whether all read the newest rules that they
    know themselves, and who says more is newer.
    """
    return f"jettison-{role} reads {codec.RULES_VERSION}, writes {writes}, release {release()}"


async def at_work(monitor_url: str) -> list[AtWork]:
    """Return our processes that run on and are connected to the server with this monitoring port.

    Raises `LogUnavailable` if no NATS server answers there.
    """
    found: list[AtWork] = []
    offset = 0
    while True:
        page = await monitored(monitor_url, f"connz?limit={PAGE_SIZE}&offset={offset}")
        names = [str(one.get("name", "")) for one in page.get("connections") or ()]
        for name in names:
            said = _NAME.fullmatch(name)
            if said and said["role"] in LASTING:
                told = {name: value or "" for name, value in said.groupdict().items()}
                found.append(AtWork(**told))
        offset += len(names)
        if not names or offset >= int(page.get("total", 0)):
            return found
