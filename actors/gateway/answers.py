"""Answers: what a caller goes on from who names an answer of Responses, or brings a compaction of the gateway's.

Neither repeats what came before it: that is in the log, and the gateway knows where. What an answer said is kept until
it is gone on from, encrypted as the log is, since its caller will not send it either. So are its items, each by its
own id, for callers who send that in the place of the item.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from protocol.client import Client
from protocol.errors import UNREADABLE, BadMessage, Erased
from protocol.ids import Address, Token, address, token
from protocol.jsonbytes import decode, encode, encode_value
from storage.gateway_places import GatewayPlaces
from storage.ports import Keys

from .bodies import Body
from .callers import Caller
from .canon import HASH_BYTES
from .identity import Earlier, Head
from .reasons import Unknown, Unmanaged

STATE = "jettison-gateway"
"""The conversation whose key is that of the gateway's own documents: no log has this name."""

ANSWER_BYTES_MAX = 512 * 1024
"""Of one that can be gone on from by its id; of a longer one the caller is told that nobody knows it."""

OURS = "jet1:"
"""How a compaction of the gateway's begins: one of a provider goes back to it untouched."""

COMPACTION = b'"compaction"'
ITEMS_BYTES_MAX = 32 * 2**20
"""Of the items that one process remembers, as they are kept."""

_THOUGHTS = "reasoning.encrypted_content"
TRIGGER = b'"compaction_trigger"'


