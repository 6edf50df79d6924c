"""Full disks: who has no room says so, keeps what it acknowledged, and goes on with room again (promises 1b, 23b)."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.connecting import connect
from protocol.connection import publish
from protocol.errors import Busy, OutcomeUnknown
from protocol.facts import ToolOutputSpilled
from protocol.ids import Address, address, fresh_id
from storage.durability import trouble
from storage.jetstream import JetStreamLog
from tests.conftest import at_work, done_facts, layer, settled
from tests.promises.harness import Server, connected, one, only_in_chaos, said_body
from tests.protocol.test_client import said, user
from tests.runtime.test_outages import LOG, call_and_result
from tests.runtime.test_poison import letters
from tests.stack import LOOPBACK, ROOT, free_port, jettison_command

DISK_MB = 16
"""Room for the streams and some sixty snapshots; and for S3, which makes its volumes as they are written."""


@contextmanager
def small_disk(mounted: Path) -> Iterator[Path]:
    """Mount a small disk of its own at *mounted*; skip with the reason where that is not allowed."""
    mounted.mkdir(parents=True)
    options = ("-o", f"size={DISK_MB}m")
    try:
        subprocess.run(("mount", "-t", "tmpfs", *options, "tmpfs", str(mounted)), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("TESTS_POWER"):
            pytest.fail(f"a full disk needs root to mount one: {error}")
        pytest.skip(f"a full disk needs root to mount one: {error}")
    # whoever is killed closes the pipe too: no disk stays below the folders that the next run of pytest removes
    ends = ("sh", "-c", 'read -r _; umount --lazy "$0"', str(mounted))
    with subprocess.Popen(ends, stdin=subprocess.PIPE, start_new_session=True) as unmounting:
        yield mounted
    assert unmounting.returncode == 0


def filled(disk: Path) -> Path:
    """Fill *disk* to the last byte, as a neighbour's log does; return the file to remove."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


async def until_full(running: Runtime, at_most: int = 400) -> None:
    """Fill NATS' disk with snapshots of conversations of nobody, which may all be deleted."""
    size, body = 190_000, os.urandom(190_000)
    for number in range(at_most):
        subject = subjects.snapshot(address(f"old-{number}", "old"))
        headers = {"Nats-Msg-Id": fresh_id()}
        try:
            await publish(running.connection, subject, body[:size], headers=headers, deadline_seconds=10)
        except Busy:
            if size < 1_000:
                return
            size //= 4
    raise AssertionError(f"{at_most} snapshots did not fill the disk")


@pytest.mark.slow
async def test_a_log_without_room_says_busy_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "nats"):
        async with (
            started_stack(Settings(data=str(tmp_path))) as (settings, _),
            at_work(settings) as busy,
            Client.connect(settings.nats.url) as client,
        ):
            talk = await client.open("talk", policy=layer())
            await talk.append([user("before")])
            state = await settled(busy, talk.at)
            await until_full(busy)
            # told at once: whoever waited would have an hour of patience
            client.patience_seconds = 3600.0
            patient = JetStreamLog(busy.connection, patience_seconds=3600.0)
            async with asyncio.timeout(180):
                with pytest.raises(Busy, match="no room"):
                    await talk.append(call_and_result("a", LOG))
                with pytest.raises(Busy, match="no room"):
                    await patient.append(
                        talk.at, bytes(9_000), expected_seq=state.position.done_seq, commit_id=fresh_id(), headers={}
                    )
            assert await said(busy, talk.at) == [user("before")], "nothing of it was stored"
            with pytest.raises(Busy, match="no room"):
                await talk.context(patience=0.2)  # a view that was not served yet, and cannot be written down
            assert await busy.connection.jetstream().purge_stream(subjects.SNAPSHOT_STREAM, subject="ctx.v1.snap.old.*")
            await talk.append(call_and_result("a", LOG))
            assert (await settled(busy, talk.at)).messages == 4
            assert await said(busy, talk.at) == [user("before"), *call_and_result("a", LOG)]
            facts = done_facts(await busy.log.read(talk.at, after=0))
            assert [fact.number for fact in facts if isinstance(fact, ToolOutputSpilled)] == [4]
            assert await letters(busy, talk.at) == []


@only_in_chaos
@pytest.mark.slow
async def test_a_disk_that_others_fill_loses_nothing_and_a_restart_with_room_goes_on(tmp_path: Path) -> None:
    """The server stops that stream at the first failed write, until it is started again (measured on 2.15)."""
    with small_disk(tmp_path / "disk") as disk:
        async with one(tmp_path, store=disk) as server:
            connection = await connect(server.url, name="writer")
            hasty, at = JetStreamLog(connection, patience_seconds=0.5), address("full")
            bodies = [said_body(f"{count} " + "x" * 5_000, count=count) for count in range(1, 21)]
            wanted = [await hasty.say(at, body, message_id=fresh_id(), headers={}) for body in bodies[:-1]]
            ballast = filled(disk)
            late = fresh_id()
            with pytest.raises(OutcomeUnknown, match="it may still land"):
                await hasty.say(at, bodies[-1], message_id=late, headers={})
            kept = await hasty.read(at, after=0)
            assert [(record.seq, record.body) for record in kept] == list(zip(wanted, bodies[:-1], strict=True))
            ballast.unlink()
            server.kill()
            server.start()
            await (await connected(server.url)).close()
            patient = JetStreamLog(connection, patience_seconds=180.0)
            wanted.append(await patient.say(at, bodies[-1], message_id=late, headers={}))
            kept = await patient.read(at, after=0)
            assert [(record.seq, record.body) for record in kept] == list(zip(wanted, bodies, strict=True))
            await connection.close()


