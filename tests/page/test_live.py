"""The page over the real NATS and S3, with all actors at work, and the command that serves it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from actors.cli.page import page_of, serving_page
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.client import Client
from protocol.errors import Unavailable
from storage.memory import MemoryArtifacts, MemoryLog
from tests.conftest import SAMPLE, layer, settled
from tests.page.shown import Html, app_over, client_of
from tests.promises.harness import environment
from tests.stack import ROOT, free_port

TURNS = 40


async def test_what_real_actors_did_is_on_the_page(working: Runtime, client: Client, name: str, tmp_path: Path) -> None:
    talk = await client.open(name, model="gpt-4o", policy=layer(window=4000))
    for message in SAMPLE[:TURNS]:
        await talk.append([message])
        if message["role"] == "user":
            await talk.context()
    await talk.context(unfinished=True)
    state = await settled(working, talk.at)
    at = f"/c/{talk.at}"
    app = page_of(working, traces=tmp_path, wait_seconds=60)
    async with client_of(app) as browser:
        listed = Html((await browser.get(f"/?q={name}")).text)
        timeline = Html((await browser.get(at)).text)
        verdict = Html((await browser.get(f"{at}/verify?run=1")).text)
        artifacts = Html((await browser.get(f"{at}/artifacts")).text)
        kept = [link for link in artifacts.links() if "/artifact/" in link]
        slices = Html((await browser.get(f"{kept[0]}?lines=1-2")).text)
        why = await browser.get(f"{at}/why/3")
        await talk.append([{"role": "user", "content": "and now?"}])
        later = await settled(working, talk.at)
        after = (await browser.get(at)).text
    assert [row.split()[0] for row in listed.rows()] == [str(talk.at)]
    assert timeline.rows()[0].split()[0] == str(state.version)
    assert "fine Everything is as it was written" in verdict.text("main")
    assert len(slices.all("pre")[0].text) > 2
    assert why.status_code == 200
    assert f"<dd>{later.messages:,}</dd>" in after


async def test_the_command_serves_until_it_is_told_to_stop(settings: Settings, tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from actors.cli import main; main()",
        "serve",
        "--port",
        str(port),
        "--nats",
        settings.nats.url,
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(settings), stderr=subprocess.PIPE, text=True)
    try:
        status, text = await asyncio.to_thread(_asked, f"http://127.0.0.1:{port}/", process)
        assert (status, "<h1>Conversations</h1>" in text) == (200, True)
        process.send_signal(signal.SIGTERM)
        _, told = await asyncio.to_thread(process.communicate, None, 180)
        assert process.returncode == 0
        assert f"page     http://127.0.0.1:{port}/" in told
    finally:
        process.kill()
        process.communicate()


async def test_a_taken_port_is_one_sentence() -> None:
    app = app_over(MemoryLog(), MemoryArtifacts())
    async with serving_page(app) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        with pytest.raises(Unavailable, match=rf"^port {port} of 127\.0\.0\.1: .* in use; give another --port$"):
            async with serving_page(app, port=port):
                pass


def _asked(url: str, process: subprocess.Popen[str]) -> tuple[int, str]:
    for _ in range(300):
        assert process.poll() is None, "the command ended by itself"
        try:
            with urllib.request.urlopen(url, timeout=180) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("nobody serves")
