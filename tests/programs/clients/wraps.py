"""Wraps: `jettison gateway --wrap CLIENT` with each real client, whose settings are the same afterwards."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from .agents import CLAUDE_MODEL, MODEL
from .runs import ended
from .script import Look, Run, Say, Upstream, written
from .transcripts import PROMPTS

STEPS = 3
SECONDS = 150.0
LAST = "All three are read."
_PLAIN_AIDER = ("--no-check-update", "--no-analytics", "--no-show-release-notes", "--no-show-model-warnings")

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "claude": ("--model", CLAUDE_MODEL, "--allowedTools", "Bash", "-p", PROMPTS[0]),
    "codex": ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPTS[0]),
    "opencode": ("run", "--model", f"openai/{MODEL}", PROMPTS[0]),
    "aider": ("--model", f"openai/{MODEL}", *_PLAIN_AIDER, "--no-git", "--yes-always", "--message", PROMPTS[0]),
    "pi": ("-p", "--provider", "openai", "--model", MODEL, PROMPTS[0]),
}
OWN: Mapping[str, tuple[str, str]] = {
    "claude": (".claude/settings.json", '{"env": {"MINE": "1"}}'),
    "codex": (".codex/config.toml", 'model = "gpt-4o"\n'),
    "opencode": (
        ".config/opencode/opencode.json",
        '{"$schema": "https://opencode.ai/config.json", "autoupdate": false, '
        '"provider": {"openai": {"models": {"gpt-4o": {"name": "x"}}}}}',
    ),
    "aider": (".aider.conf.yml", "dark-mode: true\n"),
    "pi": (".pi/agent/models.json", '{"providers": {"openai": {"apiKey": "OPENAI_API_KEY"}}}'),
}
"""What a user has set himself: the file and its text."""


async def wrapped(
    client: str, *, data: Path, gateway: Mapping[str, str], upstream: Upstream, folder: Path
) -> list[str]:
    """Run *client* behind `--wrap` on the stack of the folder *data*; return what is wrong."""
    name = f"wrap-{client}"
    home = folder / name
    work = home / "work"
    work.mkdir(parents=True)
    written(work, name, STEPS)
    run = upstream.runs[name] = Run(steps=[*map(Look, range(STEPS)), Say(LAST)], notes=work / "notes.txt")
    own = home / OWN[client][0]
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(OWN[client][1])
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY"), f"sk-{name}")
    command = [str(Path(sys.executable).with_name("jettison")), "gateway", "--data", str(data), "--wrap", client, "--"]
    offline = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "PI_OFFLINE": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    told = {**gateway, **keys, **offline}
    code, said = await ended([*command, *ARGUMENTS[client]], client, home=home, told=told, seconds=SECONDS)
    out = [f"exit code {code}: {said[-300:]!r}"] if code else []
    if client != "aider" and (run.done != list(range(STEPS)) or LAST not in said):
        out.append(f"not done after {run.done}: {said[-300:]!r}")
    if not run.sent:
        out.append(f"the provider was not asked: {said[-300:]!r}")
    out += [f"the provider refused: {why:.200}" for why in run.refusals]
    if own.read_text() != OWN[client][1]:
        out.append(f"{own.name} is changed: {own.read_text():.200}")
    out += [
        f"{file.relative_to(home)} names the gateway"
        for file in _files(home)
        if b"http://127.0.0.1:" in file.read_bytes()
    ]
    return [f"{name}: {one}" for one in out]


def _files(home: Path) -> list[Path]:
    return [file for file in home.rglob("*") if file.is_file() and not file.is_symlink()]
