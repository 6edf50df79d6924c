"""Agents: how each client is pointed to a server, run without a terminal, and told to go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .install import cache, installed, version
from .transcripts import (
    Events,
    ai_sessions,
    claude_sessions,
    codex_sessions,
    copilot_sessions,
    opencode_sessions,
    pi_sessions,
    qwen_sessions,
)

MODEL = "gpt-4o"
CLAUDE_MODEL = "claude-sonnet-5-5"
"""One whose thoughts hold only behind what its call saw."""

CODEX_MODEL = "gpt-5.1-codex"
"""One that reasons, whose sealed thoughts are sent back."""

ANSWER_TOKENS = 2000
RUN_HEADER = "x-run"
"""Says of which run a request is, where clients can be told to send it; elsewhere their key does."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where a client is pointed to, and what it tells there."""

    url: str
    """Without a slash at its end."""
    run: str
    key: str
    window: int = 0
    """Tokens that the client is told its model has; 0: it is told nothing."""


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One client, with one API; `named` is a column of the table."""

    client: str
    api: str
    settings: Callable[[Path, Server], Mapping[str, str]]
    """Write its files below a home; return its environment."""
    first: tuple[str, ...]
    again: tuple[str, ...]
    """The command with a first prompt, which follows, and with one that goes on with the last session."""
    fork: tuple[str, ...] = ()
    compact: tuple[str, ...] = ()
    sessions: Callable[[Path], list[Events]] | None = None
    """Of its home: what its own session files say."""
    told: bool = True
    """It can be told its model's window."""
    reopens: bool = False
    """Its session begins with other words once it is resumed, which is another conversation to anybody."""


def _claude(home: Path, server: Server) -> dict[str, str]:
    window = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(server.window)} if server.window else {}
    return window | {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": server.key,
        "ANTHROPIC_CUSTOM_HEADERS": f"{RUN_HEADER}: {server.run}",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(ANSWER_TOKENS),
    }


def _codex(home: Path, server: Server) -> dict[str, str]:
    (home / "codex").mkdir(exist_ok=True)
    window = f"model_context_window = {server.window}\n" if server.window else ""
    (home / "codex" / "config.toml").write_text(
        f'model = "{CODEX_MODEL}"\nmodel_provider = "jet"\ntool_output_token_limit = 60000\n{window}'
        f'[model_providers.jet]\nname = "jet"\nbase_url = "{server.url}/v1"\nenv_key = "JET_KEY"\n'
        f'wire_api = "responses"\nhttp_headers = {{ "{RUN_HEADER}" = "{server.run}" }}\n'
    )
    return {"CODEX_HOME": str(home / "codex"), "JET_KEY": server.key}


def _pi(api: str) -> Callable[[Path, Server], dict[str, str]]:
    def settings(home: Path, server: Server) -> dict[str, str]:
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        base = server.url if api == "anthropic-messages" else f"{server.url}/v1"
        model = {"id": MODEL, "maxTokens": ANSWER_TOKENS, "reasoning": api != "openai-completions"}
        model |= {"contextWindow": server.window} if server.window else {}
        headers = {RUN_HEADER: server.run}
        one = {"baseUrl": base, "api": api, "apiKey": server.key, "headers": headers, "models": [model]}
        (folder / "models.json").write_text(json.dumps({"providers": {"jet": one}}))
        return {"PI_OFFLINE": "1"}

    return settings


def _copilot(home: Path, server: Server) -> dict[str, str]:
    window = {"COPILOT_PROVIDER_MAX_PROMPT_TOKENS": str(server.window)} if server.window else {}
    return window | {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{server.url}/v1",
        "COPILOT_PROVIDER_API_KEY": server.key,
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": str(ANSWER_TOKENS),
        "COPILOT_MODEL": MODEL,
    }


