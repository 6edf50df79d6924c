"""pi itself, at the version of `make clients`, before the gateway: a task whose results fit no window of its model.

Where node and npm are, `make test` has installed it (`.venv/.pi`). `tests/gateway/test_recorded.py` needs neither.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import fresh_id
from tests.gateway.model import size_of
from tests.gateway.provider import in_front_of, provider
from tests.programs.clients.__main__ import WINDOW, in_words, judged
from tests.programs.clients.agents import AGENTS, Server
from tests.programs.clients.install import is_installed
from tests.programs.clients.logs import logs_at
from tests.programs.clients.runs import ran
from tests.programs.clients.script import Upstream
from tests.programs.clients.transcripts import pi_sessions
from tests.stack import ROOT, missing

pytestmark = pytest.mark.slow

LOOKS = 14
"""Two of 100 KB among them, of which pi sends half; and the model reads back before the last."""

SECONDS = 120.0
APIS = ("pi", "pi-messages", "pi-responses")


@pytest.fixture(autouse=True)
def _there(installs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JETTISON_CLIENTS", os.environ.get("JETTISON_CLIENTS") or str(ROOT / ".venv" / "clients"))
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not there: pi itself is not tested")
    if not is_installed("pi"):
        missing("pi: `make .venv/.pi`")


async def test_pi_finishes_a_task_that_its_window_has_no_room_for(
    working: Runtime, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="jettison.gateway.requests")
    upstream, before = Upstream(window=WINDOW), set(await working.log.addresses())
    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    async with provider(upstream) as there, in_front_of(there, settings, **section) as url, asyncio.timeout(SECONDS):
        runs = {f"{name}-{fresh_id()[:6]}": AGENTS[name] for name in APIS}
        found = await asyncio.gather(
            *(
                ran(agent, Server(url=url, run=run, key=f"sk-{run}"), upstream=upstream, folder=tmp_path, turns=LOOKS)
                for run, agent in runs.items()
            )
        )
    logs, mixed = await logs_at(set(await working.log.addresses()) - before, working)
    for done in found:
        assert judged(done, logs, mixed) == [], in_words(done)
        (session,) = pi_sessions(done.home)
        assert size_of({"said": [text for _, _, text in session]}) > WINDOW
        # its model read back by a tool that pi does not have
        assert b"--- message 1 (user) ---" in b"".join(done.run.bodies)
    assert upstream.unknown == []
    assert [line for line in caplog.messages if " bypass " in line] == []
