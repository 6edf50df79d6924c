"""Another language: the document is what our types say, AsyncAPI takes it, and an agent in JavaScript works."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import address
from tests.asyncapi import PAGE, document, written
from tests.builders import assistant, result, user
from tests.conftest import layer
from tests.protocol.test_client import said

pytestmark = pytest.mark.usefixtures("installs")
FOLDER = Path(__file__).parent / "javascript"


async def node(script: str, *arguments: str, given: str = "") -> str:
    """Return what *script* prints; skips where Node or its packages are not there."""
    binary = shutil.which("node")
    if binary is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("Node or the packages of the example are not there: `make javascript`")
    process = await asyncio.create_subprocess_exec(
        *(binary, str(FOLDER / script), *arguments), stdin=-1, stdout=-1, stderr=-1, cwd=FOLDER
    )
    async with asyncio.timeout(180):
        out, err = await process.communicate(given.encode())
    assert process.returncode == 0, err.decode()
    return out.decode()


def test_the_document_says_what_the_types_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "run `.venv/bin/python -m tests.asyncapi`"


def test_every_reference_leads_somewhere() -> None:
    whole = document()

    def looked(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(ref := value.get("$ref"), str):
                found: Any = whole
                for step in ref.removeprefix("#/").split("/"):
                    found = found[step]
            for one in value.values():
                looked(one)
        for one in value if isinstance(value, list) else ():
            looked(one)

    looked(whole)
    facts = whole["components"]["schemas"]
    assert facts["MessagesAppended"]["prefixItems"][0] == {"enum": ["MessagesAppended.1"]}


async def test_asyncapi_takes_the_document() -> None:
    assert json.loads(await node("valid.mjs", given=written())) == []
    assert json.loads(await node("valid.mjs", given=written().replace('"action": "send"', '"action": "shout"')))


async def test_an_agent_in_javascript_appends_and_reads_its_view(
    working: Runtime, settings: Settings, name: str
) -> None:
    log = "\n".join(f"line {number}: nothing to see" for number in range(4_000))
    wanted = [user("Grüße, was steht im Log?"), assistant(None, "a"), result("a", log)]
    found = json.loads(await node("agent.mjs", settings.nats.url, name, json.dumps(wanted), json.dumps(layer())))
    assert found["messages"][:2] == wanted[:2]
    assert "read_artifact" in found["messages"][2]["content"]
    assert len(json.dumps(found["messages"])) < len(log) / 4
    assert found["tokens"] > 0
    assert await said(working, address(name)) == wanted
