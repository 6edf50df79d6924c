"""What people asked for with the real commands, as the page shows it: put back, gone back, copied, erased."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp

from actors.audit.diff import diff
from actors.audit.versions import versions
from actors.cli.page import page_of, serving_page
from actors.cli.session import located
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.services.undo import Undo
from protocol.facts import ToolOutputSpilled
from protocol.ids import written_address
from protocol.service_messages import ExpandAsked, Expanded, Rewound
from tests.cli.test_cli import SAMPLE, jettison
from tests.conftest import done_facts, spilling
from tests.page.browsing import NARROW, WIDE, Site
from tests.page.chromium import chromium
from tests.page.shown import Html, client_of
from tests.stack import jettison_up

# the first test waits for six processes to start, which takes a minute where others work too
pytestmark = pytest.mark.timeout(300)


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations to which everything was done that a person may ask for."""

    at: str
    digested: int
    """The version of the first digest."""
    gone: int
    """A message that it took out of the view."""
    expand: Expanded
    unspill: Expanded
    rewind: Rewound
    fork: str
    erased: str
    certificate: dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("page")
    with jettison_up(folder):
        yield folder


@pytest.fixture(scope="module")
async def running(data: Path) -> AsyncIterator[Runtime]:
    async with runtime(located(Settings(data=str(data))), role="test") as connected:
        yield connected


@pytest.fixture(scope="module")
def app(data: Path, running: Runtime) -> ASGIApp:
    return page_of(running, traces=data / "traces", wait_seconds=60)


@pytest.fixture(scope="module")
async def undone(data: Path, running: Runtime) -> Undone:
    async def command(*arguments: str) -> Any:
        return msgspec.json.decode((await asyncio.to_thread(commanded, data, *arguments)).stdout)

    name = (
        await command(
            "compact", str(SAMPLE), "--budget", "8000", "--by-turn", "--json", "--policy", str(spilling(data))
        )
    )["address"]
    at = written_address(name)
    records = await running.log.read(at, after=0)
    rows = list(versions(at, records))
    digested = next(row.version for row in rows if "HistoryAccounted" in row.facts)
    changed = diff(at, records, older=digested - 1, newer=rows[-1].version).rows
    # a small one: views use their budget, and it must fit when it comes back
    digested_rows = [row for row in changed if row.did == "digested" and row.role == "user" and row.number]
    gone = min(digested_rows, key=lambda row: (row.before_tokens, row.number)).number
    spilled = [fact for fact in done_facts(records) if isinstance(fact, ToolOutputSpilled)]
    smallest = min(spilled, key=lambda fact: fact.tokens).sha256
    # views use their budget: what comes back needs room
    await asyncio.to_thread(commanded, data, "policy", "set", name, "budget.window=16000")
    undo = Undo(conversations=running.conversations, log=running.log, artifacts=running.artifacts)
    expand = await undo.expand(at, ExpandAsked(messages=str(gone)), headers={})
    unspill = await undo.expand(at, ExpandAsked(artifact=smallest), headers={})
    rewind = await undo.rewind(at, to=digested - 1, headers={})
    for kind in ("fork", "erased"):
        await command("fork", f"{at}@{rewind.version}", f"{at}-{kind}", "--json")
    certificate = await command("erase", f"{at}-erased", "--yes")
    return Undone(
        at=name,
        digested=digested,
        gone=gone,
        expand=expand,
        unspill=unspill,
        rewind=rewind,
        fork=f"{at}-fork",
        erased=f"{at}-erased",
        certificate=certificate,
    )


def commanded(data: Path, *arguments: str) -> CompletedProcess[str]:
    done = jettison(*arguments, "--data", str(data), timeout=180)
    assert done.returncode == 0, done.stderr
    return done


async def read(app: ASGIApp, path: str, *, status: int = 200) -> Html:
    async with client_of(app) as client:
        answer = await client.get(path)
    assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:400]}"
    return Html(answer.text)


def said(html: Html) -> str:
    return " ".join(html.text("main").split())


async def test_what_was_put_back_is_named(app: ASGIApp, undone: Undone) -> None:
    one = await read(app, f"/c/{undone.at}/v/{undone.expand.version}")
    assert f"in full again, until the next compaction: message {undone.gone}." in said(one)
    assert f"/c/{undone.at}/why/{undone.gone}?v={undone.expand.version}" in one.links()
    assert f"message {undone.gone} user restored 0 → " in " ".join(one.rows())
    part = await read(app, f"/c/{undone.at}/v/{undone.unspill.version}")
    # the part alone, where its message stands; else the message with it
    assert "in full again, until the next compaction: " in said(part)
    why = await read(app, f"/c/{undone.at}/why/{undone.gone}")
    assert "expand restored in version" in said(why)


