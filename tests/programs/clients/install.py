"""Install: pinned versions of the clients, by npm and pip, in a folder outside of the repository that is kept.

`python -m tests.programs.clients.install pi` installs those that are named; `JETTISON_CLIENTS` is another folder.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

NODE = "26.10.0"
"""For clients that want a newer Node than machines have."""

NODES = {"pi": 20}
"""Clients that the machine's own Node will do for, from this version on: they need no other."""

NPM: dict[str, tuple[str, str]] = {
    "claude": ("@anthropic-ai/claude-code", "2.1.330"),
    "codex": ("@openai/codex", "0.169.0"),
    "pi": ("@mariozechner/pi-coding-agent", "0.73.1"),
    "copilot": ("@github/copilot", "1.0.102"),
    "opencode": ("opencode-ai", "1.18.33"),
    "qwen": ("@qwen-code/qwen-code", "0.24.4"),
    "ai": ("ai", "7.0.173"),
}
BESIDE = {"ai": ("@ai-sdk/openai@4.0.118", "@ai-sdk/anthropic@4.0.105")}
"""What a client needs beside itself."""

PIP: dict[str, tuple[str, str]] = {"aider": ("aider-chat", "0.86.2")}
INSTALL_SECONDS = 900


def cache() -> Path:
    """Return where clients are kept."""
    named = os.environ.get("JETTISON_CLIENTS")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "jettison-clients"


def version(client: str) -> str:
    """Return the pinned version of *client*."""
    return {**NPM, **PIP}[client][1]


def installed(client: str) -> list[Path]:
    """Install *client* where it is not yet; return the folders of its commands, for a `PATH`."""
    if client in PIP:
        return [_by_pip(client)]
    node = _node_for(client)
    return [_by_npm(client, *NPM[client], path=node), node]


def is_installed(client: str) -> bool:
    """Tell whether `installed` has nothing to install but a Node."""
    return (cache() / f"{client}-{version(client)}" / ".installed").exists()


def _node_for(client: str) -> Path:
    """Return the folder of a Node that *client* works with."""
    own = shutil.which("node")
    if own and client in NODES:
        told = subprocess.run([own, "--version"], check=True, capture_output=True, text=True).stdout
        if int(told.removeprefix("v").partition(".")[0]) >= NODES[client]:
            return Path(own).parent
    node = _by_npm("node", f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}", NODE)
    return next(node.parent.glob("node-linux-*/bin"))


def _by_npm(name: str, package: str, wanted: str, *, path: Path | None = None) -> Path:
    folder = cache() / f"{name}-{wanted}"
    done = folder / ".installed"
    if not done.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("npm is needed to install the clients: any version will do, they get a Node of their own")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        told = os.environ | {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]}
        argv = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
        argv += (f"{package}@{wanted}", *BESIDE.get(name, ()))
        sys.stdout.write(f"install: {package} {wanted}\n")
        subprocess.run(argv, cwd=folder, env=told, check=True, timeout=INSTALL_SECONDS, stdout=subprocess.DEVNULL)
        done.touch()
    return folder / "node_modules" / ".bin"


def _by_pip(client: str) -> Path:
    package, wanted = PIP[client]
    folder = cache() / f"{client}-{wanted}"
    done = folder / ".installed"
    if not done.exists():
        sys.stdout.write(f"install: {package} {wanted}\n")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_SECONDS)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, f"{package}=={wanted}"], check=True, timeout=INSTALL_SECONDS)
        done.touch()
    return folder / "bin"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        installed(name)
