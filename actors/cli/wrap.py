"""Wrap: start an agent's client so that it asks the gateway, for this process only; its own settings stay."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protocol.errors import Rejected

CLIENTS = ("claude", "codex", "opencode", "aider", "pi")

STOP_SECONDS = 5.0

_PI_MODELS = "models.json"

_TEXT = r'"(?:\\.|[^"\\])*"'
_COMMENTS = re.compile(rf"{_TEXT}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])")


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
            own = _settings(os.environ.get("OPENCODE_CONFIG_CONTENT") or "{}", of="OPENCODE_CONFIG_CONTENT")
            own["provider"] = providers = _object(own.get("provider"))
            for name in ("openai", "anthropic"):
                one = _object(providers.get(name))
                providers[name] = {**one, "options": {**_object(one.get("options")), "baseURL": openai}}
            yield [found, *arguments], {"OPENCODE_CONFIG_CONTENT": json.dumps(own)}
        case "aider":
            urls = {"OPENAI_API_BASE": openai, "OPENAI_BASE_URL": openai}
            yield [found, *arguments], {**urls, "ANTHROPIC_API_BASE": anthropic, "ANTHROPIC_BASE_URL": anthropic}
        case _:
            with _pi_folder(openai=openai, anthropic=anthropic) as folder:
                yield [found, *arguments], {"PI_CODING_AGENT_DIR": str(folder)}


@contextmanager
def _pi_folder(*, openai: str, anthropic: str) -> Iterator[Path]:
    """Yield a folder with all that is in pi's own but its models; what pi writes there is in its own afterwards."""
    own = Path(os.environ.get("PI_CODING_AGENT_DIR") or Path.home() / ".pi" / "agent")
    # its sessions are there from the first one on, though pi be killed
    (own / "sessions").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jettison-pi-") as name:
        folder = Path(name)
        _pi_settings(folder, own, openai=openai, anthropic=anthropic)
        try:
            yield folder
        finally:
            for entry in folder.iterdir():
                # a file that took the place of a link too: so programs renew what others may be reading
                if entry.is_symlink() or entry.name == _PI_MODELS:
                    continue
                if entry.is_dir():
                    shutil.copytree(entry, own / entry.name, dirs_exist_ok=True)
                else:
                    shutil.move(entry, own / entry.name)


def _pi_settings(folder: Path, own: Path, *, openai: str, anthropic: str) -> None:
    """Fill *folder* with what is in pi's *own*, and a list of models whose providers are the gateway."""
    models: dict[str, object] = {}
    for entry in own.iterdir():
        if entry.name == _PI_MODELS:
            models = _settings(entry.read_text(encoding="utf-8"), of=str(entry))
        else:
            (folder / entry.name).symlink_to(entry)
    providers = _object(models.get("providers"))
    for name, url in (("openai", openai), ("anthropic", anthropic)):
        providers[name] = {**_object(providers.get(name)), "baseUrl": url}
    (folder / _PI_MODELS).write_text(json.dumps({**models, "providers": providers}), encoding="utf-8")


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _settings(text: str, *, of: str) -> dict[str, Any]:
    """Return the object that settings are, which may have comments. Raises `Rejected` for no such object."""
    plain = _COMMENTS.sub(lambda found: found[0] if found[0].startswith('"') else "", text)
    plain = _LAST_COMMAS.sub(lambda found: found[0] if found[0].startswith('"') else "", plain)
    try:
        found = json.loads(plain)
    except ValueError as error:
        raise Rejected(f"{of} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise Rejected(f"{of} cannot be read: it is no object")
    return found


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
