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
from collections.abc import Iterator, Mapping
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
from .transcripts import Events
from .wraps import ARGUMENTS, wrapped

WINDOW = 32_000
STOP_SECONDS = 60
WAYS = ("gateway", "direct", "told")
"""Before the gateway; straight to the provider; the same, and the client is told its window."""


def main() -> int:
    """Run the named agents, or all; print the table and what is wrong."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument(
        "agents", nargs="*", default=[*AGENTS, "aider"], metavar="AGENT", help=", ".join([*AGENTS, "aider"])
    )
    parser.add_argument("--turns", type=int, default=62)
    parser.add_argument(
        "--only", choices=("gateway", "direct", "told", "at-once", "wrap"), help="Of the ways to run each."
    )
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
    return 1 if wrong else 0


async def _all(asked: argparse.Namespace, folder: Path) -> list[str]:
    upstream, wrong, rows = Upstream(window=WINDOW), list[str](), list[str]()

    def found(more: list[str]) -> None:
        wrong.extend(more)
        sys.stdout.writelines(f"wrong: {one}\n" for one in more)
        sys.stdout.flush()

    async with provider(upstream) as there:
        with gateway_up(folder / "data", there.url) as url:
            for name in filter(AGENTS.__contains__, asked.agents):
                ways = [way for way in WAYS if asked.only in (None, way) and (way != "told" or AGENTS[name].told)]
                done = {way: await _ran(name, way, url, there.url, upstream, folder, asked.turns) for way in ways}
                rows.append(row(name, done))
                if "gateway" in done:
                    found(await _judged(done["gateway"], folder / "data"))
            if asked.only in (None, "at-once"):
                found(await _at_once(url, upstream, folder))
            if asked.only in (None, "wrap"):
                for client in filter(asked.agents.__contains__, ARGUMENTS):
                    sys.stdout.write(f"wrap: {client}\n")
                    told = settings(there.url)
                    found(await wrapped(client, data=folder / "data", gateway=told, upstream=upstream, folder=folder))
        lines = (folder / "data" / "up.log").read_text().splitlines()
        found([f"not managed: {line}" for line in lines if " bypass " in line])
    found([f"asked for what no provider has: {one}" for one in sorted(set(upstream.unknown))])
    sys.stdout.write(table(rows))
    return wrong


async def _ran(name: str, way: str, url: str, straight: str, upstream: Upstream, folder: Path, turns: int) -> Done:
    """Run one client in one way, and say how it went."""
    run = f"{name}-{way}"
    there = url if way == "gateway" else straight
    server = Server(url=there, run=run, key=f"sk-{run}", window=WINDOW if way == "told" else 0)
    done = await ran(AGENTS[name], server, upstream=upstream, folder=folder, turns=turns)
    sys.stdout.write(f"{in_words(done)}\n")
    sys.stdout.flush()
    _kept(done)
    return done


def in_words(done: Done) -> str:
    """Return a run in a line, and the end of what its client said where it did not finish."""
    run = done.run
    line = (
        f"{done.server.run}: {'finished' if done.finished else 'NOT FINISHED'} after {len(run.done)} of {done.looks} "
        f"steps, {run.requests} requests, {sum(run.sent):,} tokens, at most {max(run.sent, default=0):,}, "
        f"{run.side} summaries or titles, {len(run.refusals)} refused, {done.seconds:.0f} s"
    )
    last = "" if done.finished or not done.ended else f"\n  {done.ended[-1][0]}: {done.ended[-1][1][-300:]!r}"
    return line + last + "".join(f"\n  refused: {why:.200}" for why in sorted(set(run.refusals)))


async def _judged(done: Done, data: Path) -> list[str]:
    """Return what is wrong with a run through the gateway, whose stack has the folder *data*."""
    return judged(done, *await logs_of(data))


def judged(done: Done, logs: Mapping[str, list[Events]], mixed: list[str]) -> list[str]:
    """Return what is wrong with a run through the gateway, of which *logs* came."""
    run, out = done.server.run, []
    if not done.finished or done.codes:
        out.append(f"finished: {done.finished}, exit codes {done.codes}")
    out += [f"the provider refused: {why:.200}" for why in done.run.refusals]
    if done.agent.sessions:
        one_each = not (done.run.side or done.agent.reopens)
        out += faults(logs.get(run, []), done.agent.sessions(done.home), one_each=one_each)
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
    sys.stdout.writelines(f"at once: {in_words(done)}\n" for done in found)
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


def settings(upstream: str) -> dict[str, str]:
    """Return a gateway's settings, as environment."""
    return {
        "JETTISON_GATEWAY__WINDOW": str(WINDOW),
        "JETTISON_GATEWAY__UPSTREAM__OPENAI": f"{upstream}/v1",
        "JETTISON_GATEWAY__UPSTREAM__ANTHROPIC": upstream,
        # a slow machine must not look like a fault
        "JETTISON_GATEWAY__DEADLINE_SECONDS": "20",
    }


@contextmanager
def gateway_up(folder: Path, upstream: str, **more: str) -> Iterator[str]:
    """Run `jettison up --gateway` before a provider, as a user does; yield the gateway's URL without a slash.

    *more* are further keys of its settings.
    """
    port = free_port()
    plain = {key: value for key, value in os.environ.items() if not key.startswith("JETTISON_")}
    told = {**plain, **settings(upstream), "JETTISON_GATEWAY__PORT": str(port), "JETTISON_LOG": "INFO"}
    told |= {f"JETTISON_GATEWAY__{key.upper()}": value for key, value in more.items()}
    command = [str(Path(sys.executable).with_name("jettison")), "up", "--gateway", "--data", str(folder)]
    folder.mkdir(parents=True)
    with (folder / "up.log").open("w") as log:
        up = subprocess.Popen(command, cwd=ROOT, env=told, stderr=log, stdout=log)
        try:
            listened_on(port)
            yield f"http://{LOOPBACK}:{port}"
        finally:
            up.terminate()
            up.wait(timeout=STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
