"""A store that takes connections and says nothing: each who needs it is told so in seconds, or goes on without it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cli.session import located
from actors.host.settings import LOG_LEVEL, Settings
from protocol.client import Client
from protocol.errors import ArtifactsUnavailable
from tests.builders import assistant, result, user
from tests.conftest import layer
from tests.host.test_signals import servers, up
from tests.stack import ROOT, jettison_command

PATIENCE_SECONDS = 3600.0
"""Longer than a test may take: who waits for as long as that fails it."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc"),
]


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a stack whose S3 was stopped in its tracks; yield its folder."""
    folder = tmp_path_factory.mktemp("hanging")
    with up(folder) as process:
        (weed,) = [pid for name, pid in servers(process).items() if "weed" in name]
        os.kill(weed, signal.SIGSTOP)
        try:
            yield folder
        finally:
            os.kill(weed, signal.SIGCONT)


def url_of(data: Path) -> str:
    return located(Settings(data=str(data))).nats.url


def test_doctor_says_that_it_is_the_store(hanging: Path) -> None:
    doctor = [*jettison_command(), "doctor", "--data", str(hanging)]
    done = subprocess.run(doctor, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 4
    assert "BAD  s3: " in done.stdout
    assert "does not answer" in done.stdout


def test_who_reads_all_of_it_says_in_seconds_that_it_is_the_store(hanging: Path) -> None:
    at, data = "default/nobody", ("--data", str(hanging))
    commands = [["verify", at], ["verify", "--all"], ["export", at, "--out", str(hanging / "out")], ["repair", at]]
    asked = [
        subprocess.Popen([*jettison_command(), *one, *data], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for one in commands
    ]
    told = [(one.communicate(timeout=180)[1], one.returncode) for one in asked]
    for text, code in told:
        assert code == 4, text
        assert "no answer in time" in text, "before a read's own time was over, which says another word"


async def test_a_second_signal_ends_who_waits_for_it(hanging: Path, tmp_path: Path) -> None:
    async with Client.connect(url_of(hanging)) as client:
        # without a conversation there is nothing to write to the store
        await (await client.open("anchored", policy=layer())).append([user("look")])
    command = [*jettison_command(), "anchor", "--every", "1", "--data", str(hanging)]
    heard = tmp_path / "heard"
    with heard.open("wb") as errors:
        verbose = os.environ | {LOG_LEVEL: "DEBUG"}
        process = subprocess.Popen(command, cwd=ROOT, stderr=errors, stdout=subprocess.DEVNULL, env=verbose)
    await said_in(heard, "Sending http request", process)
    process.send_signal(signal.SIGINT)
    await said_in(heard, "once more stops at once", process)
    process.send_signal(signal.SIGINT)
    # in its last moments the signal itself ends it, which a shell calls 130 too; within Python's own end it is 1
    assert await asyncio.to_thread(process.wait, 100) in (1, 130, -signal.SIGINT)
    assert "Read timeout" not in heard.read_text(), "it waited for the store's answer"


async def said_in(heard: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until *process* says *words*."""
    ends = time.monotonic() + 180
    while words not in heard.read_text():
        assert process.poll() is None, heard.read_text()[-2000:]
        assert time.monotonic() < ends, heard.read_text()[-2000:]
        await asyncio.sleep(0.02)


async def test_a_result_is_shortened_in_place_without_patience(hanging: Path) -> None:
    async with Client.connect(url_of(hanging)) as client:
        talk = await client.open("spilled", policy=layer())
        await talk.append([user("look"), assistant(None, "a"), result("a", "a line of it\n" * 4000)])
        context = await talk.context(patience=180)
        assert "the store was not reachable" in context.messages[-1]["content"]


async def test_a_large_part_goes_into_the_log_where_it_fits(hanging: Path) -> None:
    text = "x marks the spot\n" * 12_000
    async with Client.connect(url_of(hanging)) as client:
        talk = await client.open("appended", policy=layer())
        client.patience_seconds = PATIENCE_SECONDS
        await talk.append([user("look"), assistant(None, "a"), result("a", text)])
        assert await talk.read_artifact("messages:3", lines="12000") == "x marks the spot"
        assert (await talk.context(patience=180)).messages[0] == user("look")
        # the same once more is the same message, whatever the store does by then
        before = talk._voice.seq
        await talk.append([assistant("seen"), user(text)])
        assert talk._voice.seq > before


async def test_what_fits_nowhere_is_refused_without_patience_and_names_the_store(hanging: Path) -> None:
    async with Client.connect(url_of(hanging)) as client:
        talk = await client.open("refused", policy=layer())
        client.patience_seconds = PATIENCE_SECONDS
        with pytest.raises(ArtifactsUnavailable, match="S3"):
            await talk.append([user("y" * 3_000_000)])
        with pytest.raises(ArtifactsUnavailable, match="S3"):
            await talk.append([user("y" * 3_000_000)])
        assert (await talk.append([user("small")])) > 0
