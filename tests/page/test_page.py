"""The page as HTML: every view says what the audit says, and no text of a conversation becomes part of it."""

from __future__ import annotations

import re
from collections import Counter, deque
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import httpx2
import msgspec
import pytest

from actors.audit.diff import diff
from actors.audit.versions import served_context, versions
from actors.audit.why import why
from actors.core.pressure import target_tokens, trigger_tokens
from actors.page.escape import visible
from actors.runtime.fold import decisions
from protocol import subjects
from protocol.subjects import ACTORS
from tests.audit.recorded import recorded
from tests.audit.test_call_views import OLD, VALUE, cut_for_one_call
from tests.builders import Talk
from tests.page.shown import HOST, HOSTILE, MARKUP, UNSEEN, Html, Shown, hostile, shown

OF_EACH_KIND = 8
"""Pages that are looked at where hundreds differ in a number only."""


async def every_page(site: Shown, start: str = "/") -> dict[str, Html]:
    """Follow the links from *start* on, some of each kind; return the pages by their addresses."""
    found: dict[str, Html] = {}
    kinds: Counter[str] = Counter()
    waiting = deque([start])
    while waiting:
        path = waiting.popleft()
        kind = re.sub(r"[0-9a-f]{16,}|[0-9]+", "#", path)
        if path in found or kinds[kind] >= OF_EACH_KIND:
            continue
        kinds[kind] += 1
        answer = await site.client.get(path)
        # a conversation has no trace files here, all else is there
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        if "text/html" not in answer.headers["content-type"]:
            continue
        found[path] = Html(answer.text)
        waiting += [link.partition("#")[0] or "/" for link in found[path].links() if not link.startswith("#")]
    return found


async def test_the_list_shows_every_conversation_with_its_pressure() -> None:
    talk = recorded()
    async with shown(talk, hostile()) as site:
        page = await site.get("/")
    usable = talk.state.usable_tokens
    rows = page.rows()
    (row,) = [row for row in rows if row.startswith(str(talk.at))]
    share = f"{talk.state.live_tokens / usable * 100:.0f} %"
    sizes = f"{talk.state.live_tokens:,} {usable:,} {talk.state.spent.said_tokens:,}"
    assert row == f"{talk.at} – {share} {sizes} {talk.state.messages} {talk.state.version} ready –"
    assert len(rows) == 2


async def test_the_timeline_has_a_row_for_every_version() -> None:
    talk = recorded()
    wanted = [row for row in versions(talk.at, talk.records) if row.stage == "digest"]
    async with shown(talk) as site:
        first = await site.get(f"/c/{talk.at}")
        second = await site.get(f"/c/{talk.at}?page=2")
        digests = await site.get(f"/c/{talk.at}?stage=digest")
    listed = [int(row.text.split()[0]) for page in (first, second) for row in page.all("tr")[1:]]
    assert listed == list(range(talk.state.version, 0, -1))
    assert [int(row.text.split()[0]) for row in digests.all("tr")[1:]] == [row.version for row in reversed(wanted)]


async def test_the_chart_has_the_numbers_of_the_table() -> None:
    talk = recorded()
    rows = list(versions(talk.at, talk.records))
    async with shown(talk) as site:
        columns = msgspec.json.decode((await site.client.get(f"/c/{talk.at}/chart.json")).content)
    assert columns["version"] == [row.version for row in rows]
    assert columns["tokens"] == [row.after_tokens for row in rows]
    states = [decision.after for decision in decisions(talk.at, talk.records)]
    assert columns["usable"] == [state.usable_tokens for state in states]
    assert columns["trigger"] == [trigger_tokens(state) for state in states]
    assert columns["target"] == [target_tokens(state) for state in states]
    assert set(columns["marked"]) >= set(ACTORS)
    applied = [row.stage if row.outcome == "applied" else "" for row in rows]
    assert columns["stage"] == [stage if stage in columns["marked"] else "" for stage in applied]


async def test_a_served_version_is_shown_and_given_byte_for_byte() -> None:
    talk = recorded()
    found = served_context(talk.at, talk.records)
    assert found.view is not None
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/v/{found.version}")
        answer = await site.client.get(f"/c/{talk.at}/v/{found.version}/served.json")
        none = await site.client.get(f"/c/{talk.at}/v/1/served.json")
    assert found.view.hash in " ".join(element.text for element in page.all("p"))
    assert answer.content == found.view.body
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert none.status_code == 404