def _opencode(home: Path, server: Server) -> dict[str, str]:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    options = {"baseURL": f"{server.url}/v1", "apiKey": server.key, "headers": {RUN_HEADER: server.run}}
    model = {"limit": {"context": server.window, "output": ANSWER_TOKENS}} if server.window else {}
    one = {"npm": "@ai-sdk/openai-compatible", "name": "jet", "options": options, "models": {MODEL: model}}
    (folder / "opencode.json").write_text(json.dumps({"provider": {"jet": one}, "autoupdate": False}))
    return {}


def _qwen(home: Path, server: Server) -> dict[str, str]:
    return {"OPENAI_API_KEY": server.key, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_MODEL": MODEL}


def _ai(home: Path, server: Server) -> dict[str, str]:
    installed("ai")
    # a module finds its packages from where it stands
    shutil.copy(Path(__file__).with_name(_AI_SCRIPT.name), _AI_SCRIPT)
    told = {"URL": f"{server.url}/v1", "KEY": server.key, "RUN": server.run, "MODEL": MODEL}
    return {f"AI_{name}": value for name, value in {**told, "SESSION": str(home / "session.json")}.items()}


_AI_SCRIPT = cache() / f"ai-{version('ai')}" / "ai_sdk.mjs"


def _ai_agent(api: str) -> Agent:
    first = ("node", str(_AI_SCRIPT), api)
    return Agent(
        client="ai",
        api=api,
        settings=_ai,
        first=first,
        again=(*first, "--continue"),
        sessions=ai_sessions,
        told=False,
    )


_CLAUDE = ("claude", "--model", CLAUDE_MODEL, "--output-format", "json", "--allowedTools", "Bash,Task,Agent")
_CODEX = ("codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_PI = ("pi", "-p", "--provider", "jet", "--model", MODEL)
_COPILOT = ("copilot", "--allow-all-tools")
_OPENCODE = ("opencode", "run", "--model", f"jet/{MODEL}")
_QWEN = ("qwen", "--auth-type", "openai", "--approval-mode", "yolo")


def _pi_agent(api: str, kind: str) -> Agent:
    again = (*_PI, "--continue")
    return Agent(client="pi", api=api, settings=_pi(kind), first=_PI, again=again, sessions=pi_sessions)


AGENTS: dict[str, Agent] = {
    "claude": Agent(
        client="claude",
        api="messages",
        settings=_claude,
        first=(*_CLAUDE, "-p"),
        again=(*_CLAUDE, "--continue", "-p"),
        fork=(*_CLAUDE, "--continue", "--fork-session", "-p"),
        compact=(*_CLAUDE, "--continue", "-p", "/compact"),
        sessions=claude_sessions,
    ),
    "codex": Agent(
        client="codex",
        api="responses",
        settings=_codex,
        first=_CODEX,
        again=(*_CODEX, "resume", "--last"),
        sessions=codex_sessions,
    ),
    "pi": _pi_agent("chat", "openai-completions"),
    "pi-messages": _pi_agent("messages", "anthropic-messages"),
    "pi-responses": _pi_agent("responses", "openai-responses"),
    "copilot": Agent(
        client="copilot",
        api="chat",
        settings=_copilot,
        first=(*_COPILOT, "-p"),
        again=(*_COPILOT, "--continue", "-p"),
        sessions=copilot_sessions,
    ),
    "opencode": Agent(
        client="opencode",
        api="chat",
        settings=_opencode,
        first=_OPENCODE,
        again=(*_OPENCODE, "--continue"),
        sessions=opencode_sessions,
    ),
    "qwen": Agent(
        client="qwen",
        api="chat",
        settings=_qwen,
        first=(*_QWEN, "-p"),
        again=(*_QWEN, "--continue", "-p"),
        sessions=qwen_sessions,
        reopens=True,
        told=False,
    ),
    "ai": _ai_agent("chat"),
    "ai-messages": _ai_agent("messages"),
    "ai-responses": _ai_agent("responses"),
}
"""By the name that the table shows."""
