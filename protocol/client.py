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

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Unpack

from nats.aio.client import Client as NatsConnection

from .connection import connect
from .conversation import Conversation
from .errors import Rejected
from .facts import CompactionRequested, ConversationOpened
from .formats import messages
from .ids import address
from .keys import JetStreamKeys, TenantKeys
from .login import Login, LoginArguments
from .policy import converted
from .prepared import check_counts
from .service_messages import OpenAsked
from .tools import told_tools

__all__ = ["OPEN_SECONDS", "PATIENCE_SECONDS", "Client", "Conversation"]

OPEN_SECONDS = 1.0
"""How long an opening waits for somebody who serves; what is said is kept without."""

PATIENCE_SECONDS = 30.0
"""How long an append tries before it says that the outcome is unknown."""


@dataclass(kw_only=True)
class Client:
    """One connection, any number of conversations."""

    connection: NatsConnection
    patience_seconds: float = PATIENCE_SECONDS
    keys: JetStreamKeys | None = None

    @staticmethod
    @asynccontextmanager
    async def connect(
        url: str, *, name: str = "agent", keys: TenantKeys | None = None, **login: Unpack[LoginArguments]
    ) -> AsyncIterator[Client]:
        """Connect, and close at the end. Raises `LogUnavailable` within two seconds if nothing answers.

        *login*: `user` and `password`, or `token`, `nkey_file`, `creds_file`; `ca_file`, `cert_file`, `key_file` and
        `tls_first` for TLS, without which `tls://` connects nowhere. Raises `NotPermitted` where NATS refuses them.

        With the tenant's *keys* (`FolderKeys`) what is said is encrypted before it is sent; without, the log has it in
        plain text. Raises `Rejected` for keys that are none.
        """
        if keys is not None and not isinstance(keys, TenantKeys):
            raise Rejected(f"keys takes FolderKeys(folder=…), not {type(keys).__name__}")
        connection = await connect(url, name=name, login=Login(**login))
        ours = JetStreamKeys(connection, tenants=keys, read="direct") if keys is not None else None
        try:
            yield Client(connection=connection, keys=ours)
        finally:
            await connection.close()

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
        check_counts(budget=budget)
        if not isinstance(model, str):
            raise Rejected(f"model is a name, not {type(model).__name__}")
        declared = format or _declared_in(policy or {})
        if declared and declared not in messages.PROFILES:
            raise Rejected(f"format is one of {', '.join(messages.PROFILES)}, not {declared!r:.40}")
        asked = OpenAsked(model=messages.without_surrogates(model), policy=dict(policy or {}))
        talk = Conversation(
            client=self, at=address(conversation, tenant), _standing=budget, _unchecked=asked, _format=declared
        )
        await talk.check(OPEN_SECONDS)
        opened = ConversationOpened(
            name=messages.without_surrogates(conversation),
            model=asked.model,
            policy=messages.encode(policy or {}),
            late_results=True,
            format=declared,
            tools=told_tools(tools),
        )
        await talk.say((opened, CompactionRequested(budget=budget, reason="open")) if budget else (opened,))
        return talk


def _declared_in(policy: Mapping[str, Any]) -> str:
    """Return the profile that *policy* names itself. Raises `BadPolicy`."""
    converted(policy)
    shape = policy.get("shape")
    return str(shape.get("profile", "")) if isinstance(shape, Mapping) else ""