async def test_a_version_shows_every_message_of_its_view_in_order() -> None:
    talk = recorded()
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/v/{talk.state.version}")
        sent = await site.get(f"/c/{talk.at}/v/{talk.state.version}?as=sent&profile=anthropic-messages")
    numbers = [int(link.rpartition("/")[2].partition("?")[0]) for link in page.links() if "/why/" in link]
    seen = talk.view()
    head = sum(entry.leading for entry in talk.state.entries if entry.number in seen.numbers)
    assert numbers == [*seen.numbers[:head], 0, *seen.numbers[head:]]
    assert len(sent.all("article")) > 3


async def test_a_compaction_says_what_it_lost() -> None:
    talk = recorded()
    (row, *_) = [row for row in versions(talk.at, talk.records, losses=True) if row.stage == "digest"]
    assert row.loss is not None
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/v/{row.version}")
    for name, one in row.loss.categories.items():
        assert f"{name} {one.retained:,} {one.recoverable:,} {one.lost:,}" in page.rows()


async def test_a_diff_shows_what_the_audit_found() -> None:
    talk = recorded()
    version = next(row.version for row in versions(talk.at, talk.records) if row.stage == "digest")
    found = diff(talk.at, talk.records, older=version - 1, newer=version)
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/diff?a={version - 1}&b={version}&full=1")
        same = await site.get(f"/c/{talk.at}/diff?a=3&b=3&only=changed")
    assert page.text("h1") == f"Version {version - 1} → {version}"
    kinds = {element.attributes["class"].removeprefix("group is-") for element in page.all("section")}
    assert kinds == {row.did for row in found.rows}
    added = [element.text for element in page.all("span") if element.attributes.get("class") == "ins"]
    (digest,) = [row for row in found.rows if not row.number]
    assert "".join(line.removeprefix("+") for line in added) == visible(digest.after) + "\n"
    assert same.all("section") == []


async def test_why_tells_the_rule_and_the_policy() -> None:
    talk = recorded()
    found = why(talk.at, talk.records, number=4)
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/why/4")
        jump = await site.client.get(f"/c/{talk.at}/why?message=4&v=9")
    told = page.text("main")
    for event in found.history:
        assert event.rule in told
        assert all(key in told for key in event.policy)
    assert jump.headers["location"] == f"/c/{talk.at}/why/4?v=9"


async def test_a_search_names_versions_and_places() -> None:
    async with shown(recorded()) as site:
        found = await site.get(f"/c/{recorded().at}/where?text=ledger")
        nothing = await site.get(f"/c/{recorded().at}/where?text=never-said")
    assert "retained It stands verbatim in the view." in found.text("main")
    assert "absent It was never said." in nothing.text("main")


async def test_every_page_tells_that_a_view_was_cut_for_one_call() -> None:
    talk, version = cut_for_one_call()
    tokens = f"{served_context(talk.at, talk.records).served.tokens:,}"
    at = f"/c/{talk.at}"
    async with shown(talk) as site:
        listed = await site.get(at)
        page = await site.get(f"{at}/v/{version}")
        compared = await site.get(f"{at}/diff?a={version - 1}&b={version}")
        explained = await site.get(f"{at}/why/{OLD}?v={version}")
        found = await site.get(f"{at}/where?text={VALUE}")
    (row,) = [row for row in listed.rows() if row.startswith(f"{version} ")]
    assert f" {tokens} " in row
    for one in (row, page.text("main"), explained.text("main")):
        assert "cut for this call alone" in one
    assert f"{OLD} user cut" in " ".join(page.rows())
    assert f"for the call alone of version {version}" in compared.text("main")
    assert "not in the view" in explained.text("h1")
    assert f"1 call was served without it, cut for that call alone: version {version}." in found.text("main")


async def test_an_artifact_is_read_in_slices() -> None:
    talk = recorded()
    key, body = max(talk.bodies.items(), key=lambda item: item[1].count(b"\n"))
    lines = body.decode().split("\n")
    async with shown(talk) as site:
        listed = await site.get(f"/c/{talk.at}/artifacts")
        part = await site.get(f"/c/{talk.at}/artifact/{key}?lines=2-3")
        refused = await site.get(f"/c/{talk.at}/artifact/{key}?lines=9-1", status=400)
    assert f"/c/{talk.at}/artifact/{key}" in listed.links()
    (shown_part,) = part.all("pre")
    assert shown_part.text == "\n" + visible("\n".join(lines[1:3])), "a browser drops the first line end"
    assert "a range counts from 1" in refused.text("main")


