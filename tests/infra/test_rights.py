"""Rights: who may say, hear and read what, for every user of `infra/nats` on a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import nats
import pytest
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from protocol import subjects
from protocol.client import Client
from protocol.errors import NotPermitted
from protocol.ids import Address, address
from storage.jetstream import JetStreamLog
from storage.streams import provision
from tests.infra.rights_server import CONFIGURATIONS, PASSWORD, TICKET, WORKERS, RightsServer, soon

OURS, TICKETS, THEIRS = address("c"), address(TICKET), address("c", "acme")
AGENTS = {"agent-default": (OURS, TICKETS), "agent-acme": (THEIRS,), TICKET: (TICKETS,)}
USERS = (*AGENTS, *WORKERS, "auditor", "operator")

READS = ("search", "artifacts", "versions", "diff", "why", "where")
AGENTS_VERBS = ("context", "upload", "read", "expand", "open", *READS)
"""What an agent may ask for. What changes the past or the policy is off, until an operator turns it on: who adds a verb
decides here."""
OPERATORS_VERBS: tuple[str, ...] = ("policy", "rewind", "fork", "erase")

API = "$JS.API"
AUDITS = (
    f"{API}.STREAM.MSG.GET.CTX_LOG",
    f"{API}.DIRECT.GET.CTX_LOG",
    f"{API}.STREAM.INFO.CTX_LOG",
    f"{API}.STREAM.MSG.GET.CTX_KEYS",
    f"{API}.DIRECT.GET.CTX_LIST",
    f"{API}.STREAM.MSG.GET.CTX_DLQ",
)
ORDERS = (
    *(f"{API}.STREAM.{verb}.CTX_LOG" for verb in ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE", "SNAPSHOT")),
    *(f"{API}.STREAM.{verb}" for verb in ("LIST", "NAMES")),
    f"{API}.STREAM.RESTORE.CTX_LOG",
    f"{API}.CONSUMER.CREATE.CTX_KEYS.x",
    f"{API}.CONSUMER.DURABLE.CREATE.CTX_WAKE.x",
    f"{API}.CONSUMER.DELETE.CTX_WAKE.actor-cut",
    f"{API}.DIRECT.GET.CTX_KEYS",
    f"{API}.DIRECT.GET.CTX_SNAP",
    f"{API}.DIRECT.GET.CTX_LOG.ctx.v1.log.default.c.said",
    f"{API}.DIRECT.GET.CTX_LOG.ctx.v1.log.acme.c.said",
    f"{API}.STREAM.INFO.CTX_KEYS",
    "$SYS.REQ.SERVER.PING",
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.CTX_WAKE.actor-cut",
    "_INBOX.spill.x",
    "_INBOX.agent-default.x",
    "_INBOX.agent-acme.x",
    "_INBOX.x",
)
REPAIRS = (
    *(
        f"{API}.STREAM.{verb}.{stream}"
        for verb in ("MSG.DELETE", "PURGE")
        for stream in ("CTX_LOG", "CTX_DLQ", "CTX_KEYS")
    ),
    f"{API}.CONSUMER.NAMES.CTX_WAKE",
    *(f"{API}.CONSUMER.PAUSE.CTX_WAKE.actor-{actor}" for actor in subjects.ACTORS),
)
"""What `repair` and `erase` ask beside what workers may: they change the past, and are the operator's alone."""
SWEEPS = (
    "ctx.v1.sweep",
    f"{API}.STREAM.MSG.GET.CTX_WAKE",
    f"{API}.STREAM.MSG.GET.CTX_DLQ",
    f"{API}.STREAM.INFO.CTX_LOG",
    f"{API}.CONSUMER.CREATE.CTX_LOG.x.ctx.v1.log.x",
    f"{API}.CONSUMER.CREATE.CTX_LOG",
    f"{API}.CONSUMER.MSG.NEXT.CTX_LOG.x",
    f"{API}.CONSUMER.DELETE.CTX_LOG.x",
    "ctx.v1.list.7",
    f"{API}.INFO",
    *(f"{API}.{verb}.CTX_LIST" for verb in ("STREAM.MSG.GET", "DIRECT.GET", "STREAM.MSG.DELETE")),
)


