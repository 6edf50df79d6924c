"""An auditor rebuilds contexts from log and keys alone: no S3, no LLM, and a NATS user that can only read."""

import logging
import secrets
from pathlib import Path

import msgspec
import pytest

from actors.audit.evidence import all_verified
from actors.audit.replay import replay
from actors.cli.compact import CompactJob, play, policy_layer, stack_for
from actors.cli.session import prepared
from actors.cli.transcripts import transcripts
from actors.cli.verify import say_what_was_not_compared, sources_of
from actors.host.bootstrap import runtime
from actors.host.settings import KeysSection, Settings
from protocol.client import Client
from protocol.errors import KeysUnavailable, NotPermitted
from storage.jetstream import JetStreamLog
from storage.s3 import S3Settings
from tests.infra.rights_server import PASSWORD, rights_server

SAMPLE = Path(__file__).parents[1] / "data" / "sample.json"


def moved_to_the_account_of_the_log(data: Path, folder: Path) -> Path:
    """Return a folder for a server with rights, with the streams of one without, as `operations.md` says."""
    streams = folder / "store" / "jetstream" / "CTX"
    streams.parent.mkdir(parents=True)
    (data / "nats" / "jetstream" / "$G").rename(streams)
    return folder


async def test_an_auditor_is_told_once_that_no_snapshot_is_compared(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    store = msgspec.structs.replace(settings.s3, bucket=f"auditor-{secrets.token_hex(4)}")
    with rights_server(tmp_path) as server:
        operator = server.settings(Settings(s3=store), "operator")
        async with runtime(operator, role="provision") as making:
            await prepared(making, replicas=1)
        async with Client.connect(server.url, user="agent-acme", password=PASSWORD) as client:
            for number in range(6):
                await client.open(f"talk-{number}", tenant="acme")
        caplog.clear()
        async with runtime(server.settings(Settings(s3=store), "auditor"), role="auditor") as reading:
            sources = sources_of(reading)
            verdicts = [verdict async for verdict in all_verified(sources)]
    assert [verdict.ok for verdict in verdicts] == [True] * 6
    assert [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("jettison")
    ] == []
    capsys.readouterr()
    say_what_was_not_compared(sources)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("no snapshot was compared with its log: Permissions Violation: user auditor")


async def test_a_reader_without_any_other_right_rebuilds_every_view(tmp_path: Path) -> None:
    job = CompactJob(file=SAMPLE, budget=8_000, by_turn=True)
    async with (
        stack_for(Settings(data=str(tmp_path)), workers=0) as (running, url),
        Client.connect(url, keys=running.tenants) as client,
    ):
        played = await play(client, transcripts(SAMPLE)[0], policy_layer(job), job, lambda *_: None)
    with rights_server(moved_to_the_account_of_the_log(tmp_path, tmp_path / "rights")) as server:
        without = server.settings(Settings(s3=S3Settings(endpoint="http://127.0.0.1:9")), "auditor")
        async with runtime(without, role="auditor") as reading:
            with pytest.raises(KeysUnavailable, match="JETTISON_KEYS__FOLDER"):
                await reading.log.read(played.address, after=0)
        settings = msgspec.structs.replace(without, keys=KeysSection(folder=str(tmp_path / "keys")))
        async with runtime(settings, role="auditor") as reading:
            assert await reading.log.addresses() == [played.address]
            found = replay(played.address, await reading.log.read(played.address, after=0))
            assert found.divergence is None
            assert found.view_hash == played.context.hash
            assert found.views > 20
            # writing is not among the rights
            with pytest.raises(NotPermitted, match="user auditor may not publish"):
                await JetStreamLog(reading.connection).say(played.address, b"forged", message_id="forged", headers={})
