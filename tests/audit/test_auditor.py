"""An auditor rebuilds contexts from log and keys alone: no S3, no LLM, and a NATS user that can only read."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from actors.audit.replay import replay
from actors.cli.compact import CompactJob, play, policy_layer, stack_for
from actors.cli.transcripts import transcripts
from actors.host.bootstrap import runtime
from actors.host.settings import KeysSection, NatsSection, S3Section, Settings
from protocol.client import Client
from protocol.errors import KeysUnavailable, LogUnavailable
from storage.jetstream import JetStreamLog
from tests.stack import free_port, listened_on

SAMPLE = Path(__file__).parents[1] / "data" / "sample.json"
CONFIGURATION = Path(__file__).parents[2] / "infra" / "nats" / "auditor.conf"


@contextmanager
def read_only_server(data: Path) -> Iterator[str]:
    """Run nats-server on the store of a stack that has ended, for the auditor alone; yield its URL."""
    port = free_port()
    found = re.search(r"store_dir: (\S+)", (data / "nats.conf").read_text())
    assert found is not None
    conf = data / "auditor.conf"
    conf.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: {found[1]} }}\ninclude "rights.conf"\n')
    shutil.copy(CONFIGURATION, data / "rights.conf")
    binary = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    assert binary is not None
    server = subprocess.Popen(
        [binary, "-c", str(conf)], env={**os.environ, "AUDITOR_PASSWORD": "look"}, stderr=subprocess.DEVNULL
    )
    try:
        listened_on(port)
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=30)


async def test_a_reader_without_any_other_right_rebuilds_every_view(tmp_path: Path) -> None:
    job = CompactJob(file=SAMPLE, budget=8_000, by_turn=True)
    async with (
        stack_for(Settings(data=str(tmp_path)), workers=0) as (running, url),
        Client.connect(url, keys=running.tenants) as client,
    ):
        played = await play(client, transcripts(SAMPLE)[0], policy_layer(job), job, lambda *_: None)
    with read_only_server(tmp_path) as url:
        without = Settings(
            nats=NatsSection(url=url, user="auditor", password="look"), s3=S3Section(endpoint="http://127.0.0.1:9")
        )
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
            # writing is not among the rights; the server's refusal looks like silence to nats-py
            hasty = JetStreamLog(reading.connection, patience_seconds=1)
            with pytest.raises(LogUnavailable):
                await hasty.say(played.address, b"forged", message_id="forged", headers={})
