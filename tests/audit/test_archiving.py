"""Archived conversations: nothing is lost wherever an archiver is killed, and all goes on as if the log were whole."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from actors.audit.archiving import Archiving
from actors.audit.evidence import verified
from actors.audit.forking import forked
from actors.audit.importing import origin_headers
from actors.audit.retaining import FINISH_MS, wished
from actors.cli import retain
from actors.cli.verify import sources_of
from actors.core.listed import ERASED, About
from actors.core.state import State
from actors.core.state_parts import Position
from actors.host.bootstrap import Runtime, runtime
from actors.spill.policy_layers import Layers, TenantLayer
from protocol import codec
from protocol.client import Client, Conversation
from protocol.errors import ArchiveDamaged, BadPolicy, LogUnavailable, NotReady, Rejected
from protocol.facts import ConversationArchived
from protocol.history import Certificate
from protocol.ids import Address, address, fresh_id, token
from protocol.retention import Retention, seconds_in
from storage import object_copies
from storage.archives import PREFIX, Archive
from storage.ports import Record
from tests.audit.test_erasing import of_stack
from tests.audit.test_undo_commands import told
from tests.builders import assistant, result, user
from tests.cli.test_cli import jettison
from tests.conftest import settled
from tests.metrics_page import recording

DAY_MS = 86_400_000

UNAVAILABLE = 4
"""Exit code of a command on a machine that is too busy to answer in time; the next run goes on."""


@pytest.mark.parametrize(
    ("about", "days", "wish"),
    [
        (About(), 1, None),
        (About(), 31, "archive"),
        (About(fault="damaged"), 31, None),
        (About(), 91, "erase"),
        (About(fault="damaged"), 91, "erase"),
        (About(fault=ERASED), 91, None),
        (About(idle_ms=100 * DAY_MS - 40 * DAY_MS), 9, None),
        (About(idle_ms=100 * DAY_MS - 40 * DAY_MS), FINISH_MS // DAY_MS - 1, "finish"),
        (About(idle_ms=100 * DAY_MS - 40 * DAY_MS), 31, "finish"),
        (About(idle_ms=100 * DAY_MS - 40 * DAY_MS), 30 + FINISH_MS // DAY_MS, None),
        (About(idle_ms=100 * DAY_MS - 91 * DAY_MS), 61, "erase"),
    ],
)
def test_what_is_due_goes_by_the_last_word_or_step(about: About, days: int, wish: str | None) -> None:
    """An archived one's time goes on from before it was archived; what is not known is looked up."""
    retention = Retention(archive_after="30d", erase_after="90d")
    now_ms = 100 * DAY_MS
    assert wished(about, now_ms - days * DAY_MS, retention, now_ms=now_ms) == wish
    assert wished(about, now_ms - days * DAY_MS, Retention(), now_ms=now_ms) in (None, "finish")
    assert wished(About(), 0, Retention(archive_after="30d"), now_ms=now_ms) == "archive"


@pytest.mark.parametrize(("seq", "archived"), [(5_001, True), (20, False)])
def test_what_was_archived_elsewhere_and_imported_is_not_archived_here(seq: int, archived: bool) -> None:
    """What its commit says of places holds where it was written: here they are others, and all is in the stream."""
    said = 4_998 if archived else 17
    position = Position(
        hash=b"", said_hash=b"", said_seq=said, seq=seq, done_seq=seq, archived_seq=seq, archived_upto=5_000
    )
    assert State(position=position).archived is archived


def test_a_time_is_a_number_with_its_unit() -> None:
    assert [seconds_in(one) for one in ("", "45s", "90m", "12h", "30d")] == [0, 45, 5_400, 43_200, 2_592_000]


def test_only_an_operator_says_how_long_and_for_each_tenant() -> None:
    years = {"retention": {"archive_after": "30d"}}
    layers = Layers(service=years, tenants={token("brief"): TenantLayer(policy={"retention": {"erase_after": "1d"}})})
    assert layers.retention(token("any")) == Retention(archive_after="30d")
    assert layers.retention(token("brief")) == Retention(archive_after="30d", erase_after="1d")
    for asked in ({"erase_after": "1s"}, {"archive_after": ""}):
        with pytest.raises(BadPolicy, match="is locked by the operator"):
            layers.resolved(token("any"), model="", layer={"retention": asked})
    with pytest.raises(BadPolicy, match="retention"):
        Layers(service={"retention": {"erase_after": "soon"}}).retention(token("any"))