def of_agents(at: Address) -> set[str]:
    return {
        subjects.said(at),
        *(subjects.ask(verb, at) for verb in subjects.VERBS if verb in AGENTS_VERBS),
        subjects.key(at),
        f"{API}.DIRECT.GET.CTX_KEYS.{subjects.key(at)}",
    }


def of_workers(at: Address) -> set[str]:
    """Return what each worker may publish for *at*."""
    slots = {subjects.wake(actor, at, lane) for actor in subjects.ACTORS for lane in subjects.LANES}
    snapshot, hook = subjects.snapshot(at), subjects.hook(at, "h")
    return {subjects.done(at), snapshot, subjects.key(at), subjects.ready(at), hook, *slots}


def of_worker(actor: subjects.Actor) -> set[str]:
    """Return what a worker of *actor* may publish."""
    queues = [subjects.durable(actor, lane) for lane in subjects.LANES]
    out = {f"{API}.CONSUMER.{verb}.CTX_WAKE.{queue}" for verb in ("INFO", "MSG.NEXT") for queue in queues}
    out |= {f"$JS.ACK.CTX_WAKE.{queue}.1.1.1.1.1" for queue in queues}
    out |= {f"{API}.STREAM.MSG.GET.{stream}" for stream in ("CTX_LOG", "CTX_SNAP", "CTX_KEYS")}
    for at in (OURS, TICKETS, THEIRS):
        out |= of_workers(at) | {subjects.begun(actor, at), subjects.dead_letter(actor, at)}
    return out | {f"{API}.DIRECT.GET.CTX_LOG", f"{API}.STREAM.INFO.CTX_LOG"}


def publishable(user: str) -> set[str]:
    """Return all that *user* may publish, of `EVERYTHING`."""
    if user == "operator":
        return set(EVERYTHING)
    if user == "auditor":
        return set(AUDITS)
    if user in AGENTS:
        return {subject for at in AGENTS[user] for subject in of_agents(at)}
    actor = next(one for one in subjects.ACTORS if one == user)
    out = of_worker(actor)
    if user == "cut":
        out |= {*SWEEPS} | {
            subject for subject in EVERYTHING if re.search("CTX_WAKE", subject) and is_sweepers(subject)
        }
        out |= {subjects.dead_letter(other, at) for other in subjects.ACTORS for at in (OURS, TICKETS, THEIRS)}
    return out


def is_sweepers(subject: str) -> bool:
    return subject.startswith(("$JS.ACK.", f"{API}.CONSUMER.INFO."))


EVERYTHING = sorted(
    {
        *ORDERS,
        *REPAIRS,
        *AUDITS,
        *SWEEPS,
        *(subject for at in (OURS, TICKETS, THEIRS) for subject in of_agents(at)),
        *(subjects.ask(verb, at) for verb in subjects.VERBS for at in (OURS, TICKETS, THEIRS)),
        *(subject.replace(".context.", ".shout.") for subject in of_agents(OURS) if ".context." in subject),
        *(subject for actor in subjects.ACTORS for subject in of_worker(actor)),
    }
)

HEARD = {
    "agent-default": {
        *("_INBOX.agent-default.>", "ctx.v1.ready.default.*", "ctx.v1.hook.default.*.*"),
        *(f"ctx.v1.ready.default.{TICKET}", f"ctx.v1.hook.default.{TICKET}.*"),
    },
    "agent-acme": {"_INBOX.agent-acme.>", "ctx.v1.ready.acme.*", "ctx.v1.hook.acme.*.*"},
    # nobody else is in its account, so its inboxes are all that there are
    TICKET: {
        "_INBOX.>",
        "_INBOX.*",
        *(f"_INBOX.{user}.>" for user in (*WORKERS, "auditor", "operator", "agent-default", "agent-acme")),
        f"ctx.v1.ready.default.{TICKET}",
        f"ctx.v1.hook.default.{TICKET}.*",
    },
    **{worker: {f"_INBOX.{worker}.>"} for worker in WORKERS},
    "cut": {
        *("_INBOX.cut.>", "ctx.v1.ask.context.default.*"),
        *map(subjects.ask_filter, subjects.VERBS),
    },
    "auditor": {"_INBOX.auditor.>"},
}
HEARABLE = sorted(
    {
        *(filter_ for some in HEARD.values() for filter_ in some),
        *(">", "_INBOX.operator.>", "$JS.EVENT.ADVISORY.>", "$JS.ACK.>", "$JS.API.>", "$SYS.>", "_R_.>", "ctx.v1.>"),
        *("ctx.v1.log.*.*.*", "ctx.v1.log.default.*.said", "ctx.v1.log.acme.*.said", "ctx.v1.wake.*.*.*"),
        *("ctx.v1.ready.*.*", "ctx.v1.ready.>", "ctx.v1.hook.>", "ctx.v1.snap.*.*", "ctx.v1.key.*.*", "ctx.v1.ask.>"),
        *("ctx.v1.ask.*.default.*", "ctx.v1.ask.context.default.*", *map(subjects.ask_filter, subjects.VERBS)),
    }
)