async def test_verify_judges_when_the_button_is_pressed() -> None:
    talk = recorded()
    async with shown(talk) as site:
        before = await site.get(f"/c/{talk.at}/verify")
        fine = await site.get(f"/c/{talk.at}/verify?run=1")
        key = next(iter(talk.bodies))
        site.artifacts._bodies.pop((talk.at.tenant, key))
        bad = await site.get(f"/c/{talk.at}/verify?run=1")
    assert before.text("button") == "Verify"
    assert f"fine Everything is as it was written, up to version {talk.state.version}." in (fine.text("main"))
    assert key in bad.text("main")


async def test_a_trace_is_drawn_as_a_tree(tmp_path: Path) -> None:
    talk, ident = recorded(), "0123456789abcdef0123456789abcdef"
    conversation = {"key": "gen_ai.conversation.id", "value": {"stringValue": talk.at.conversation}}
    spans = [
        {
            "traceId": ident,
            "spanId": "b",
            "parentSpanId": "a",
            "name": "<b>",
            "startTimeUnixNano": "2",
            "endTimeUnixNano": "3000002",
        },
        {"traceId": ident, "spanId": "a", "name": "compact", "startTimeUnixNano": "1", "endTimeUnixNano": "5000001"},
    ]
    line = {"resourceSpans": [{"scopeSpans": [{"spans": [{**one, "attributes": [conversation]} for one in spans]}]}]}
    (tmp_path / "x.jsonl").write_bytes(msgspec.json.encode(line) + b"\n")
    async with shown(talk, traces=tmp_path) as site:
        page = await site.get(f"/c/{talk.at}/trace/{ident}")
        none = await site.get(f"/c/{talk.at}/trace/{'0' * 32}")
        await site.get(f"/c/{talk.at}/trace/nonsense", status=404)
    assert page.rows() == ["compact 0 5.0 – – –", "<b> 1 3.0 – – –"]
    assert "No span of this trace" in none.text("main")


@pytest.mark.parametrize("talk", [recorded(), hostile()], ids=["recorded", "hostile"])
async def test_every_page_is_whole_and_labelled_and_holds_nothing_that_runs(talk: Talk) -> None:
    async with shown(talk) as site:
        await site.get(f"/c/{talk.at}/where?text={'%3Cscript%3E' if talk is hostile() else 'ledger'}")
        pages = await every_page(site)
    assert len(pages) > 3 * OF_EACH_KIND
    for path, page in pages.items():
        assert page.unclosed == [], path
        assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1, path
        assert {element.tag for element in page.elements}.isdisjoint({"style", "iframe", "object", "svg", "b"}), path
        assert all(script.attributes.get("src", "").startswith("/static/") for script in page.all("script")), path
        names = {name for element in page.elements for name in element.attributes}
        assert {name for name in names if name.startswith(("on", "hx-on", "data-hx", "style"))} == set(), path
        hrefs = [element.attributes.get("href", element.attributes.get("src", "/")) for element in page.elements]
        assert all(href.startswith(("/", "#")) and not href.startswith("//") for href in hrefs), path
        assert len(page.all("table")) == len(page.all("caption")), path
        assert all(cell.attributes.get("scope") for cell in page.all("th")), path
        levels = [int(element.tag[1]) for element in page.elements if element.tag in ("h1", "h2", "h3")]
        assert levels[0] == 1, path
        assert all(below - above <= 1 for above, below in pairwise(levels)), f"{path} skips a heading"
        ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
        assert len(ids) == len(set(ids)), path
        fields = [field for kind in ("input", "select") for field in page.all(kind)]
        assert len([one for one in fields if one.attributes.get("type") != "hidden"]) == len(page.all("label")), path


