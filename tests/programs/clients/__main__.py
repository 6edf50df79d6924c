"""Real clients: `python -m tests.programs.clients [AGENT...]`; exits 1 where one of them did not do what it should.

Each works through a task of 62 tool calls in a window of 32,000 tokens, before the gateway and before the same provider
without it. Needs npm and a package index for the first time, and some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.provider import provider
from tests.stack import LOOPBACK, ROOT, free_port, listened_on

from .agents import AGENTS, Server
from .judge import faults
from .logs import logs_of
from .runs import Done, ran
from .script import Upstream
from .table import row, table

WINDOW = 32_000
STOP_SECONDS = 60


def main() -> int:
    """Run the named agents, or all; print the table and what is wrong."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("agents", nargs="*", default=list(AGENTS), metavar="AGENT", help=", ".join(AGENTS))
    parser.add_argument("--turns", type=int, default=62)
    parser.add_argument("--only", choices=("gateway", "direct", "told", "at-once"), help="Of the ways to run each.")
    parser.add_argument("--keep", action="store_true", help="Keep the folder of the runs, with each request.")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="jettison-clients-"))
    try:
        wrong = asyncio.run(_all(asked, folder))
    finally:
        if asked.keep:
            sys.stdout.write(f"kept: {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.writelines(f"wrong: {one}\n" for one in wrong)
    return 1 if wrong else 0


async def _all(asked: argparse.Namespace, folder: Path) -> list[str]:
    upstream, wrong, rows = Upstream(window=WINDOW), list[str](), list[str]()
    async with provider(upstream) as there:
        with gateway_up(folder / "data", there.url) as url:
            for name in asked.agents:
                ways: dict[str, Done] = {}
                for way, window in (("gateway", 0), ("direct", 0), ("told", WINDOW)):
                    if asked.only not in (None, way) or (way == "told" and not AGENTS[name].told):
                        continue
                    run = f"{name}-{way}"
                    server = Server(url=url if way == "gateway" else there.url, run=run, key=f"sk-{run}", window=window)
                    done = ways[way] = await ran(
                        AGENTS[name], server, upstream=upstream, folder=folder, turns=asked.turns
                    )
                    sys.stdout.write(f"{told(done)}\n")
                    _kept(done)
                rows.append(row(name, ways))
                if "gateway" in ways:
                    wrong += await _judged(ways["gateway"], folder / "data")
            if asked.only in (None, "at-once"):
                wrong += await _at_once(url, upstream, folder)
        lines = (folder / "data" / "up.log").read_text().splitlines()
        wrong += [f"not managed: {line}" for line in lines if " bypass " in line]
    wrong += [f"asked for what no provider has: {one}" for one in sorted(set(upstream.unknown))]
    sys.stdout.write(table(rows))
    return wrong


def told(done: Done) -> str:
    """Return a run in a line, and the end of what its client said where it did not finish."""
    run = done.run
    line = (
        f"{done.server.run}: {'finished' if done.finished else 'NOT FINISHED'} after {len(done.notes)} of {done.looks} "
        f"steps, {run.requests} requests, {sum(run.sent):,} tokens, at most {max(run.sent, default=0):,}, "
        f"{run.side} summaries or titles, {len(run.refusals)} refused, {done.seconds:.0f} s"
    )
    last = "" if done.finished or not done.ended else f"\n  {done.ended[-1][0]}: {done.ended[-1][1][-300:]!r}"
    return line + last + "".join(f"\n  refused: {why:.200}" for why in sorted(set(run.refusals)))


async def _judged(done: Done, data: Path) -> list[str]:
    """Return what is wrong with a run through the gateway."""
    run, out = done.server.run, []
    if not done.finished:
        out.append("not finished")
    out += [f"the provider refused: {why:.200}" for why in done.run.refusals]
    logs, mixed = await logs_of(data)
    if done.agent.sessions:
        out += faults(logs[run], done.agent.sessions(done.home), one_each=not done.run.side)
    return [f"{run}: {one}" for one in [*out, *mixed]]


async def _at_once(url: str, upstream: Upstream, folder: Path) -> list[str]:
    """Run equal clients with equal first words and one key, all at once."""
    names = [f"{name}-{word}" for name in ("pi", "claude") for word in ("red", "blue")]
    tasks = [
        ran(
            AGENTS[run.partition("-")[0]],
            Server(url=url, run=run, key="sk-shared"),
            upstream=upstream,
            folder=folder,
            turns=20,
        )
        for run in names
    ]
    found = await asyncio.gather(*tasks)
    sys.stdout.writelines(f"at once: {told(done)}\n" for done in found)
    wrong = [one for done in found for one in await _judged(done, folder / "data")]
    for done in found:
        _kept(done)
        others = [other for other in names if other != done.server.run]
        sent = b"".join(done.run.bodies)
        wrong += [f"{done.server.run} was sent what {other} said" for other in others if f"{other} ".encode() in sent]
    return wrong


def _kept(done: Done) -> None:
    for at, body in enumerate(done.run.bodies):
        (done.home / f"request-{at:03}.json").write_bytes(body)


@contextmanager
def gateway_up(folder: Path, upstream: str) -> Iterator[str]:
    """Run `jettison up --gateway` before a provider, as a user does; yield the gateway's URL without a slash."""
    port = free_port()
    plain = {key: value for key, value in os.environ.items() if not key.startswith("JETTISON_")}
    settings = {
        "JETTISON_GATEWAY__PORT": str(port),
        "JETTISON_GATEWAY__WINDOW": str(WINDOW),
        "JETTISON_GATEWAY__UPSTREAM__OPENAI": f"{upstream}/v1",
        "JETTISON_GATEWAY__UPSTREAM__ANTHROPIC": upstream,
        # a slow machine must not look like a fault
        "JETTISON_GATEWAY__DEADLINE_SECONDS": "20",
        "JETTISON_LOG": "INFO",
    }
    command = [str(Path(sys.executable).with_name("jettison")), "up", "--gateway", "--data", str(folder)]
    folder.mkdir(parents=True)
    with (folder / "up.log").open("w") as log:
        up = subprocess.Popen(command, cwd=ROOT, env=plain | settings, stderr=log, stdout=log)
        try:
            listened_on(port)
            yield f"http://{LOOPBACK}:{port}"
        finally:
            up.terminate()
            up.wait(timeout=STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