class Plain:
    """A connection without any care of ours, and what the server said against it."""

    def __init__(self, connection: NatsConnection, said: list[str]) -> None:
        self.nats = connection
        self.said = said

    def denied(self, what: str) -> set[str]:
        """Return the subjects of all violations, in lower case as nats-py tells them."""
        found = (re.search(rf'permissions violation for {what} to "([^"]+)"', one) for one in self.said)
        return {match[1] for match in found if match}


@asynccontextmanager
async def plainly(server: RightsServer, user: str) -> AsyncIterator[Plain]:
    said: list[str] = []

    async def hear(error: Exception) -> None:
        said.append(str(error))

    options = server.login(user).options(server.url)
    connection = await nats.connect(server.url, error_cb=hear, **options)
    try:
        yield Plain(connection, said)
    finally:
        await connection.close()


def test_each_actor_has_a_user() -> None:
    users = re.findall(r"^ +user: (\S+)$", (CONFIGURATIONS / "rights.conf").read_text(), re.MULTILINE)
    assert set(subjects.ACTORS) - set(users) == set()


def test_every_verb_is_given_to_agents_or_not() -> None:
    assert {*AGENTS_VERBS, *OPERATORS_VERBS} == {*subjects.VERBS}


@pytest.mark.parametrize("user", USERS)
async def test_a_user_may_publish_this_and_nothing_else(
    server: RightsServer, operator: NatsConnection, user: str
) -> None:
    async with plainly(server, user) as me:
        # the operator's orders are real ones: a word that no order is changes nothing
        for subject in EVERYTHING:
            await me.nats.publish(subject, b"?")
        await me.nats.flush()
        await soon()
        denied = me.denied("publish")
    assert {subject for subject in EVERYTHING if subject.lower() not in denied} == publishable(user)
    await provision(operator)


@pytest.mark.parametrize("user", [user for user in USERS if user != "operator"])
async def test_a_user_may_hear_this_and_nothing_else(server: RightsServer, operator: NatsConnection, user: str) -> None:
    async with plainly(server, user) as me:
        for subject in HEARABLE:
            await me.nats.subscribe(subject)
        await me.nats.flush()
        await soon()
        denied = me.denied("subscription")
    assert {subject for subject in HEARABLE if subject.lower() not in denied} == HEARD[user]


async def test_an_answer_goes_to_no_subject_of_a_stranger(server: RightsServer, operator: NatsConnection) -> None:
    """Whoever asks names where the answer goes; across accounts it comes back to who asked, and to nobody else."""
    jetstream = operator.jetstream()
    before = {info.config.name: info.state.messages for info in await jetstream.streams_info()}
    victim, forged = address("victim"), b"a forged commit"
    targets = [
        *(subjects.said(victim), subjects.done(victim), subjects.wake("cut", victim), subjects.snapshot(victim)),
        *(subjects.key(victim), subjects.dead_letter("cut", victim), subjects.ready(victim)),
        *(f"{API}.STREAM.DELETE.CTX_DLQ", f"{API}.STREAM.PURGE.CTX_LOG", "_INBOX.agent-default.x", "_INBOX.cut.x"),
    ]
    heard: list[Msg] = []

    async def hear(message: Msg) -> None:
        heard.append(message)

    await operator.subscribe("ctx.v1.ready.default.*", cb=hear)
    await operator.subscribe("_INBOX.cut.*", cb=hear)
    async with plainly(server, "thief-acme") as thief, plainly(server, "agent-default") as agent:
        await agent.nats.subscribe("_INBOX.agent-default.>", cb=hear)
        await agent.nats.flush()
        for conversation, body in (("forged", forged), ("empty", b"")):
            at = address(conversation, "acme")
            await thief.nats.request(subjects.key(at), body, timeout=180)
            for target in targets:
                read = f"{API}.DIRECT.GET.CTX_KEYS.{subjects.key(at)}"
                for asked in (read, subjects.said(at), subjects.key(at), subjects.ask("context", at)):
                    await thief.nats.publish(asked, b"", reply=target, headers={"Nats-Trace-Dest": target})
        await thief.nats.flush()
        await soon(1)
    assert heard == []
    after = {info.config.name: info.state.messages for info in await jetstream.streams_info()}
    assert after.keys() == before.keys()
    for at in (victim,):
        with pytest.raises(nats.js.errors.NotFoundError):
            await jetstream.get_last_msg(subjects.LOG_STREAM, subjects.both(at))
        with pytest.raises(nats.js.errors.NotFoundError):
            await jetstream.get_last_msg(subjects.KEY_STREAM, subjects.key(at))


