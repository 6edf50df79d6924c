"""Unnamed: the objects of each tenant that no log of it names. They are told, and never deleted (`decisions.md`)."""

from __future__ import annotations

import msgspec

from protocol.errors import BadEnvelope, Damaged, KeysUnavailable
from protocol.ids import Address, Token
from storage.encrypted import EncryptedSnapshots
from storage.ports import Artifacts, EventLog

from .sharing import named

FIRST_MAX = 20


class Unnamed(msgspec.Struct, frozen=True, kw_only=True):
    """What no log of a *tenant* names, nor a newest snapshot."""

    tenant: str
    objects: int
    bytes: int
    first: tuple[str, ...]
    """SHA-256 of the first of them."""
    unread: str = ""
    """Why that is not known: a log of the tenant cannot be read, and may name them."""


async def unnamed(store: Artifacts, log: EventLog, snapshots: EncryptedSnapshots) -> list[Unnamed]:
    """Return the objects that no log names, by tenant; every log is read, its archives too. Raises `Unavailable`."""
    left: dict[Token, dict[str, int]] = {}
    # the store first: what is stored and named from now on is not asked about
    async for some in store.sizes():
        for (tenant, name), size in some.items():
            left.setdefault(tenant, {})[name] = size
    unread: dict[Token, str] = {}
    for at in await log.addresses():
        if objects := left.get(at.tenant):
            try:
                await _taken_out(objects, at, log, snapshots)
            except (BadEnvelope, Damaged, KeysUnavailable) as error:
                unread.setdefault(at.tenant, str(error))
    return [
        Unnamed(
            tenant=tenant,
            objects=len(objects),
            bytes=sum(objects.values()),
            first=tuple(sorted(objects)[:FIRST_MAX]),
            unread=unread.get(tenant, ""),
        )
        for tenant, objects in sorted(left.items())
        if objects
    ]


async def _taken_out(objects: dict[str, int], at: Address, log: EventLog, snapshots: EncryptedSnapshots) -> None:
    objects.pop(await snapshots.artifact(at), None)
    async for batch in log.batches(at, after=0):
        for name in named(batch):
            objects.pop(name, None)