async def test_where_a_rewind_went_is_linked(app: ASGIApp, undone: Undone) -> None:
    version, to = undone.rewind.version, undone.rewind.to_version
    html = await read(app, f"/c/{undone.at}/v/{version}")
    assert f"the context is that of version {to} again, up to message {undone.rewind.upto}" in said(html)
    assert f"/c/{undone.at}/diff?a={to}&b={version}" in html.links()
    same = await read(app, f"/c/{undone.at}/diff?a={to}&b={version}&only=changed")
    assert "(±0)" in said(same)
    timeline = await read(app, f"/c/{undone.at}?stage=rewind")
    assert [row.split()[0] for row in timeline.rows()] == [str(version)]


async def test_the_chart_marks_what_was_put_back_and_where_it_went_back(app: ASGIApp, undone: Undone) -> None:
    async with client_of(app) as client:
        columns = msgspec.json.decode((await client.get(f"/c/{undone.at}/chart.json")).content)
    undone_by = ("expand", "rewind")
    stages = zip(columns["version"], columns["stage"], strict=True)
    assert {version: stage for version, stage in stages if stage in undone_by} == {
        undone.expand.version: "expand",
        undone.unspill.version: "expand",
        undone.rewind.version: "rewind",
    }


async def test_a_fork_leads_to_its_parent(app: ASGIApp, undone: Undone) -> None:
    version = undone.rewind.version
    for path in (f"/c/{undone.fork}", f"/c/{undone.fork}/v/{version + 1}"):
        html = await read(app, path)
        assert f"It began as a copy of {undone.at} at version {version}, whose hash is " in said(html)
        assert f"/c/{undone.at}/v/{version}" in html.links()
    await read(app, f"/c/{undone.fork}/v/{undone.digested}")


async def test_of_what_was_erased_the_tombstone_is_shown_and_nothing_else(app: ASGIApp, undone: Undone) -> None:
    stone, at = undone.certificate["version"], undone.erased
    rows: list[str] = []
    # the list shows what it knows, and does not wait for what takes longer
    async with asyncio.timeout(180):
        while not any(row.endswith(f" erased version {stone} is its tombstone") for row in rows):
            rows = [row for row in (await read(app, f"/?q={at}")).rows() if row.startswith(at)]
    assert len(rows) == 1
    for path in (f"/c/{at}", f"/c/{at}/v/{stone}"):
        html = await read(app, path)
        assert f"with all {undone.certificate['messages']} messages and {stone - 1} versions" in said(html)
        assert undone.certificate["head"] in said(html)
        assert html.all("form") == []
    verdict = await read(app, f"/c/{at}/verify?run=1")
    assert f"It was erased. What is left is as it was written: its tombstone, version {stone}." in said(verdict)
    for path in ("diff", "why/2", "where?text=ledger", "artifacts"):
        gone = await read(app, f"/c/{at}/{path}", status=410)
        assert f"{at} was erased; version {stone}, its tombstone, is all that is left" in said(gone)
    messages = await read(app, f"/c/{at}/artifact/messages:1-9", status=410)
    assert f"{at} was erased" in said(messages)
    for path in ("v/1", f"v/{stone - 1}", f"v/{stone}/served.json"):
        await read(app, f"/c/{at}/{path}", status=404)


async def test_a_version_leads_to_the_spans_that_made_it(app: ASGIApp, undone: Undone) -> None:
    html = await read(app, f"/c/{undone.at}/v/{undone.digested}")
    (link,) = [link for link in html.links() if "/trace/" in link]
    spans = [row.split()[0] for row in (await read(app, link)).rows()]
    assert "compact" in spans


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_every_view_of_them_is_readable(app: ASGIApp, undone: Undone, site: Site, width: int) -> None:
    at, erased = f"/c/{undone.at}", f"/c/{undone.erased}"
    views = {
        "list": "/",
        "timeline": at,
        "expand": f"{at}/v/{undone.expand.version}",
        "unspill": f"{at}/v/{undone.unspill.version}",
        "rewind": f"{at}/v/{undone.rewind.version}",
        "rewind-diff": f"{at}/diff?a={undone.rewind.version - 1}&b={undone.rewind.version}",
        "fork": f"/c/{undone.fork}",
        "fork-version": f"/c/{undone.fork}/v/{undone.rewind.version + 1}",
        "erased": erased,
        "erased-version": f"{erased}/v/{undone.certificate['version']}",
        "erased-diff": f"{erased}/diff",
        "erased-verify": f"{erased}/verify?run=1",
    }
    await site.look(views, of="undone", width=width)


@pytest.fixture(scope="module")
async def site(installs: None, app: ASGIApp) -> AsyncIterator[Site]:
    async with serving_page(app) as url, chromium() as shared:
        yield Site(url, shared)
