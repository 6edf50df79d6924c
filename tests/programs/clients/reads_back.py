"""Reading back by MCP: `python -m tests.programs.clients.reads_back [claude] [codex]`; exits 1 where it goes wrong.

The gateway adds no tool (`gateway.retrieval = "mcp"`): the client starts `jettison mcp` itself, and its scripted model
calls what a pointer in its view names, as the client calls it. Needs npm and a package index for the first time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.formats.messages import RESPONSES
from tests.gateway.model import API_OF, Json, Reply, refusal, refused, said, size_of
from tests.gateway.provider import Answer, Asked, provider

from .__main__ import WINDOW, gateway_up
from .agents import AGENTS, Server
from .runs import ended
from .script import SHELLS, arguments_of, written

LOOKS = 14
NAMES = {"claude": "mcp__jettison__read_artifact", "codex": "read_artifact"}
"""Codex has its servers' tools in namespaces."""

WITHIN = "::"
"""Stands between a namespace and a name in it, where a tool is one word here."""

EXAMPLES = ("messages:4-9", "9f86d081884c7d65")
"""Keys in the server's own instructions."""
NAMESPACED, APART = re.compile(rb'"name": ?"(\w+)::(\w+)"'), rb'"namespace":"\1","name":"\2"'
POINTER = re.compile(r'((?:mcp__)?[\w-]*read_artifact)\(\\*"([\w-]+/[^"\\]+)\\*"')
CALLS: tuple[tuple[str, Json], ...] = (
    ("search_history", {"query": "request 3 took"}),
    ("list_versions", {}),
    ("explain_message", {"message": "2"}),
)


@dataclass(kw_only=True)
class Model:
    """Looks at logs until its view has a pointer; then reads what it names, and asks the other tools."""

    folder: Path
    turns: int = 0
    pointers: list[tuple[str, str]] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    looked: int = 0
    waiting: bool = False

    def __call__(self, asked: Asked) -> Answer:
        path = asked.target.partition("?")[0]
        if path not in API_OF:
            return Answer(status=404, pieces=(b'{"error":{"message":"no such route","type":"not_found_error"}}',))
        api, body = API_OF[path], asked.json
        self.turns += 1
        (self.folder / f"request-{self.turns:03}.json").write_bytes(asked.body)
        size = size_of(body)
        if why := refusal(api, body, size=size, window=WINDOW):
            self.refusals.append(why)
            return refused(api, why, size=size, window=WINDOW)
        reply = self._reply(body)
        if api == RESPONSES:
            reply = Reply(text=reply.text, calls=reply.calls, thinks=f"thought {self.turns}")
        answer = said(api, body, reply, ident=f"r{self.turns}", size=size)
        # in one piece: a name may be parted between two
        whole = b"".join(one for one in answer.pieces if isinstance(one, bytes))
        return dataclasses.replace(answer, pieces=(NAMESPACED.sub(APART, whole),))

    def _reply(self, body: Json) -> Reply:
        tools = dict(_tools(body))
        shell = next((name for name in SHELLS if name in tools), "")
        if not shell:
            return Reply(text="A title.")
        self.tools = sorted(tools)
        if self.waiting:
            self.results.append(_last_result(body))
            self.waiting = False
        found = POINTER.findall(json.dumps(body.get("messages") or body["input"]))
        self.pointers += [one for one in found if one not in self.pointers and not one[1].endswith(EXAMPLES)]
        if self.looked < LOOKS or (not self.pointers and self.looked < 2 * LOOKS):
            command = f"cat log-{self.looked % LOOKS:02}.txt"
            self.looked += 1
            return Reply(text=f"I look, {self.looked}.", calls=((shell, arguments_of(tools[shell], command)),))
        return self._read(tools)

    def _read(self, tools: dict[str, Json]) -> Reply:
        """Call the next of our tools that the client offers at once; it has its model look for others first."""
        while self.pointers and len(self.called) <= len(CALLS):
            name, given = ("read_artifact", {"key": self.pointers[-1][1]})
            if self.called:
                name, more = CALLS[len(self.called) - 1]
                given = {**more, "conversation": self.pointers[0][1].rpartition("/")[0]}
            found = next((one for one in tools if one.endswith(name)), "")
            self.called.append(found)
            if found:
                self.waiting = True
                return Reply(calls=((found, given),))
        return Reply(text="All is read.")