async def test_in_the_account_of_the_log_an_answer_would_be_an_order(
    server: RightsServer, operator: NatsConnection
) -> None:
    """The reason for the accounts: the day this fails, NATS asks for the right to publish to a reply's subject."""
    jetstream = operator.jetstream()
    await jetstream.publish(subjects.key(address("order")), b"")
    read = f"{API}.DIRECT.GET.CTX_KEYS.{subjects.key(address('order'))}"
    async with plainly(server, "operator") as me:
        await me.nats.publish(read, b"", reply=f"{API}.STREAM.DELETE.CTX_DLQ")
        await me.nats.flush()
        await soon()
    assert subjects.DEAD_LETTER_STREAM not in {info.config.name for info in await jetstream.streams_info()}
    await provision(operator)


async def test_whoever_may_hear_all_of_an_account_hears_nothing_of_another(
    server: RightsServer, operator: NatsConnection
) -> None:
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    async with plainly(server, "thief-acme") as thief, plainly(server, "agent-default") as agent:
        await thief.nats.subscribe(">", cb=hear)
        await thief.nats.flush()
        await agent.nats.request(subjects.said(OURS), b"x", timeout=180)
        await agent.nats.request(subjects.key(address("h")), b"x", timeout=180)
        await operator.publish(subjects.ready(OURS), b"x")
        await operator.publish(subjects.hook(OURS, "h"), b"x")
        await operator.publish(subjects.ready(THEIRS), b"x")
        await operator.flush()
        await soon()
    assert [subject for subject in heard if not subject.startswith("_INBOX")] == [subjects.ready(THEIRS)]


async def test_a_message_id_is_taken_in_the_whole_log_so_nobody_may_guess_one(
    server: RightsServer, operator: NatsConnection
) -> None:
    """What a squatter could do with an id that it knew; the client's ids hold a secret of its process."""
    async with plainly(server, "agent-acme") as thief, plainly(server, "agent-default") as agent:
        await thief.nats.request(subjects.said(THEIRS), b"mine", headers={"Nats-Msg-Id": "known"}, timeout=180)
        answer = await agent.nats.request(subjects.said(OURS), b"x", headers={"Nats-Msg-Id": "known"}, timeout=180)
        assert b'"duplicate":true' in answer.data.replace(b" ", b"")
    ids: list[set[str]] = []
    for user, at in (("agent-acme", address("same", "acme")), ("agent-default", address("same"))):
        async with Client.connect(server.url, user=user, password=PASSWORD) as client:
            talk = await client.open(at.conversation, tenant=at.tenant)
            await talk.append([{"role": "user", "content": "the same words"}], key="the same key")
        ids.append({(record.headers or {})["Nats-Msg-Id"] for record in await JetStreamLog(operator).read(at, after=0)})
    assert all(len(one) == 2 and all(re.fullmatch("[0-9a-f]{32}", name) for name in one) for one in ids)
    assert not ids[0] & ids[1]


async def test_inboxes_of_somebody_else_are_told_with_the_setting_that_mends_it(
    server: RightsServer, operator: NatsConnection
) -> None:
    login = replace(server.login("agent-default"), inbox_prefix="_INBOX.elsewhere")
    async with Client.connect(server.url, **vars(login)) as client:
        with pytest.raises(
            NotPermitted, match=r"user agent-default may not subscribe to _inbox\.elsewhere.*INBOX_PREFIX"
        ):
            await client.open("c")
