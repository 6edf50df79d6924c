"""The commands that prove, against real servers with all actors at work, and what is done to these servers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from actors.audit.verify import mentioned
from actors.core.flow import next_actor
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import Address
from storage.queue_pause import paused
from storage.streams import drift, provision
from tests.conftest import SAMPLE, at_work, layer, settled
from tests.stack import jettison_command

ROOT = Path(__file__).parents[2]


class Cli:
    """The command line in processes of its own, on the servers of the session."""

    def __init__(self, data: str) -> None:
        self._data = data

    async def __call__(self, *arguments: str, code: int | None) -> str:
        """Run a command that has to end with *code*, none: with any; return what it wrote to stdout."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("JETTISON_", "OTEL_"))}
        command = [*jettison_command(), *arguments, "--data", self._data]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180
        )
        assert code in (None, done.returncode), (arguments, done.returncode, done.stdout[-500:], done.stderr[-500:])
        assert "Traceback" not in done.stderr
        return done.stdout


@pytest.fixture
def cli(settings: Settings) -> Cli:
    return Cli(settings.data)


async def played(client: Client, running: Runtime, name: str) -> Address:
    """Return a conversation in which every kind of step was made."""
    talk = await client.open(name, policy=layer(window=6000))
    for first in range(0, 60, 6):
        await talk.append(SAMPLE[first : first + 6])
        await talk.context(budget=5000, patience=180, unfinished=True)
    await settled(running, talk.at)
    return talk.at


async def test_an_imported_conversation_goes_on_in_processes_that_never_saw_it(
    settings: Settings, client: Client, cli: Cli, name: str, tmp_path: Path
) -> None:
    # the first of this module, before anybody else is at work
    file = str(tmp_path / "one.tar")
    async with at_work(settings) as busy:
        at = await played(client, busy, name)
        await busy.conversations.renew(at)  # a snapshot of the log that is lost
        await cli("export", str(at), "--out", file, code=0)
        await busy.connection.jetstream().purge_stream(subjects.LOG_STREAM, subject=subjects.both(at))
    async with at_work(settings) as busy:
        await cli("import", file, code=0)
        talk = await client.open(name, policy=layer(window=6000))
        await talk.append(SAMPLE[60:66])
        assert (await talk.context(budget=5000, patience=180, unfinished=True)).tokens <= 5000
        await settled(busy, at)
    for command in (("verify", str(at)), ("replay", str(at), "--verify"), ("export", str(at), "--out", file)):
        await cli(*command, code=0)
    await cli("verify", file, code=0)


async def test_what_is_done_to_the_servers_is_found_and_what_is_lost_comes_back(
    working: Runtime, client: Client, settings: Settings, cli: Cli, name: str, tmp_path: Path
) -> None:
    at = await played(client, working, name)
    conv, file = str(at), str(tmp_path / "one.tar")
    # of all tenants: other tests of the session damage theirs on purpose, and their anchors say so
    anchored = [json.loads(line) for line in (await cli("anchor", "--json", code=None)).splitlines()]
    assert {row["tenant"] for row in anchored} >= {at.tenant}
    fine = json.loads(await cli("verify", conv, "--json", code=0))
    assert (fine["ok"], fine["anchors"], fine["unanchored_commits"], fine["unanchored_messages"]) == (True, 1, 0, 0)
    await cli("export", conv, "--out", file, code=0)
    offline = json.loads(await cli("verify", file, "--json", code=0))
    assert offline == fine
    assert await cli("replay", conv, "--verify", "--json", code=0) == await cli("replay", file, "--json", code=0)

    await _store_other_bytes(working, settings, at)
    damaged = json.loads(await cli("verify", conv, "--json", code=3))
    assert damaged["first"]["what"] == "artifact"
    assert "other bytes" in damaged["first"]["reason"]

    jetstream = working.connection.jetstream()
    await jetstream.purge_stream(subjects.LOG_STREAM, subject=subjects.done(at))
    assert json.loads(await cli("verify", conv, "--json", code=3))["first"]["what"] == "truncated"
    await jetstream.purge_stream(subjects.LOG_STREAM, subject=subjects.both(at))
    rows = [json.loads(line) for line in (await cli("verify", "--all", "--json", code=3)).splitlines()]
    assert [row["first"]["what"] for row in rows if row["address"] == conv] == ["gone"]

    await cli("import", file, "--as", "another", code=1)
    first, second = [json.loads(await cli("import", file, "--json", code=0)) for _ in range(2)]
    assert (first["records"], second["records"], second["present"]) == (
        fine["commits"] + fine["said"],
        0,
        first["records"],
    )
    again = json.loads(await cli("verify", conv, "--json", code=0))
    assert (again["head"], again["anchors"], again["unanchored_commits"]) == (fine["head"], 1, 0)
    await cli("replay", conv, "--verify", code=0)


async def test_all_conversations_of_the_log_or_of_a_tenant_are_replayed_by_several_processes(
    working: Runtime, client: Client, cli: Cli, name: str
) -> None:
    tenant = f"t{name[-8:]}"
    for number in range(3):
        talk = await client.open(f"{name}-{number}", tenant=tenant, policy=layer(window=3000))
        await talk.append(SAMPLE[:31])
        await talk.context(patience=180)
        await settled(working, talk.at)
    ours = {f"{tenant}/{name}-{number}" for number in range(3)}
    rows = await cli("replay", f"{tenant}/", "--verify", "--json", "--jobs", "2", code=0)
    found = {row["address"]: row for row in map(json.loads, rows.splitlines())}
    assert set(found) == ours
    alone = json.loads(await cli("replay", min(ours), "--json", code=0))
    assert found[min(ours)] == alone
    assert alone["views"] == 1
    everyone = await cli("replay", "--all", "--json", "--jobs", "2", code=None)
    told = {row.get("address", row.get("source")) for row in map(json.loads, everyone.splitlines())}
    assert told >= ours


async def _store_other_bytes(running: Runtime, settings: Settings, at: Address) -> None:
    """Change one artifact of the conversation behind everybody's back."""
    sha256 = sorted(mentioned(at, await running.log.read(at, after=0)))[0]
    s3 = boto3.client(
        "s3",
        endpoint_url=settings.s3.endpoint,
        aws_access_key_id=settings.s3.access_key,
        aws_secret_access_key=settings.s3.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    try:
        key = f"{at.tenant}/{sha256}"
        await asyncio.to_thread(s3.put_object, Bucket=settings.s3.bucket, Key=key, Body=b"something else")
    finally:
        s3.close()


async def test_nobody_works_while_the_queue_is_paused(working: Runtime, client: Client, name: str) -> None:
    async with paused(working.connection):
        talk = await client.open(name, policy=layer())
        await talk.append([{"role": "user", "content": "hello"}])
        await asyncio.sleep(0.5)  # nobody comes: a worker that may takes it in a tenth of that
        assert next_actor(await working.conversations.load(talk.at)) == "spill"
    await settled(working, talk.at)
    # what a pause leaves on the server is no drift, and nothing that provisioning stumbles over
    assert await drift(working.connection) == []
    await provision(working.connection)
