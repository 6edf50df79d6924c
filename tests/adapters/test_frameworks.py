"""Agents of the frameworks that most people use, with their real packages: sixty turns each, in two processes."""

import asyncio
import os
from pathlib import Path

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from tests.programs.adapters import judge

IN_CI = ("langchain", "openai_agents", "pydantic_ai")
"""The others have `make adapters`: it installs their packages."""


@pytest.mark.slow
@pytest.mark.usefixtures("installs")
@pytest.mark.timeout(300)
async def test_each_framework_says_all_once_sees_what_fits_and_goes_on_in_another_process(
    working: Runtime, settings: Settings, name: str, tmp_path: Path
) -> None:
    there = [one for one in IN_CI if judge.python_of(one).exists()]
    if len(there) < len(IN_CI) and "CI" not in os.environ:
        pytest.skip("the frameworks are not installed: make .venv-adapters/.installed")
    nats = settings.nats.url
    async with asyncio.TaskGroup() as together:
        runs = [together.create_task(judge.ran(one, nats=nats, name=f"{one}-{name}", folder=tmp_path)) for one in IN_CI]
    kept = [await judge.judged(run.result(), working) for run in runs]
    assert [len(one) for one in kept] == [8] * len(IN_CI)
