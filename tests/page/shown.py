"""The page over stores in memory, and how its answers are asked for and read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import httpx2
from starlette.types import ASGIApp

from actors.audit.evidence import Sources
from actors.page.app import page
from actors.page.known_list import KnownList
from actors.runtime.conversations import Conversations
from actors.runtime.listing import Listing
from protocol.ids import address
from storage.memory import MemoryAnchors, MemoryArchives, MemoryArtifacts, MemoryKeys, MemoryLog, MemorySnapshots
from storage.memory_work import MemoryDeadLetters, MemoryKeptList, MemoryLogChanges
from storage.ports import Record
from tests.audit.recorded import serve, small
from tests.builders import Talk, assistant, result, system, user, words

HOST = "http://127.0.0.1"
MARKUP = (
    '<script>window.hacked = 1</script>"\'><img src=x onerror="window.hacked = 1"><svg onload=window.hacked=1>'
    "</pre></title></textarea><b hx-get='/' hx-on:load='window.hacked = 1' data-hx-trigger=load>{{ 7 * 7 }}</b>"
    '<a href="javascript:window.hacked=1">x</a><style>*{display:none}</style>'
)
UNSEEN = "\x1b[31mred\x07 \u202eevil\u202c \u200bzero \U000e0041tag \u2066isolated\x00"
HOSTILE = f"{MARKUP} {UNSEEN} \ud800 عربى"


class Element:
    """One element of a page: its attributes, and the text below it."""

    def __init__(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        self.tag = tag
        self.attributes = {name: value or "" for name, value in attributes}
        self.text = ""


class Html(HTMLParser):
    """A page as a browser takes it apart."""

    _EMPTY = frozenset(("meta", "link", "img", "input", "br"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.unclosed: list[Element] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, attrs))
        if tag not in self._EMPTY:
            self.unclosed.append(self.elements[-1])

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed, f"</{tag}> closes nothing"
        closed = self.unclosed.pop()
        assert closed.tag == tag, f"</{tag}> closes <{closed.tag}>"

    def handle_data(self, data: str) -> None:
        for element in self.unclosed:
            element.text += data

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def text(self, tag: str) -> str:
        """Return the text of the only element of this kind, on one line."""
        (element,) = self.all(tag)
        return " ".join(element.text.split())

    def rows(self) -> list[str]:
        """Return the rows of the tables, without their heads, each cell's text behind the other's."""
        found: list[list[str]] = []
        for element in self.elements:
            if element.tag == "tr":
                found.append([])
            elif element.tag in ("td", "th"):
                found[-1].append(" ".join(element.text.split()))
        return [" ".join(row) for row in found[1:]]

    def links(self) -> list[str]:
        return [element.attributes["href"] for element in self.all("a")]


class Shown:
    """The page, what it stands on, and a client of it."""

    def __init__(self, log: MemoryLog, artifacts: MemoryArtifacts, app: ASGIApp, client: httpx2.AsyncClient) -> None:
        self.log = log
        self.artifacts = artifacts
        self.app = app
        self.client = client

    async def get(self, path: str, *, status: int = 200) -> Html:
        """Return the page at *path*."""
        answer = await self.client.get(path)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:400]}"
        return Html(answer.text)


def app_over(
    log: MemoryLog, artifacts: MemoryArtifacts, *, traces: Path = Path("nowhere"), wait: float = 30.0
) -> ASGIApp:
    """Return the page over these stores."""
    snapshots = MemorySnapshots()
    sources = Sources(
        log=log, snapshots=snapshots, artifacts=artifacts, archives=MemoryArchives(), anchors=MemoryAnchors()
    )
    known = Conversations(log=log, snapshots=snapshots, writer="page")
    listed = KnownList(Listing(MemoryKeptList(), keys=MemoryKeys()), changes=MemoryLogChanges(log), log=log)
    return page(sources, known, traces=traces, listed=listed, letters=MemoryDeadLetters(), wait_seconds=wait)


def client_of(app: ASGIApp) -> httpx2.AsyncClient:
    """Return a client of *app*, without any network."""
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=HOST)


@asynccontextmanager
async def shown(*talks: Talk, traces: Path = Path("nowhere"), wait: float = 30.0) -> AsyncIterator[Shown]:
    """Yield the page over the logs and artifacts of *talks*."""
    log, artifacts = MemoryLog(), MemoryArtifacts()
    for talk in talks:
        await fill(log, artifacts, talk)
    app = app_over(log, artifacts, traces=traces, wait=wait)
    async with client_of(app) as client:
        yield Shown(log, artifacts, app, client)


async def fill(log: MemoryLog, artifacts: MemoryArtifacts, talk: Talk, *, first: int = 0) -> None:
    """Store what *talk* has said and done, from the record *first* on."""
    for record in talk.records[first:]:
        await store(log, talk, record)
    for body in talk.bodies.values():
        await artifacts.put(talk.at.tenant, body)


async def store(log: MemoryLog, talk: Talk, record: Record) -> None:
    """Store one record."""
    if record.side == "said":
        await log.say(talk.at, record.body, message_id=f"{talk.at}-{record.seq}", headers=record.headers)
        return
    newest = [one.seq for one in await log.read(talk.at, after=0) if one.side == "done"]
    stored = await log.append(
        talk.at,
        record.body,
        expected_seq=newest[-1] if newest else 0,
        commit_id=f"{talk.at}-{record.seq}",
        headers=record.headers,
    )
    assert stored, "the record does not follow"


@cache
def hostile() -> Talk:
    """Return a conversation that attacks whoever looks at it; nobody may change it."""
    talk = Talk(small(), at=address('evil "><script>', "tests"))
    talk.append(system(f"be {MARKUP}"))
    for turn in range(10):
        talk.play(user(f"{HOSTILE} {turn} {words(50)}"))
        serve(talk)
        talk.play(
            assistant(HOSTILE, f"c{turn}", arguments='{"x": "<script>window.hacked = 1</script>"}'),
            result(f"c{turn}", f"{HOSTILE} {words(500 if turn % 4 == 0 else 30)}"),
            assistant(f"done {HOSTILE}"),
        )
    return talk