class KeptAnswer(msgspec.Struct, frozen=True, array_like=True, kw_only=True, tag="answer"):
    """Where a conversation stood when it was answered, and what was said then; or one item of it."""

    name: str
    earlier: Earlier
    said: bytes
    """Instructions at the head of its list, and the items behind its last message, as one JSON list of two."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What answers are known, by any gateway."""

    client: Client
    places: GatewayPlaces
    keys: Keys
    _items: LRUCache[str, KeptAnswer] = field(
        default_factory=lambda: LRUCache(ITEMS_BYTES_MAX, getsizeof=lambda one: len(one.said))
    )

    async def whole(self, caller: Caller, body: Body) -> Body:
        """Return a request with what it goes on from. Raises `Unknown`, `Rejected`, `Unavailable`."""
        if body.api.name != "responses":
            return body
        if caller.shared:
            body = unstored(body)
        if any(map(reference_in, body.messages)):
            body = replace(body, messages=await self._referred(caller, body.messages), changed=True)
        if isinstance(previous := body.field("previous_response_id"), str):
            body = await self._after(caller, body, previous)
        at = next((at for at in range(len(body.messages) - 1, -1, -1) if _is_ours(body.messages[at])), None)
        if at is None:
            return body
        # what stands before it is in the log, and was only repeated
        earlier = await self._compacted(caller, str(decode(body.messages[at])["encrypted_content"]))
        if not body.messages[at + 1 :]:
            raise Unmanaged("there is nothing behind the compaction")
        return replace(body, messages=body.messages[at + 1 :], earlier=earlier, changed=True)

    async def _after(self, caller: Caller, body: Body, previous: str) -> Body:
        raw, _ = await self.places.read(token(caller.tenant), await self._place(caller, previous))
        try:
            found = msgspec.msgpack.decode(raw, type=KeptAnswer)
            head, items = await self._said(caller, found)
        except (Erased, *UNREADABLE):
            raise Unknown(f"Previous response with id '{previous}' not found.") from None
        fields = {name: raw for name, raw in body.fields.items() if name != "previous_response_id"}
        return replace(
            body,
            fields=fields,
            head=(*map(bytes, head), *body.head),
            messages=(*map(bytes, items), *body.messages),
            earlier=found.earlier,
            changed=True,
        )

    async def _said(
        self, caller: Caller, answer: KeptAnswer
    ) -> tuple[tuple[msgspec.Raw, ...], tuple[msgspec.Raw, ...]]:
        said = await opened(self.client, address(answer.name, caller.tenant), answer.said)
        return msgspec.json.decode(said or b"", type=tuple[tuple[msgspec.Raw, ...], tuple[msgspec.Raw, ...]])

    async def _referred(self, caller: Caller, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return *messages* with the items that some of them only name. Raises `Unknown`, `Unavailable`."""
        idents = [reference_in(raw) for raw in messages]
        found = await asyncio.gather(*(self._item(caller, ident) for ident in idents if ident))
        items = iter(found)
        return tuple(next(items) if ident else raw for raw, ident in zip(messages, idents, strict=True))

    async def _item(self, caller: Caller, ident: str) -> bytes:
        where = await self._place(caller, ident)
        try:
            known = self._items.get(where)
            if known is None:
                raw, _ = await self.places.read(token(caller.tenant), where)
                known = self._items[where] = msgspec.msgpack.decode(raw, type=KeptAnswer)
            _, (item,) = await self._said(caller, known)
        except (Erased, *UNREADABLE):
            raise Unknown(f"Item with id '{ident}' not found.") from None
        return bytes(item)

    async def keep(self, caller: Caller, head: Head, place: Token, body: Body, response: Mapping[str, Any]) -> None:
        """Keep what a whole *response* to *body* said, so that it can be named. Raises `Unavailable`."""
        ident, output = response.get("id"), response.get("output")
        if not isinstance(ident, str) or not isinstance(output, list):
            return
        if not all(isinstance(one, dict) for one in output):
            raise BadMessage("an item of it is no object", at="output")
        if body.field("store") is False:
            # what its provider does not keep it takes back with its content alone
            output = [one for one in output if one.get("type") != "reasoning" or one.get("encrypted_content")]
        earlier, items = earlier_of(head, place), [(one, encode(one)) for one in output]
        named = [
            self._keep(caller, head.name, earlier, str(one["id"]), (), (raw,)) for one, raw in items if "id" in one
        ]
        said = (*body.tail, *(raw for _, raw in items))
        await asyncio.gather(self._keep(caller, head.name, earlier, ident, body.head, said), *named)

    async def _keep(
        self, caller: Caller, name: str, earlier: Earlier, ident: str, head: Sequence[bytes], items: Sequence[bytes]
    ) -> None:
        """Keep what *ident* names: *items* of the conversation *name*, below the instructions *head*."""
        raw = b"[[" + b",".join(head) + b"],[" + b",".join(items) + b"]]"
        said = await closed(self.client, address(name, caller.tenant), raw)
        if len(said) > ANSWER_BYTES_MAX:
            return
        answer = KeptAnswer(name=name, earlier=earlier, said=said)
        where = await self._place(caller, ident)
        # nobody else writes there; an id that a provider gives twice is not gone on from by either
        await self.places.write(token(caller.tenant), where, msgspec.msgpack.encode(answer), revision=0)

    async def compaction(self, caller: Caller, head: Head, place: Token) -> dict[str, Any]:
        """Return the item that stands for all of a conversation, for who brings it back as the same caller."""
        key = await self.keys.key(address(STATE, caller.tenant))
        raw = key.encrypt(msgspec.msgpack.encode(earlier_of(head, place)), f"compaction {caller.partition}")
        content = OURS + base64.urlsafe_b64encode(raw).decode()
        return {"id": f"cmp_{hashlib.sha256(raw).hexdigest()[:32]}", "type": "compaction", "encrypted_content": content}

    async def _compacted(self, caller: Caller, content: str) -> Earlier:
        key = await self.keys.key(address(STATE, caller.tenant))
        try:
            closed_ = base64.urlsafe_b64decode(content.removeprefix(OURS))
            raw = key.decrypt(closed_, f"compaction {caller.partition}")
            if raw is not None:
                return msgspec.msgpack.decode(raw, type=Earlier)
        except (binascii.Error, *UNREADABLE):
            pass
        raise Unknown("The compaction cannot be read: it is of another caller, or was changed.")

    async def _place(self, caller: Caller, ident: str) -> Token:
        """Return where the answer *ident* is kept: another caller with the same words finds another place."""
        secret = (await self.keys.key(address(STATE, caller.tenant))).secret
        told = encode({"answer": ident, "of": caller.partition})
        return token(hashlib.blake2b(told, digest_size=HASH_BYTES, key=secret).hexdigest())


def earlier_of(head: Head, place: Token) -> Earlier:
    """Return the `Earlier` of whatever follows all of *head*."""
    return Earlier(place=place, length=head.length, chain=head.chain, tools=head.tools)


def must_be_known(body: Body, caller: Caller) -> bool:
    """Tell whether a request makes no sense to its provider, or may not be put to it, unless its beginning is known."""
    named = body.field("previous_response_id") is not None or any(map(reference_in, body.messages))
    return (body.api.name == "responses" and caller.shared and named) or any(map(_is_ours, body.messages))


def is_named(body: Body) -> bool:
    """Tell whether the answer to *body* may be gone on from by its id: its caller did not say that nobody keeps it."""
    return body.api.name == "responses" and body.field("store") is not False


def unstored(body: Body) -> Body:
    """Return a request of OpenAI Responses whose answer nobody keeps: the account is everybody's, who could ask it."""
    if body.field("store") is False:
        return body
    return replace(body, fields={**body.fields, "store": b"false", **_with_thoughts(body)}, changed=True)


class _Named(msgspec.Struct):
    """What tells a reference from an item, which is not read further."""

    type: Any = None
    role: Any = None
    id: Any = None


def reference_in(raw: bytes) -> str:
    """Return the id of the item that a message only names; empty for any other message.

    In OpenAI's API its type may be left out, or be null.
    """
    try:
        item = msgspec.json.decode(raw, type=_Named)
    except UNREADABLE:
        try:
            item = msgspec.convert(decode(raw), _Named)
        except BadMessage:
            return ""
    is_bare = item.type is None and item.role is None and isinstance(item.id, str)
    return str(item.id) if item.type == "item_reference" or is_bare else ""


def _is_ours(raw: bytes) -> bool:
    if COMPACTION not in raw or OURS.encode() not in raw:
        return False
    try:
        item = decode(raw)
    except BadMessage:
        return False
    return item.get("type") == "compaction" and str(item.get("encrypted_content")).startswith(OURS)


def _with_thoughts(body: Body) -> dict[str, bytes]:
    """Return the field by which a model that reasons gives its thoughts back, where its provider keeps none."""
    include = body.field("include") or []
    if "reasoning" not in body.fields or not isinstance(include, list) or _THOUGHTS in include:
        return {}
    return {"include": encode_value([*include, _THOUGHTS])}


async def closed(client: Client, at: Address, raw: bytes) -> bytes:
    """Return *raw* as it may be kept: as what is said in *at* is, so that an erasure takes it too."""
    return raw if client.keys is None else (await client.keys.key(at)).encrypt(raw, f"gateway {at}")


async def opened(client: Client, at: Address, kept: bytes) -> bytes | None:
    """Return the bytes that were closed; None where they do not open any more."""
    return kept if client.keys is None else (await client.keys.key(at)).decrypt(kept, f"gateway {at}")