async def test_nothing_is_due_by_a_clock_that_is_not_that_of_nats(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.retaining().due()  # whatever others left here
    now = time.time
    for apart in (400 * 86_400.0, -3_600.0):
        wrong = SimpleNamespace(time=lambda apart=apart: now() + apart, time_ns=time.time_ns)
        monkeypatch.setattr("actors.audit.retaining.time", wrong)
        with pytest.raises(Rejected, match="s apart"):
            await running.retaining().due()


async def test_a_round_that_breaks_off_is_told_by_the_metrics(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = InMemoryMetricReader()
    wrong = SimpleNamespace(time=lambda: 0.0, time_ns=time.time_ns)
    monkeypatch.setattr("actors.audit.retaining.time", wrong)
    with recording(MeterProvider(metric_readers=[memory], shutdown_on_exit=False)):
        with pytest.raises(Rejected, match="s apart"):
            await retain.one_round(running, as_json=True)
        data = json.loads((memory.get_metrics_data() or pytest.fail("nothing was recorded")).to_json())
    (scope,) = data["resource_metrics"][0]["scope_metrics"]
    values = {one["name"]: one["data"]["data_points"][0]["value"] for one in scope["metrics"]}
    assert values.get("jettison.retention.round_failed") == 1


class Racing:
    """`Archives` of a store that is slow enough for an agent to speak."""

    def __init__(self, running: Runtime, talk: Conversation) -> None:
        self._archives = store = running.archives
        self._talk = talk
        self.put, self.names, self.addresses, self.delete = store.put, store.names, store.addresses, store.delete

    async def get(self, at: object, sha256: str) -> bytes:
        await self._talk.append([user("just now")])
        return await self._archives.get(self._talk.at, sha256)


@pytest.mark.timeout(600)
async def test_an_archived_conversation_is_read_spoken_in_forked_and_erased_as_before(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = of_stack(data)
    (data / "keys" / "kept.key").write_text(secrets.token_hex(32))
    talk_policy = {"budget": {"window": 12_000, "reserve": 0}}
    async with (
        runtime(settings, role="test") as running,
        Client.connect(settings.nats.url, keys=running.tenants) as client,
    ):
        talk = await client.open(f"idle-{fresh_id()[:8]}", tenant="kept", policy=talk_policy)
        for turn in range(4):
            large = "".join(f"line {number} of {turn}\n" for number in range(4_000))
            await talk.append([user(f"look {turn}"), assistant(None, f"c{turn}"), result(f"c{turn}", large)])
            await talk.context()
        await settled(running, talk.at)
        archiver = running.retaining().archiving

        await an_agent_that_speaks_is_never_in_the_way(running, archiver, talk)
        await imported_with_all_of_it(archiver, talk, monkeypatch)
        before = await running.log.read(talk.at, after=0)
        assert told(data, "anchor")["refused"] == {}

        await killed_before_it_left_the_stream(running, archiver, talk, monkeypatch)
        assert await in_stream(archiver, talk) == 1, "the commit that says where the rest is"
        beside = await client.open(f"beside-{fresh_id()[:8]}", tenant="kept", policy=talk_policy)
        await beside.append([user("look"), assistant(None, "b"), result("b", "a line\n" * 40_000)])
        await goes_on(data, running, talk, before)
        await is_archived_again_by_policy(data, tmp_path, running, talk)
        await damaged(data, running, talk, beside)
        await erased(data, tmp_path, running, archiver, talk)
        await erased_again(running, archiver, talk)


async def in_stream(archiver: Archiving, talk: Conversation) -> int:
    return len(await archiver.stored.read(talk.at, after=0))


def said(records: Sequence[Record]) -> list[tuple[int, str, bytes]]:
    return [(one.seq, one.side, one.body) for one in records]


async def an_agent_that_speaks_is_never_in_the_way(running: Runtime, archiver: Archiving, talk: Conversation) -> None:
    """Whoever commits first, all stays in the stream, and each word is heard once."""
    messages = (await settled(running, talk.at)).messages
    found = await replace(archiver, archives=Racing(running, talk)).archive(talk.at, idle_seconds=0.0, by="test")
    assert (found.removed, found.kept in ("", "somebody was faster")) == (0, True)
    records = await running.log.read(talk.at, after=0)
    assert await in_stream(archiver, talk) >= len(records)
    assert (await settled(running, talk.at)).messages == messages + 1
    later = await archiver.archive(talk.at, idle_seconds=3_600.0, by="test")
    assert later.kept == "in use"


async def imported_with_all_of_it(archiver: Archiving, talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an import brought says that it is archived, and its stream tells of no archive, whatever places it has."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Archive, "header", lambda _: {})
        assert (await archiver.archive(talk.at, idle_seconds=0.0, by="test")).kept == ""
    assert (await archiver.conversations.load(talk.at)).archived
    assert await archiver.finish(talk.at) is None
    assert (await archiver.archive(talk.at, idle_seconds=3_600.0, by="test")).kept == "in use", "not archived already"


async def killed_before_it_left_the_stream(
    running: Runtime, archiver: Archiving, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended when half was taken away, it leaves a log that reads as ever, without a hole; the next run ends it."""
    whole = await running.log.read(talk.at, after=0)
    request, deleted = running.connection.request, 0

    async def fails_once(subject: str, *rest: Any, **named: Any) -> Msg:
        nonlocal deleted
        deleted += "STREAM.MSG.DELETE" in subject
        if deleted == len(whole) // 2 | 1 and "STREAM.MSG.DELETE" in subject:
            raise TimeoutError
        return await request(subject, *rest, **named)

    with monkeypatch.context() as failing:
        failing.setattr(running.connection, "request", fails_once)
        with pytest.raises(LogUnavailable):
            await archiver.archive(talk.at, idle_seconds=0.0, by="test")
    left = await in_stream(archiver, talk)
    assert 1 < left <= len(whole) // 2 + 2
    assert said(await running.log.read(talk.at, after=0))[:-1] == said(whole)
    assert (await archiver.archive(talk.at, idle_seconds=0.0, by="test")).kept == "archived already"
    assert await archiver.finish(talk.at) == left - 1
    assert await archiver.finish(talk.at) == 0
    assert said(await running.log.read(talk.at, after=0))[:-1] == said(whole)


async def goes_on(data: Path, running: Runtime, talk: Conversation, before: Sequence[Record]) -> None:
    """Who reads, who audits, who remembers and who starts anew find the same conversation."""
    name = str(talk.at)
    assert told(data, "verify", name)["ok"] is True
    assert told(data, "anchor")["refused"] == {}
    assert told(data, "replay", name)["divergence"] is None
    assert any("ConversationArchived" in row["facts"] for row in told(data, "versions", name))
    row = next(
        one
        for one in map(json.loads, jettison("ls", "--data", str(data), "--json").stdout.splitlines())
        if one["address"] == name
    )
    assert row["state"] == "archived"
    assert told(data, "why", name, "2")["number"] == 2
    fork = f"{name}-fork"
    told(data, "fork", name, fork)
    assert told(data, "verify", fork)["ok"] is True
    state = await settled(running, talk.at)
    assert state.archived
    await talk.append([user("are you still there?")])
    view = await talk.context()
    assert view.messages[-1]["content"] == "are you still there?"
    async with runtime(of_stack(data), role="cold") as cold:
        again = await settled(cold, talk.at)
        assert (again.messages, again.archived) == (state.messages + 1, False)
    records = await running.log.read(talk.at, after=0)
    assert said(records)[: len(before)] == said(before)
    commits = [codec.decode_commit(one.body) for one in records if one.side == "done"]
    assert [one.version for one in commits] == list(range(1, len(commits) + 1))
    assert again.hash in {one.hash for one in commits}


async def is_archived_again_by_policy(data: Path, tmp_path: Path, running: Runtime, talk: Conversation) -> None:
    """`jettison retain` does nothing without a policy, and what it says with one; archives follow each other."""
    whole = await running.log.read(talk.at, after=0)
    done = jettison("retain", "--data", str(data))
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing was due" in done.stderr
    config = tmp_path / "retaining.toml"
    config.write_text('[tenants.kept.policy.retention]\narchive_after = "1s"\n')
    while not (await settled(running, talk.at)).archived:  # until the list has it, and its second is over
        done = jettison("retain", "--config", str(config), "--data", str(data))
        assert done.returncode in (0, UNAVAILABLE), done.stderr
        await asyncio.sleep(0.2)
    assert said(await running.log.read(talk.at, after=0))[: len(whole)] == said(whole)
    assert told(data, "verify", str(talk.at))["ok"] is True
    sizes = await object_copies.sizes(running.bucket, PREFIX)
    kept = [name for name in sizes if name.startswith(f"{PREFIX}kept/{talk.at.conversation}/")]
    assert len(kept) >= 2, "a backup has them"


async def damaged(data: Path, running: Runtime, talk: Conversation, beside: Conversation) -> None:
    """An archive with other bytes is refused and told, holds up no erasure, and put back it is as before."""
    (newest, *_) = [
        fact.sha256
        for record in reversed(await running.log.read(talk.at, after=0))
        if record.side == "done"
        for fact in codec.decode_commit(record.body).facts
        if isinstance(fact, ConversationArchived)
    ]
    key = f"{PREFIX}{talk.at.tenant}/{talk.at.conversation}/{newest}"
    body = await running.archives.get(talk.at, newest)

    async def put(raw: bytes) -> None:
        await running.bucket.call("PutObject", key, lambda s3, where: s3.put_object(Bucket=where, Key=key, Body=raw))

    await put(body[:-1] + b"?")
    with pytest.raises(ArchiveDamaged, match="has other bytes"):
        await running.log.read(talk.at, after=0)
    done = jettison("verify", str(talk.at), "--data", str(data))
    assert (done.returncode, newest[:16] in done.stdout) == (3, True)
    async with runtime(of_stack(data), role="cold") as cold:
        assert (await cold.conversations.load(talk.at)).archived, "what does not need it goes on, from a snapshot"
    await settled(running, beside.at)
    certificate = await running.erasing().erase(beside.at, by="test")
    assert len(certificate.artifacts) == 1, "another conversation's archive is damaged"
    await put(body)
    assert told(data, "verify", str(talk.at))["ok"] is True


async def erased(data: Path, tmp_path: Path, running: Runtime, archiver: Archiving, talk: Conversation) -> None:
    """`retention.erase_after` erases as `jettison erase` does, with proof, and takes the archives too."""
    names = await running.archives.names(talk.at)
    fork = await interrupted_fork(running, talk)
    config = tmp_path / "erasing.toml"
    config.write_text('[tenants.kept.policy.retention]\nerase_after = "1s"\n')
    certificates: list[dict[str, object]] = []
    # until the list has them, and their second is over
    while not {str(talk.at), str(fork)} <= {one["address"] for one in certificates}:
        done = jettison("retain", "--config", str(config), "--data", str(data))
        assert done.returncode in (0, UNAVAILABLE), done.stderr
        certificates += map(json.loads, done.stdout.splitlines())
        await asyncio.sleep(0.2)
    (certificate,) = [one for one in certificates if one["address"] == str(talk.at)]
    assert certificate["archives"] == names
    assert await running.archives.names(talk.at) == []
    verdict = told(data, "verify", str(talk.at))
    assert (verdict["ok"], verdict["erased"]) == (True, True)
    assert await in_stream(archiver, talk) == 1


async def interrupted_fork(running: Runtime, talk: Conversation) -> Address:
    """Begin a fork of *talk* as somebody does who is killed before its end."""
    to = address(f"{talk.at.conversation}-half", "kept")
    records = await running.log.read(talk.at, after=0)
    first = forked(talk.at, records, version=1, new=to, name="half")[0]
    await running.log.say(to, first.body, message_id=fresh_id(), headers=origin_headers(first))
    with pytest.raises(NotReady, match="records of a copy are to come"):
        await running.conversations.load(to)
    return to


async def erased_again(running: Runtime, archiver: Archiving, talk: Conversation) -> None:
    """Of an erased conversation, what an archiver still stored that was killed then, and what was said, is removed."""
    await running.archives.put(talk.at, b"planted by an archiver that was killed")
    await archiver.stored.say(talk.at, b"planted by an agent", message_id=fresh_id(), headers={})
    verdict = await verified(talk.at, sources_of(running))
    assert not verdict.ok
    assert {one.what for one in verdict.problems} == {"messages", "file"}
    assert all(one.reason.endswith("erase again") for one in verdict.problems)
    found = {due.at: became async for due, became in running.retaining().round(by="test")}
    certificate = found[talk.at]
    assert isinstance(certificate, Certificate)
    assert (len(certificate.archives), certificate.records) == (1, 1)
    assert await running.archives.names(talk.at) == []
    assert (await verified(talk.at, sources_of(running))).ok
    assert talk.at not in {one.at for one in await running.retaining().due()}
