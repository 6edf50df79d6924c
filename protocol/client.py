"""The client that agents use: append what was said, get the view for the next call.

    async with Client.connect("nats://127.0.0.1:4222") as client:
        talk = await client.open("ticket-4312", model="gpt-4o", budget=32_000)
        await talk.append([{"role": "user", "content": "..."}])
        context = await talk.context()
        ...  # call the model with context.messages

An append that returned is durable. One that raised `OutcomeUnknown` may still land; it is kept, sent
again before anything newer, and stored once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Unpack

from nats.aio.client import Client as NatsConnection

from .arguments import check_texts, checked_layer, seconds_of
from .connecting import connect
from .conversation import Conversation
from .errors import Rejected
from .facts import CompactionRequested, ConversationOpened
from .formats import messages
from .ids import address
from .keys import JetStreamKeys, TenantKeys
from .login import LoginArguments, checked_url, login_of
from .service_messages import OpenAsked
from .tools import told_tools
from .warned import standing

__all__ = ["OPEN_SECONDS", "PATIENCE_SECONDS", "Client", "Connecting", "Conversation"]

OPEN_SECONDS = 1.0
"""How long an opening waits for somebody who serves; what is said is kept without."""

PATIENCE_SECONDS = 30.0
"""How long a call goes on while nobody answers: three times a restart of ten seconds."""


@dataclass(kw_only=True)
class Client:
    """One connection, any number of conversations."""

    connection: NatsConnection
    patience_seconds: float = PATIENCE_SECONDS
    keys: JetStreamKeys | None = None

    @staticmethod
    def connect(
        url: str,
        *,
        name: str = "agent",
        keys: TenantKeys | None = None,
        patience: float = PATIENCE_SECONDS,
        **login: Unpack[LoginArguments],
    ) -> Connecting:
        """Connect: `async with Client.connect(url) as client` closes at the end, `await Client.connect(url)` does not.

        *url* may name several servers of a cluster, with commas between. Raises `LogUnavailable` within two seconds if
        nothing answers: connecting waits for nobody. *patience*: seconds that each call goes on while nobody answers,
        where it is given none itself.

        *login*: `user` and `password`, or `token`, `nkey_file`, `creds_file`; `ca_file`, `cert_file`, `key_file` and
        `tls_first` for TLS, without which `tls://` connects nowhere. Raises `NotPermitted` where NATS refuses them.

        With the tenant's *keys* (`FolderKeys`) what is said is encrypted before it is sent; without, the log has it in
        plain text. Raises `Rejected` for keys that are none, and for any other argument that cannot be one.
        """
        return Connecting(url, name=name, keys=keys, patience=patience, login=login)

    async def close(self) -> None:
        """Close the connection; a second time does nothing. What was appended is durable without."""
        await self.connection.close()

    async def __aenter__(self) -> Client:
        """Return this client, which is closed at the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def open(
        self,
        conversation: str,
        *,
        tenant: str = "default",
        model: str = "",
        policy: Mapping[str, Any] | None = None,
        budget: int = 0,
        format: str = "",
        tools: Iterable[Mapping[str, Any]] = (),
    ) -> Conversation:
        """Open or resume a conversation. *policy* is the agent's own layer; the first opening counts.

        *budget* is the standing one, as of `set_budget`; 0 leaves it as it is. *format* is the profile whose requests
        the messages are from, by default that of *policy*: it gets each as it came, also one that nobody here knows.
        *tools* are those of the requests, in any provider's form: a reminder after a compaction names them.
        The service checks it with its own layers, and what is not known of the model is warned of once.
        Raises `BadPolicy` for what cannot be used or is locked, `PolicyDiffers` where the conversation has another one,
        `BadId` for an empty name. While nobody serves, the first `context()` raises it.
        """
        budget = standing(budget)
        at = address(conversation, tenant)
        check_texts(model=model, format=format)
        offered = told_tools(tools)
        layer = {} if policy is None else checked_layer(policy)
        declared = format or _declared_in(layer)
        if declared and declared not in messages.PROFILES:
            raise Rejected(f"format is one of {', '.join(messages.PROFILES)}, not {declared!r:.40}")
        asked = OpenAsked(model=messages.without_surrogates(model), policy=layer)
        talk = Conversation(client=self, at=at, _standing=budget, _unchecked=asked, _format=declared)
        await talk.check(OPEN_SECONDS)
        opened = ConversationOpened(
            name=messages.without_surrogates(conversation),
            model=asked.model,
            policy=messages.encode(layer),
            late_results=True,
            format=declared,
            tools=offered,
        )
        await talk.say((opened, CompactionRequested(budget=budget, reason="open")) if budget else (opened,))
        return talk


class Connecting(AbstractAsyncContextManager[Client]):
    """A connection that is to be made: awaited, it is a client; with `async with`, one that is closed at the end."""

    def __init__(
        self, url: str, *, name: str, keys: TenantKeys | None, patience: float, login: Mapping[str, Any]
    ) -> None:
        self._url = checked_url(url)
        check_texts(name=name)
        if keys is not None and not isinstance(keys, TenantKeys):
            raise Rejected(f"keys takes FolderKeys(folder=…), not {type(keys).__name__}", argument="keys")
        self._name, self._keys, self._login = name, keys, login_of(login)
        self._patience = seconds_of(PATIENCE_SECONDS, patience=patience)
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        """Connect, and leave it open."""
        return self._connected().__await__()

    async def __aenter__(self) -> Client:
        """Connect."""
        self._client = await self._connected()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        if self._client is not None:
            await self._client.close()

    async def _connected(self) -> Client:
        connection = await connect(self._url, name=self._name, login=self._login)
        ours = JetStreamKeys(connection, tenants=self._keys, read="direct") if self._keys is not None else None
        return Client(connection=connection, patience_seconds=self._patience, keys=ours)


def _declared_in(policy: Mapping[str, Any]) -> str:
    """Return the profile that *policy* names itself."""
    shape = policy.get("shape")
    return str(shape.get("profile", "")) if isinstance(shape, Mapping) else ""
