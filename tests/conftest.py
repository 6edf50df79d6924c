"""The real servers of a session, started once: NATS and S3, and whatever works on them."""

import asyncio
import gc
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from actors.cli.session import started_stack
from actors.core.flow import next_actor
from actors.core.state import State
from actors.host.bootstrap import Runtime, runtime, work
from actors.host.embedded import EmbeddedStack
from actors.host.settings import Settings
from actors.runtime.registry import ACTOR_SPECS
from protocol import codec, subjects
from protocol.client import Client
from protocol.facts import DoneFact
from protocol.ids import Address, address, fresh_id
from protocol.subjects import ACTORS, Actor
from storage.ports import Record
from tests import laws as laws  # its profile holds for all
from tests.builders import PLAIN
from tests.stack import FORKING, ROOT, forking

Json = dict[str, Any]

SAMPLE: list[Json] = json.loads((Path(__file__).parent / "data" / "sample.json").read_text())["messages"]
WINDOW_TOKENS = 12_000
QUICK = ("core", "cut", "digest", "model_info", "presets", "protocol", "spill", "squeeze")
"""Folders of files that mostly compute: those that want no server are tested last, and fill what the long ones leave of
each tester."""
QUICK_BETWEEN = 4
"""Of these files, between two that wait."""

SETTLE_SECONDS = 180.0
INSTALL_SECONDS = 200.0
"""Of a test that wants what is being installed; less than its deadline."""

INSTALLS = "TESTS_INSTALLS"
"""The file that `make test` writes when it has installed what few tests want; unset, nothing is being installed."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Have one process load the command line for all testers."""
    os.environ[FORKING] = forking()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that start processes first: what takes longest must not begin when the others have ended.

    Those that want what is being installed follow, each before some files that mostly compute: most of them wait.
    """
    served = {item.path for item in items if "started" in getattr(item, "fixturenames", ())}
    waiting = {item.path for item in items if "installs" in getattr(item, "fixturenames", ())}
    quick = {item.path for item in items if item.path.parent.name in QUICK} - served - waiting
    between = iter(sorted(quick))
    place = {path: 0 for path in {item.path for item in items} - waiting - quick}
    for path in sorted(waiting):
        for each in (path, *islice(between, QUICK_BETWEEN)):
            place[each] = len(place)
    last = len(place)
    items.sort(key=lambda item: place.get(item.path, last))


def pytest_collection_finish() -> None:
    """Leave what all tests consist of, half a million objects, out of each search for cycles."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
async def installs() -> None:
    """Wait until what few tests want is installed, or cannot be."""
    ended = Path(os.environ.get(INSTALLS) or ROOT)
    deadline = time.monotonic() + INSTALL_SECONDS
    while not ended.exists():
        if time.monotonic() > deadline:
            pytest.fail(f"not installed within {INSTALL_SECONDS:.0f} s: `make installs`, then once more")
        await asyncio.sleep(0.2)


@pytest.fixture(scope="session")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Settings, EmbeddedStack]]:
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("session")))) as both:
        yield both


@pytest.fixture(scope="session")
def settings(started: tuple[Settings, EmbeddedStack]) -> Settings:
    """Return settings that point to the session's servers."""
    return started[0]


@pytest.fixture(scope="session")
def stack(started: tuple[Settings, EmbeddedStack]) -> EmbeddedStack:
    return started[1]


@pytest.fixture(scope="session")
async def running(settings: Settings) -> AsyncIterator[Runtime]:
    """Yield everything connected, with nobody at work: slots are taken by the test alone."""
    async with runtime(settings, role="test") as connected:
        yield connected


@pytest.fixture(scope="module")
async def working(settings: Settings) -> AsyncIterator[Runtime]:
    """Yield a runtime whose four actors and context service work while the module runs."""
    async with at_work(settings) as busy:
        yield busy


@pytest.fixture(scope="session")
async def client(settings: Settings) -> AsyncIterator[Client]:
    async with Client.connect(settings.nats.url, patience=180) as connected:
        yield connected


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a conversation that no other test has."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', request.node.name)[:40]}-{fresh_id()[:8]}"


@pytest.fixture
def at(name: str) -> Address:
    return address(name)


@asynccontextmanager
async def at_work(settings: Settings, actors: Iterable[Actor] = ACTORS) -> AsyncIterator[Runtime]:
    """Run *actors* as tasks; whatever ended one of them fails the test that uses them."""
    actors = tuple(actors)
    async with runtime(settings, role="test") as busy:
        task = asyncio.create_task(work(busy, actors))
        try:
            if any(ACTOR_SPECS[actor].serves for actor in actors):
                await served(busy)
            yield busy
        finally:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(ended, asyncio.CancelledError):
                raise AssertionError(f"the workers ended: {ended!r}")


async def served(running: Runtime, seconds: float = 180.0) -> None:
    """Wait until somebody answers contexts."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                await running.connection.request(subjects.ask("read", address("probe")), b"{}", timeout=seconds)
                return
            except nats.errors.NoRespondersError:
                await asyncio.sleep(0.02)


async def settled(running: Runtime, at: Address, *, seconds: float = SETTLE_SECONDS) -> State:
    """Wait until nobody has anything left to do in *at*; return its state."""
    ends = time.monotonic() + seconds
    while True:
        state = await running.conversations.load(at)
        if state.policy is not None and next_actor(state) is None:
            return state
        assert time.monotonic() < ends, f"{next_actor(state)} has not worked on {at} in {seconds:g} s"
        await asyncio.sleep(0.02)


def done_facts(records: Iterable[Record]) -> list[DoneFact]:
    """Return all facts of actors in *records*, in order."""
    return [fact for record in records if record.side == "done" for fact in codec.decode_commit(record.body).facts]


def spilling(folder: Path) -> Path:
    """Write a policy under which results of a few hundred tokens become artifacts; return its file."""
    file = folder / "spilling.json"
    file.write_text(json.dumps({"spill": {"share": 0.1}}))
    return file


def layer(*, window: int = WINDOW_TOKENS, **sections: Mapping[str, Any]) -> Json:
    """Return a policy with a small window and no account: what a test says depends on no tuned preset."""
    marks: Json = {"trigger": {"ratio": 0.95}, "target": {"low_water": 0.3}}
    out: Json = {name: dict(section) for name, section in {**PLAIN, **marks}.items()}
    for name, section in {"budget": {"window": window, "reserve": 0}, **sections}.items():
        out[name] = {**out.get(name, {}), **section} if isinstance(section, Mapping) else section
    return out


def chatter(turns: int, *, words: int = 60) -> list[Json]:
    """Return *turns* small user and assistant messages, all different."""
    out: list[Json] = []
    for turn in range(turns):
        told = " ".join(f"word{turn}x{index}" for index in range(words))
        out += [{"role": "user", "content": f"question {turn} {told}"}, {"role": "assistant", "content": f"a {told}"}]
    return out