async def test_what_is_unseen_is_shown_and_what_is_markup_stays_text() -> None:
    talk = hostile()
    async with shown(talk) as site:
        page = await site.get(f"/c/{talk.at}/why/2")
    (said,) = page.all("pre")
    assert MARKUP in said.text
    assert visible(UNSEEN) in said.text
    assert visible(UNSEEN) == (
        "⟨U+001B⟩[31mred⟨U+0007⟩ ⟨U+202E⟩evil⟨U+202C⟩ ⟨U+200B⟩zero ⟨U+E0041⟩tag ⟨U+2066⟩isolated⟨U+0000⟩"
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", said.text)
    assert visible("👨‍👩‍👧 a\tb\r\nc") == "👨‍👩‍👧 a\tb\nc"


async def test_only_this_machine_may_ask_and_only_to_read() -> None:
    talk = recorded()
    path = f"/c/{talk.at}"
    async with shown(talk) as site:
        for host in ("evil.example", "127.0.0.1.evil.example", ""):
            assert (await site.client.get(path, headers={"Host": host})).status_code == 400, host
        for host in ("localhost:8321", "127.0.0.1:1", "[::1]:8321"):
            assert (await site.client.get(path, headers={"Host": host})).status_code == 200, host
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await site.client.request(method, path)).status_code == 405, method
        behind = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert (await site.client.get(f"{path}/verify?run=1", headers=behind)).status_code == 403
        followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await site.client.get(path, headers=followed)).status_code == 200


async def test_every_answer_has_the_headers() -> None:
    async with shown(recorded()) as site:
        answers = [
            await site.client.get(path)
            for path in ("/", "/nothing", "/c/x/y", "/c/%22/y", f"/c/{recorded().at}/chart.json", "/static/page.css")
        ]
        refused = await site.client.get("/", headers={"Host": "evil.example"})
    assert [answer.status_code for answer in answers] == [200, 404, 404, 400, 200, 200]
    for answer in (*answers, refused):
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v/0", 404),
        ("/v/99999", 404),
        ("/v/1e3", 400),
        ("/v/٣", 400),
        ("/v/1?profile=none", 400),
        ("/diff?a=0&b=2", 404),
        ("/diff?a=1&b=99999", 404),
        ("/diff?a=x", 400),
        ("/why/99999", 404),
        ("/why/-1", 400),
        ("/why/2?v=9999999999999999", 400),
        ("/artifact/..%2f..%2fetc", 404),
        ("/artifact/zz", 404),
        ("/artifact/messages:9999", 404),
        ("/artifact/messages:1?pattern=(", 400),
        ("/artifact/messages:1?json_path=$..%5b", 400),
        ("?page=abc", 400),
    ],
)
async def test_what_cannot_be_asked_is_one_sentence(path: str, status: int) -> None:
    async with shown(recorded()) as site:
        page = await site.get(f"/c/{recorded().at}{path}", status=status)
    assert 10 < len(page.text("main")) < 300


@pytest.mark.parametrize(
    "path", ["?page=0", "?page=99999", "?stage=none", "/where", "/where?text=%ff%00", "/v", "/v?version="]
)
async def test_what_is_odd_is_answered(path: str) -> None:
    async with shown(recorded()) as site:
        assert (await site.client.get(f"/c/{recorded().at}{path}")).status_code in (200, 303)


async def test_a_search_for_what_utf8_cannot_hold_finds_nothing() -> None:
    async with shown(hostile()) as site:
        page = await site.get(f"/c/{hostile().at}/where?text=%ED%A0%80")
    assert "absent" in page.text("main")
    assert HOSTILE  # which has half a pair, and was said all the same


def test_what_is_vendored_has_its_licence_beside_it() -> None:
    static = files("actors.page") / "static"
    names = {entry.name for entry in static.iterdir()}
    assert {"htmx-4.0.1.min.js", "htmx-4.0.1.LICENSE", "uplot-1.6.32.min.js", "uplot-1.6.32.min.css"} < names
    assert "uplot-1.6.32.LICENSE" in names
    pages = (files("actors.page") / "templates" / "base.html").read_text()
    assert re.findall(r"https?://", pages) == []


async def test_an_error_of_our_own_says_nothing_of_itself_and_has_the_headers(caplog: pytest.LogCaptureFixture) -> None:
    async with shown(recorded()) as site:
        site.log._records[recorded().at] = None  # type: ignore[assignment]
        transport = httpx2.ASGITransport(app=site.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HOST) as client:
            answer = await client.get(f"/c/{recorded().at}")
    assert answer.status_code == 500
    assert "content-security-policy" in answer.headers
    assert "an error of its own" in answer.text
    assert "TypeError" not in answer.text
    assert subjects.LOG_STREAM not in answer.text
