"""Rewrapping: wrap the keys of a tenant's conversations anew, so that an old key of the tenant can be thrown away.

Copies of the stream of keys that were made before then open nothing any more, not even with all that is left: that is
how an erasure reaches backups that hold wrapped keys.
"""

from __future__ import annotations

import json

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, WRONG_LAST_SEQUENCES, reason_of
from protocol.errors import PROVISION, UNREADABLE, Contended, Damaged, LogUnavailable, NotProvisioned
from protocol.ids import Address, Token
from protocol.keys import DESTROYED, KeyRecord, TenantKeys

from .erasure import ANSWER_SECONDS, overwritten

ATTEMPTS_MAX = 5


async def rewrapped(connection: NatsConnection, *, tenants: TenantKeys, tenant: Token) -> int:
    """Wrap every key of *tenant* anew, also those that lay there as they were; return how many.

    Who is interrupted begins again. Raises `KeysUnavailable`, `Damaged`, `LogUnavailable`, `NotProvisioned`.
    """
    jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
    try:
        config = (await jetstream.stream_info(subjects.KEY_STREAM)).config
        # for the moment in which a key lies there twice
        await jetstream.update_stream(config.evolve(max_msgs_per_subject=2))
        try:
            found = await _addresses(connection, tenant)
            return sum([await _rewrapped(connection, at, tenants) for at in found])
        finally:
            await jetstream.update_stream(config.evolve(max_msgs_per_subject=1))
    except NotFoundError:
        raise NotProvisioned(f"there is no stream of keys; {PROVISION}") from None
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the keys of {tenant} cannot be wrapped anew: {reason_of(error)}; again") from None


async def _rewrapped(connection: NatsConnection, at: Address, tenants: TenantKeys) -> int:
    jetstream, subject = connection.jetstream(timeout=ANSWER_SECONDS), subjects.key(at)
    for _ in range(ATTEMPTS_MAX):
        message = await jetstream.get_msg(subjects.KEY_STREAM, subject=subject)
        if message.data == DESTROYED:
            return 0
        try:
            kept = msgspec.msgpack.decode(message.data or b"", type=KeyRecord)
        except UNREADABLE:
            raise Damaged(f"the key of {at} is not readable", address=str(at)) from None
        key = kept.plain or await tenants.unwrap(at, kept.wrapped)
        body = msgspec.msgpack.encode(KeyRecord(wrapped=await tenants.wrap(at, key)))
        try:
            # refused where it was erased meanwhile
            ack = await jetstream.publish(
                subject, body, headers={"Nats-Expected-Last-Subject-Sequence": str(message.seq)}
            )
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCES:
                raise
            continue
        await overwritten(connection, stream=subjects.KEY_STREAM, subject=subject, keep=ack.seq)
        return 1
    raise Contended(f"the key of {at} is written all the time", address=str(at))


async def _addresses(connection: NatsConnection, tenant: Token) -> list[Address]:
    found: list[Address] = []
    listed = 0
    while True:
        request = {"subjects_filter": subjects.keys_of(tenant), "offset": listed}
        answer = await connection.request(
            f"$JS.API.STREAM.INFO.{subjects.KEY_STREAM}", json.dumps(request).encode(), timeout=ANSWER_SECONDS
        )
        state = json.loads(answer.data)
        if "error" in state:
            raise LogUnavailable(f"the keys of {tenant} cannot be listed: {state['error'].get('description', '')}")
        page = state["state"].get("subjects") or {}
        found += [at for at in map(subjects.address_in, page) if at is not None]
        listed += len(page)
        if not page or listed >= int(state.get("total", 0)):
            return sorted(found)
