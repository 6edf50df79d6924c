"""Archivers that are killed, two at a time, while agents speak now and then: every word stays, once, in its order.

Others are erased just when an archiver is at them: in the end nothing is left of these but a tombstone.

python -m tests.programs.idle [SECONDS]      (`make idle`; servers on loopback, all below a temporary folder)
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from actors.audit.evidence import verified
from actors.cli.verify import sources_of
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.runtime.said_log import sayings
from protocol.client import Client
from protocol.facts import ConversationArchived
from protocol.formats import messages
from protocol.ids import Address
from storage.archives import newest_archive
from tests.audit.test_erasing import of_stack
from tests.conftest import done_facts, settled
from tests.stack import jettison_up

CONVERSATIONS = 16
IDLE_SECONDS = 1.0
POLICY = {"budget": {"window": 4_000, "reserve": 0}}


async def speaks(client: Client, name: str, ends: float, chance: random.Random) -> tuple[Address, list[str]]:
    """Speak now and then until it *ends*, and look at each view; return what was said."""
    talk, said = await client.open(name, policy=POLICY), list[str]()
    while time.monotonic() < ends:
        for _ in range(chance.randrange(1, 4)):
            text = f"{len(said)} of {name} {chance.randbytes(chance.randrange(400)).hex()}"
            await talk.append([{"role": "user", "content": text}])
            said.append(text)
        view = await talk.context(patience=60)
        assert view.messages[-1]["content"] == said[-1], "a view has the newest word"
        await asyncio.sleep(chance.choice((0.05, IDLE_SECONDS, 2 * IDLE_SECONDS, 6 * IDLE_SECONDS)))
    return talk.at, said


async def is_erased(running: Runtime, client: Client, ends: float, chance: random.Random) -> list[Address]:
    """Speak, and erase it all when an archiver may be at it, again and again until it *ends*; return the erased."""
    gone = list[Address]()
    while time.monotonic() < ends:
        talk = await client.open(f"doomed-{chance.randrange(10**9)}", policy=POLICY)
        await talk.append([{"role": "user", "content": chance.randbytes(60_000).hex()}])
        await talk.context(patience=60)
        await asyncio.sleep(chance.uniform(1.0, 4.0) * IDLE_SECONDS)
        await running.erasing().erase(talk.at, by="test")
        gone.append(talk.at)
    return gone


async def archives(settings: Settings, config: Path, ends: float, chance: random.Random) -> Counter[str]:
    """Run `jettison retain`, and kill it at some moment."""
    told = Counter[str]()
    command = [
        sys.executable,
        "-c",
        "from actors.cli import main; main()",
        "retain",
        "--every",
        "0.2",
        "--config",
        str(config),
    ]
    while time.monotonic() < ends:
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen([*command, "--data", settings.data], stdout=out, stderr=out)
            while process.poll() is None and not os.fstat(out.fileno()).st_size:
                await asyncio.sleep(0.05)  # until it has told something: on a busy machine it begins late
            await asyncio.sleep(chance.uniform(0.0, 4.0))
            told["ended by itself"] += process.poll() is not None
            process.kill()
            process.wait()
            out.seek(0)
            lines = out.readlines()
            told["archived"] += sum("records in the archive" in line for line in lines)
            told["ended what another began"] += sum("earlier run" in line for line in lines)
            told["killed"] += 1
            for line in (line for line in lines if "is left as it is" in line):
                sys.stdout.write(line)
                told["faults"] += 1
    return told


async def judged(running: Runtime, at: Address, said: list[str], told: Counter[str]) -> list[str]:
    """Return what is wrong with *at*."""
    state = await settled(running, at)
    verdict = await verified(at, sources_of(running))
    records = await running.log.read(at, after=0)
    stored = await running.retaining().archiving.stored.read(at, after=0)
    told["commits that archive"] += sum(isinstance(fact, ConversationArchived) for fact in done_facts(records))
    told["records"] += len(records)
    told["in the stream"] += len(stored)
    told["conversations with an archive"] += newest_archive(stored) is not None
    heard = [messages.decode(one.message.raw)["content"] for one in sayings(at, records)]
    return [
        *([f"{at}: {verdict.first}"] if not verdict.ok else []),
        *([f"{at}: {len(heard)} messages, {len(said)} were said"] if heard != said else []),
        *([f"{at}: a state of {state.messages} messages"] if state.messages != len(said) else []),
    ]


async def left(running: Runtime, gone: list[Address], told: Counter[str]) -> list[str]:
    """Have the next round end what was left of those that are *gone*; return what is wrong with them then."""
    told["erased"] += len(gone)
    async for due, _ in running.retaining().round(by="test"):
        told["erased again"] += due.wish == "erase again"
    verdicts = [await verified(at, sources_of(running)) for at in gone]
    stored = [await running.archives.names(at) for at in gone]
    return [
        f"{verdict.address}: {verdict.first}, archives: {names}"
        for verdict, names in zip(verdicts, stored, strict=True)
        if names or not (verdict.ok and verdict.erased)
    ]


async def main(seconds: float) -> int:
    """Return the exit code."""
    with tempfile.TemporaryDirectory(prefix="jettison-idle-") as folder:
        config = Path(folder) / "idle.toml"
        config.write_text(f'[policy.retention]\narchive_after = "{IDLE_SECONDS:.0f}s"\n')
        with jettison_up(Path(folder) / "data"):
            settings, ends = of_stack(Path(folder) / "data"), time.monotonic() + seconds
            async with runtime(settings, role="test") as running:
                async with Client.connect(settings.nats.url, keys=running.tenants, patience=90) as client:
                    talks = [speaks(client, f"idle-{one}", ends, random.Random(one)) for one in range(CONVERSATIONS)]
                    archivers = [archives(settings, config, ends, random.Random(-one)) for one in (1, 2)]
                    erasers = [is_erased(running, client, ends, random.Random(f"eraser {one}")) for one in (1, 2)]
                    said, told, gone = await asyncio.gather(
                        asyncio.gather(*talks), asyncio.gather(*archivers), asyncio.gather(*erasers)
                    )
                counts = sum(told, Counter[str]())
            async with runtime(settings, role="judge") as fresh:
                wrong = [one for at, words in said for one in await judged(fresh, at, words, counts)]
                wrong += await left(fresh, [at for some in gone for at in some], counts)
        counts["words"] = sum(len(words) for _, words in said)
        sys.stdout.write("".join(f"{line}\n" for line in (dict(counts), *wrong, f"{len(wrong)} violations")))
        return bool(wrong or counts["faults"] or not counts["commits that archive"])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 180.0)))