def _tools(body: Json) -> list[tuple[str, Json]]:
    out = []
    for tool in body.get("tools") or ():
        inner = tool.get("tools") or ()
        out += [(f"{tool['name']}{WITHIN}{one['name']}", one) for one in inner]
        name = tool.get("name") or (tool.get("function") or {}).get("name")
        if name and not inner:
            out.append((name, tool))
    return out


def _last_result(body: Json) -> str:
    """Return the newest results, as they came."""
    last: list[Any] = (body.get("messages") or body["input"])[-2:]
    return json.dumps(last, ensure_ascii=False)


async def _ran(client: str, folder: Path) -> list[str]:
    agent = AGENTS[client]
    home = folder / client
    (home / "work").mkdir(parents=True)
    model = Model(folder=home)
    written(home / "work", client, LOOKS)
    async with provider(model) as there:
        with gateway_up(home / "data", there.url, retrieval="mcp", mcp_tool=NAMES[client]) as url:
            told = agent.settings(home, Server(url=url, run=client, key="sk-x"))
            argv = (*_with_mcp(client, home), "Read all logs.")
            code, out = await ended(argv, agent.client, home=home, told=told)
        (home / "out.txt").write_text(out)
    sys.stdout.write(
        f"{client}: exit {code}, {model.turns} requests, {len(model.refusals)} refused, pointers {model.pointers[:2]}, "
        f"called {model.called}\n"
    )
    sys.stdout.writelines(f"  {one[:700]}\n" for one in model.results)
    wrong = [f"{client}: refused: {one:.200}" for one in model.refusals]
    called = [name for name in model.called if name]
    if code or len(model.results) != len(called) or len(called) < 2:
        wrong.append(f"{client}: exit {code}, called {model.called}, {len(model.results)} results: {out[-400:]}")
    expected = ("took", "match; ", "[Versions ", "[Message 2 ")
    pairs = zip(expected, model.results, strict=False)
    wrong += [f"{client}: no {want!r} in {one:.300}" for want, one in pairs if want not in one]
    if any("kept as an artifact" in one for one in model.results):
        wrong.append(f"{client}: what was read back is spilled again")
    if model.pointers and any(name != NAMES[client] for name, _ in model.pointers):
        wrong.append(f"{client}: pointers name {sorted({name for name, _ in model.pointers})}")
    return wrong


def _with_mcp(client: str, home: Path) -> tuple[str, ...]:
    """Return the client's command with the server in its settings, as `infra/docs/mcp.md` says."""
    command, arguments = str(Path(sys.executable).with_name("jettison")), ["mcp", "--data", str(home / "data")]
    if client == "codex":
        config = home / "codex" / "config.toml"
        told = f"[mcp_servers.jettison]\ncommand = {json.dumps(command)}\nargs = {json.dumps(arguments)}\n"
        config.write_text(config.read_text() + told)
        return AGENTS["codex"].first
    file = home / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"jettison": {"command": command, "args": arguments}}}))
    first = [one if one != "Bash,Task,Agent" else "Bash,mcp__jettison" for one in AGENTS["claude"].first]
    return (*first[:-1], "--mcp-config", str(file), first[-1])


async def _all(clients: list[str], folder: Path) -> list[str]:
    return [wrong for client in clients for wrong in await _ran(client, folder)]


def main() -> int:
    """Run the named clients, or both."""
    folder = Path(tempfile.mkdtemp(prefix="jettison-reads-back-"))
    wrong = asyncio.run(_all(sys.argv[1:] or ["claude", "codex"], folder))
    sys.stdout.writelines(f"wrong: {one}\n" for one in wrong)
    if wrong or os.environ.get("KEEP"):
        sys.stdout.write(f"kept: {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