async def said_without_end(log: JetStreamLog, at: Address) -> None:
    for count in itertools.count(1):
        await log.say(at, said_body("x" * 100_000, count=count), message_id=fresh_id(), headers={})


async def diagnosis(server: Server, monitor: str) -> list[dict[str, object]]:
    """Return what `jettison doctor` says of the server itself; there is no store for it to look at."""
    command = (*jettison_command(), "doctor", "--json")
    process = await asyncio.create_subprocess_exec(
        *(*command, "--nats", server.url, "--monitor", monitor),
        cwd=ROOT,
        env={**os.environ, "JETTISON_S3__ENDPOINT": f"http://{LOOPBACK}:{free_port()}"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate()
    return [found for line in out.splitlines() if (found := msgspec.json.decode(line))["what"] == "server"]


async def monitored(server: Server, *, limit: str = "") -> str:
    """Start *server* anew with a monitoring port, and a limit of its storage; return the port's URL."""
    server.kill()
    port = free_port()
    config = server.config.read_text()
    config = config.replace("sync_interval", f"max_file_store: {limit}, sync_interval") if limit else config
    server.config.write_text(f'{config}http: "{LOOPBACK}:{port}"\n')
    server.start()
    await (await connected(server.url)).close()
    return f"http://{LOOPBACK}:{port}"


async def test_a_server_that_is_nearly_full_is_found_out_before_agents_are_refused(tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        monitor = await monitored(server, limit="2MB")
        async with Client.connect(server.url) as client:
            log, at = JetStreamLog(client.connection), address("large")
            with pytest.raises(Busy, match="no room"):
                await said_without_end(log, at)
        (found,) = await diagnosis(server, monitor)
        assert found["ok"] is False
        assert re.fullmatch(r"(9|10)\d% of its storage is filled", str(found["detail"]))


@pytest.mark.slow
async def test_a_server_whose_disk_was_full_is_found_out_until_it_is_started_anew(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        async with one(tmp_path, store=disk) as server:
            monitor = await monitored(server)
            assert await trouble(monitor) == ""
            ballast = filled(disk)
            async with Client.connect(server.url) as client:
                hasty, at = JetStreamLog(client.connection, patience_seconds=0.1), address("full")
                with pytest.raises(OutcomeUnknown):
                    await said_without_end(hasty, at)
            ballast.unlink()
            (found,) = await diagnosis(server, monitor)
            assert found["ok"] is False
            assert "no space left on device" in str(found["detail"])
            assert "restart that nats-server" in str(found["fix"])
            server.kill()
            server.start()
            await (await connected(server.url)).close()
            assert await trouble(monitor) == ""


@only_in_chaos
@pytest.mark.slow
async def test_a_store_without_room_holds_up_who_spills_and_no_other(tmp_path: Path) -> None:
    with small_disk(tmp_path / "s3") as disk:
        async with (
            started_stack(Settings(data=str(tmp_path))) as (settings, _),
            at_work(settings) as busy,
            Client.connect(settings.nats.url) as client,
        ):
            waits = layer(spill={"on_store_error": "wait"})
            before, talk = await client.open("before", policy=waits), await client.open("talk", policy=waits)
            await before.append(call_and_result("a", f"first\n{LOG}"))
            await settled(busy, before.at)
            ballast = filled(disk)
            await talk.append(call_and_result("a", LOG))
            for number in range(5):
                other = await client.open(f"other-{number}", policy=waits)
                await other.append([user("hello")])
                assert (await other.context(patience=180)).messages == [user("hello")]
            await asyncio.sleep(1.0)  # the fault lasts
            facts = done_facts(await busy.log.read(talk.at, after=0))
            assert [fact for fact in facts if isinstance(fact, ToolOutputSpilled)] == []
            ballast.unlink()
            assert (await settled(busy, talk.at)).messages == 3
            for at, text in ((before.at, f"first\n{LOG}"), (talk.at, LOG)):
                facts = done_facts(await busy.log.read(at, after=0))
                (spilled,) = [fact for fact in facts if isinstance(fact, ToolOutputSpilled)]
                assert (await busy.artifacts.get(at.tenant, spilled.sha256)).decode() == text
                assert await letters(busy, at) == []


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_disk_behind(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    held = (
        "from tests.promises.test_full_disk import *\nwith small_disk(Path(sys.argv[1])): print(1, flush=True); input()"
    )
    killed = subprocess.Popen(
        (sys.executable, "-c", held, str(disk)), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert killed.stdout is not None
    if not killed.stdout.readline():
        pytest.skip("a full disk needs root to mount one")
    assert disk.is_mount()
    killed.kill()
    killed.communicate()
    deadline = time.monotonic() + 30
    while disk.is_mount():
        assert time.monotonic() < deadline, "the disk is still there"
        time.sleep(0.02)
