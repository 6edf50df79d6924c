"""Disasters, for real: a server of three, objects, the site. What is lost is what `restore` and `verify` say, exactly.

python -m tests.programs.drill      (`make drill`; some minutes; servers on loopback, all below a temporary folder)
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime, work
from actors.host.settings import KeysSection, Settings
from actors.runtime.task_group import beside
from protocol.client import Client
from protocol.errors import CallsOpen
from protocol.ids import Token, address
from protocol.keys import FolderKeys
from storage import object_copies
from storage.s3 import ANCHORS_PREFIX
from tests.programs.chaos.speech import generated
from tests.promises.harness import at_server, environment, three

CONVERSATIONS = 5
NIGHT, DAY = 12, 6
"""Messages of each conversation before the copy, and behind it."""
LOST_OBJECTS = 5
BUCKET_LEFT, BOTH_LOST = "the site, not its bucket", "the site with its bucket"
POLICY = {"budget": {"window": 4_000, "reserve": 0}, "spill": {"tokens": 200}}


@dataclass
class Book:
    """What agents were told is durable: the sequence of each message, by conversation."""

    said: dict[str, list[int]] = field(default_factory=dict)

    async def say(self, running: Runtime, url: str, messages: int) -> None:
        """Say so many messages more in each conversation, one by one, and ask for each view."""
        keys = FolderKeys(folder=running.settings.keys.folder)
        async with Client.connect(url, keys=keys, patience=90) as client:
            await asyncio.gather(*(self._say(client, f"drill-{one}", messages) for one in range(CONVERSATIONS)))

    async def _say(self, client: Client, name: str, messages: int) -> None:
        talk = await client.open(name, policy=POLICY)
        said = self.said.setdefault(name, [])
        script = generated(random.Random(name), NIGHT + 4 * DAY, name)
        for message in script[len(said) : len(said) + messages]:
            said.append(await talk.append([message]))
        with suppress(CallsOpen):  # it may end within its calls
            await talk.context()

    def copy(self) -> Book:
        """Return one of its own."""
        return Book({name: [*said] for name, said in self.said.items()})

    def behind(self, seq: int) -> dict[str, list[int]]:
        """Return what was said behind *seq*, by conversation."""
        found = {name: [one for one in said if one > seq] for name, said in self.said.items()}
        return {name: said for name, said in found.items() if said}

    def forget(self, seq: int) -> None:
        """Go back to what was said up to *seq*, as a log does."""
        self.said = {name: [one for one in said if one <= seq] for name, said in self.said.items()}


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    def rows(self) -> list[Any]:
        """Return what `--json` printed, value by value."""
        return [json.loads(line) for line in self.out.splitlines() if line.strip()]


class Different(Exception):
    """What was lost is not what was said to be."""


def check(holds: bool, what: str) -> None:
    """Raise `Different` unless it *holds*."""
    if not holds:
        raise Different(what)


def tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def ran(settings: Settings, *arguments: str) -> Ran:
    """Run a command of ours on *settings*' servers."""
    command = (sys.executable, "-c", "from actors.cli import main; main()", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment(
            settings, JETTISON_NATS__USER=settings.nats.user, JETTISON_NATS__PASSWORD=settings.nats.password
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def site(folder: Path, keys: Path) -> AsyncIterator[tuple[Settings, Runtime]]:
    """Run NATS, S3 and all actors with their data below *folder*."""
    wanted = Settings(data=str(folder), keys=KeysSection(folder=str(keys), make=True))
    async with (
        started_stack(wanted) as (settings, _),
        runtime(settings, role="drill") as running,
        beside(work(running)),
    ):
        yield settings, running


async def texts(running: Runtime, book: Book) -> dict[str, set[int]]:
    """Return the sequences at which the log has what agents said, by conversation."""
    found = {}
    for name in book.said:
        records = await running.log.read(address(name), after=0)
        found[name] = {record.seq for record in records if record.side == "said"}
    return found


async def missing(running: Runtime, book: Book) -> dict[str, list[int]]:
    """Return what agents were told is durable and the log has not."""
    there = await texts(running, book)
    found = {name: [seq for seq in said if seq not in there[name]] for name, said in book.said.items()}
    return {name: said for name, said in found.items() if said}


def counted(lost: dict[str, list[int]]) -> str:
    """Return a number of messages, as people say it."""
    return f"{sum(map(len, lost.values()))} messages of {len(lost)} conversations"


async def a_server_of_three(folder: Path, keys: Path) -> None:
    """A server dies while agents speak, its disk with it; it comes back empty."""
    wanted = Settings(data=str(folder), keys=KeysSection(folder=str(keys), make=True))
    book = Book()
    (folder / "three").mkdir(parents=True)
    async with started_stack(wanted) as (own, _), three(folder / "three") as servers:
        url = ",".join(one.url for one in servers)
        settings = at_server(own, url)
        async with runtime(settings, role="drill") as running, beside(work(running)):
            await book.say(running, url, NIGHT)
            saying = asyncio.create_task(book.say(running, url, DAY))
            servers[1].kill()
            shutil.rmtree(servers[1].store)
            await saying
            servers[1].start()
            await book.say(running, url, DAY)
            lost = await missing(running, book)
            verified = await ran(settings, "verify", "--all", "--json")
            check(not lost and verified.code == 0, f"lost {lost}; verify: {verified.code} {verified.out[-500:]}")
            said = sum(map(len, book.said.values()))
    tell(f"a server of three, with its disk: {said} messages said, 0 lost; verify says so")


async def objects(running: Runtime, settings: Settings, copy: Path) -> None:
    """Objects are gone from the bucket: those that the copy has come back, the others are named."""
    stored = {name for name in await object_copies.sizes(running.bucket) if not name.startswith(ANCHORS_PREFIX)}
    old = set(object_copies.kept(copy / "objects"))
    rng = random.Random(17)
    gone = rng.sample(sorted(stored & old), LOST_OBJECTS) + rng.sample(sorted(stored - old), 2)
    for name in gone:
        tenant, _, sha256 = name.partition("/")
        await running.artifacts.delete(Token(tenant), sha256)
    first = await named_artifacts(settings)
    check(first == shas(gone), f"verify names {sorted(first)}, gone are {sorted(shas(gone))}")
    put = await ran(settings, "restore", str(copy), "--objects", "--json")
    check(put.code == 0 and put.rows()[0]["objects"] == LOST_OBJECTS, f"restore --objects: {put}")
    left = await named_artifacts(settings)
    newer = shas(name for name in gone if name not in old)
    check(left == newer, f"after restore verify names {sorted(left)}, newer than the copy are {sorted(newer)}")
    tell(
        f"{len(gone)} objects: verify names these {len(first)}; {LOST_OBJECTS} came back from the copy, "
        f"{len(newer)} newer than it are lost, and named"
    )


async def named_artifacts(settings: Settings) -> set[str]:
    """Return the artifacts that `verify --all` misses."""
    verified = await ran(settings, "verify", "--all", "--json")
    problems = [one for row in verified.rows() for one in row.get("problems", ())]
    check({one["what"] for one in problems} <= {"artifact"}, f"verify: {problems}")
    return {one["where"].removeprefix("artifact ") for one in problems}


def shas(names: Sequence[str] | Any) -> set[str]:
    """Return the hashes in the names of objects."""
    return {name.rpartition("/")[2] for name in names}


async def last_night_and_today(folder: Path, keys: Path, copy: Path) -> Book:
    """Work until the night, copy everything, work on; some objects are lost meanwhile."""
    book = Book()
    async with site(folder, keys) as (settings, running):
        await book.say(running, settings.nats.url, NIGHT)
        await ran(settings, "anchor")
        copied = await ran(settings, "backup", str(copy), "--json")
        check(copied.code == 0, f"backup: {copied}")
        await book.say(running, settings.nats.url, DAY)
        await objects(running, settings, copy)
        anchored = await ran(settings, "anchor")
        check(anchored.code == 0, f"anchor: {anchored}")
    return book


async def the_site(folder: Path, keys: Path, copy: Path, book: Book, *, bucket: str) -> None:
    """The site is gone; last night's copy is put back into a new one, with the old bucket or without."""
    async with site(folder, keys) as (settings, running):
        put = await ran(settings, "restore", str(copy), "--json")
        check(put.code == 0, f"restore: {put}")
        end = put.rows()[0]["ends"]["CTX_LOG"]
        behind = book.behind(end)
        lost = await missing(running, book)
        check(lost == behind and len(lost) > 0, f"lost {lost}, restore says {behind}")
        tell(f"{bucket}: restore says that all behind {end} is lost: {counted(behind)}; so it is")
        verified = await ran(settings, "verify", "--all", "--json")
        if bucket == BOTH_LOST:
            check(verified.code == 0, f"verify: {verified}")
        else:
            await named(settings, verified, book, behind)
        book.forget(end)
        await book.say(running, settings.nats.url, DAY)
        again = await missing(running, book)
        check(not again, f"lost again: {again}")
        tell(f"{bucket}: the agents went on, and said {DAY} messages more each")


async def named(settings: Settings, verified: Ran, book: Book, behind: dict[str, list[int]]) -> None:
    """Check that verify names each lost message, and that repair makes each log go on."""
    found = {}
    for row in verified.rows():
        for one in row["problems"]:
            name = row["address"].rpartition("/")[2]
            found[name] = [seq for seq in book.said[name] if one["first_seq"] <= seq <= one["last_seq"]]
    check(verified.code == 3 and found == behind, f"verify names {found}, lost are {behind}")
    tell(f"{BUCKET_LEFT}: verify names the same {counted(found)}, by the anchors in the bucket")
    for name in behind:
        mended = await ran(settings, "repair", name, "--yes", "--out", str(Path(settings.data) / f"{name}.tar"))
        check(mended.code == 0, f"repair {name}: {mended}")
    verified = await ran(settings, "verify", "--all", "--json")
    check(verified.code == 5, f"verify after repair: {verified}")
    tell(f"{BUCKET_LEFT}: {len(behind)} conversations repaired; verify says so for ever (exit 5)")


async def main() -> int:
    """Play each disaster; return 1 where something else was lost than what was said."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jettison-drill-") as made:
        top = Path(made)
        keys, copy = top / "keys", top / "copy"
        keys.mkdir(mode=0o700)
        try:
            await a_server_of_three(top / "cluster", keys)
            book = await last_night_and_today(top / "site", keys, copy)
            shutil.rmtree(top / "site" / "nats")
            await the_site(top / "site", keys, copy, book.copy(), bucket=BUCKET_LEFT)
            await the_site(top / "new-site", keys, copy, book.copy(), bucket=BOTH_LOST)
        except Different as error:
            tell(f"DIFFERENT: {error}")
            return 1
    tell(f"drill: what was lost is what restore and verify say, to the message ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
