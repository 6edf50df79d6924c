"""Wrap: start an agent's client so that it asks the gateway, for this process only; its own settings stay."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from protocol.errors import Rejected

CLIENTS = ("claude", "codex", "opencode", "aider", "pi")

STOP_SECONDS = 5.0


@contextmanager
def command(client: str, url: str, arguments: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield how to run *client* before the gateway at *url*, and what its environment has beside ours.

    Raises `Rejected` for a client that is not installed.
    """
    assert client in CLIENTS, client
    found = shutil.which(client)
    if found is None:
        raise Rejected(f"{client} is not installed, or not on the PATH")
    openai, anthropic = f"{url}v1", url.rstrip("/")
    match client:
        case "claude":
            # its hints tell a summary or a title from a turn
            yield [found, *arguments], {"ANTHROPIC_BASE_URL": anthropic, "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}
        case "codex":
            yield [found, "-c", f'openai_base_url="{openai}"', *arguments], {}
        case "opencode":
            providers = {name: {"options": {"baseURL": openai}} for name in ("openai", "anthropic")}
            own = json.loads(os.environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
            own["provider"] = {**own.get("provider", {}), **providers}
            yield [found, *arguments], {"OPENCODE_CONFIG_CONTENT": json.dumps(own)}
        case "aider":
            urls = {"OPENAI_API_BASE": openai, "OPENAI_BASE_URL": openai}
            yield [found, *arguments], {**urls, "ANTHROPIC_API_BASE": anthropic, "ANTHROPIC_BASE_URL": anthropic}
        case _:
            with tempfile.TemporaryDirectory(prefix="jettison-pi-") as folder:
                _pi_settings(Path(folder), openai=openai, anthropic=anthropic)
                yield [found, *arguments], {"PI_CODING_AGENT_DIR": folder}


def _pi_settings(folder: Path, *, openai: str, anthropic: str) -> None:
    """Fill *folder* with what is in pi's own, and a list of models whose providers are the gateway."""
    own = Path(os.environ.get("PI_CODING_AGENT_DIR") or Path.home() / ".pi" / "agent")
    models: dict[str, object] = {}
    for entry in own.iterdir() if own.is_dir() else ():
        if entry.name == "models.json":
            models = json.loads(entry.read_text(encoding="utf-8"))
        else:
            (folder / entry.name).symlink_to(entry)
    given = models.get("providers")
    providers = dict(given) if isinstance(given, Mapping) else {}
    for name, url in (("openai", openai), ("anthropic", anthropic)):
        providers[name] = {**providers.get(name, {}), "baseUrl": url}
    (folder / "models.json").write_text(json.dumps({**models, "providers": providers}), encoding="utf-8")


async def ran(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a client at this terminal to its end; return its exit code. It ends with us."""
    process = await asyncio.create_subprocess_exec(*argv, env={**os.environ, **environment})
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
