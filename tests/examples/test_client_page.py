"""The examples of `infra/docs/client.md` run as they stand, one after the other."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import protocol
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import sync, tools

PAGE = Path(__file__).parents[2] / "infra" / "docs" / "client.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


async def test_every_example_of_the_page_runs(
    working: Runtime, settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jettison_client", protocol)
    monkeypatch.setitem(sys.modules, "jettison_client.sync", sync)
    monkeypatch.setitem(sys.modules, "jettison_client.tools", tools)
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        text = example.replace("nats://127.0.0.1:4222", settings.nats.url).replace("ticket-", f"{name}-")
        code = compile(text, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            await types.FunctionType(code, names)()
        else:  # it waits, and this loop serves it
            await asyncio.to_thread(exec, code, names)
    told = capsys.readouterr().out
    assert "budget is a number of tokens such as 16000, and cannot be '16k'" in told
    assert "verbatim retained" in told
    assert "--- message 2 (user) ---\nWhy do they fail?" in told
    assert "\n2:Why do they fail?" in told
    assert "('spill.per_tool.grep*.tokens',)" in told
