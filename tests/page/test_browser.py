"""The page in a real Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.cli.page import serving_page
from storage.memory import MemoryArtifacts, MemoryLog
from tests.audit.recorded import recorded
from tests.builders import Talk, policy, user, words
from tests.page.browsing import NARROW, WIDE, Site
from tests.page.chromium import chromium
from tests.page.shown import app_over, fill, hostile


def views(talk: Talk) -> dict[str, str]:
    """Return the address of each view by its name."""
    at = f"/c/{talk.at}"
    newest = talk.state.version
    return {
        "list": "/",
        "timeline": at,
        "version": f"{at}/v/{newest}",
        "sent": f"{at}/v/{newest}?as=sent",
        "diff": f"{at}/diff?a={newest // 2}&b={newest}",
        "why": f"{at}/why/4",
        "where": f"{at}/where?text=payments",
        "artifacts": f"{at}/artifacts",
        "policy": f"{at}/policy",
        "costs": "/costs",
        "policies": "/policies",
        "letters": "/letters",
        "artifact": f"{at}/artifact/messages:1-3",
        "verify": f"{at}/verify?run=1",
        "trace": f"{at}/trace/{'0' * 32}",
        "error": "/c/not/there",
    }


@pytest.fixture(scope="module")
async def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture(scope="module")
async def site(installs: None, log: MemoryLog) -> AsyncIterator[Site]:
    artifacts = MemoryArtifacts()
    for talk in (recorded(), hostile()):
        await fill(log, artifacts, talk)
    async with serving_page(app_over(log, artifacts)) as url, chromium() as shared:
        yield Site(url, shared)


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("talk", [recorded(), hostile()], ids=["recorded", "hostile"])
async def test_every_view_is_readable_and_stays_within_its_width(site: Site, talk: Talk, width: int) -> None:
    await site.look(views(talk), of="recorded" if talk is recorded() else "hostile", width=width)


async def test_nothing_of_a_hostile_conversation_is_ever_executed(site: Site) -> None:
    talk = hostile()
    at = f"/c/{talk.at}"
    async with site.page() as page:
        paths = [*views(talk).values(), *(f"{at}/why/{number}" for number in range(6)), f"{at}/v/3?as=sent"]
        paths += [f"{at}/where?text=%3Cscript%3Ewindow.hacked=1%3C/script%3E", f"{at}/artifact/messages:1-9"]
        for path in paths:
            await page.goto(site.url + path)
            await page.wait_for_function("window.htmx !== undefined")
            assert await page.evaluate("window.hacked") is None, path
            assert await page.locator("main script, main img, main svg, main iframe, main style").count() == 0, path


async def test_what_came_into_a_page_all_the_same_would_not_run(site: Site) -> None:
    complaints: list[str] = []
    async with site.page(complaints=complaints) as page:
        await page.goto(f"{site.url}/c/{hostile().at}")
        blocked = await page.evaluate("""() => new Promise((done) => {
            const blocked = [];
            document.addEventListener("securitypolicyviolation", (event) => {
                blocked.push(event.effectiveDirective);
                if (blocked.length === 3) done(blocked.sort());
            });
            document.querySelector("h1").innerHTML = '<img src="/x" onerror="window.hacked = 1">';
            const script = document.createElement("script");
            script.textContent = "window.hacked = 2";
            document.body.append(script);
            const away = new Image(); away.src = "http://127.0.0.1:9/x.png";
        })""")
        assert blocked == ["img-src", "script-src-attr", "script-src-elem"]
        assert await page.evaluate("window.hacked") is None
    assert sum("violates the following Content Security Policy directive" in one for one in complaints) == len(blocked)


async def test_the_chart_is_drawn_from_every_version(site: Site) -> None:
    talk = recorded()
    async with site.page() as page:
        await page.goto(f"{site.url}/c/{talk.at}")
        drawn = page.locator("#chart[data-drawn]")
        await drawn.wait_for()
        assert await drawn.get_attribute("data-drawn") == str(talk.state.version)
        for series in ("tokens", "usable", "trigger", "target", "digest"):
            assert await drawn.locator(".u-legend").get_by_text(series, exact=True).count() == 1
        inked = """() => {
            const canvas = document.querySelector("#chart canvas");
            const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return bytes.some((one) => one > 0);
        }"""
        assert await page.evaluate(inked)


async def test_all_but_the_chart_works_without_javascript(site: Site) -> None:
    talk = recorded()
    async with site.page(scripts=False) as page:
        await page.goto(site.url)
        await page.get_by_role("link", name=str(talk.at)).click()
        await page.get_by_text("The chart needs JavaScript").wait_for()
        await page.get_by_role("link", name="Next").click()
        await page.get_by_text("Page 2 of 2").first.wait_for()
        await page.get_by_label("Compare").fill("20")
        await page.get_by_label("with").fill("60")
        await page.get_by_role("button", name="Compare").click()
        await page.get_by_role("heading", name="Version 20 → 60").wait_for()
        await page.get_by_role("link", name="version 30", exact=True).first.click()
        await page.get_by_role("heading", name="What became of what was in them").wait_for()
        await page.get_by_role("link", name="JSON as sent").click()
        await page.get_by_label("Profile").select_option("anthropic-messages")
        await page.get_by_role("button", name="Show").click()
        await page.get_by_text("characters; open").first.click()
        await page.get_by_text('"role": "user"').first.wait_for()
        await page.get_by_role("link", name="Timeline").click()
        await page.get_by_label("Why is message").fill("4")
        await page.get_by_role("button", name="Explain").click()
        await page.get_by_role("heading", name="What happened to it").wait_for()
        await page.get_by_role("link", name="Artifacts").click()
        await page.locator("tbody th a").first.click()
        await page.get_by_label("Lines", exact=True).fill("1-2")
        await page.get_by_role("button", name="Show").click()
        await page.get_by_role("heading", name="Artifact").wait_for()
        await page.get_by_role("link", name="Search").click()
        await page.get_by_label("Text, exactly").fill("ledger")
        await page.keyboard.press("Enter")
        await page.get_by_text("It stands verbatim in the view.").wait_for()
        await page.get_by_role("link", name="Verify").click()
        await page.get_by_role("button", name="Verify").click()
        await page.get_by_text("Everything is as it was written").wait_for()


async def test_the_verdict_comes_into_the_page_in_place(site: Site) -> None:
    async with site.page() as page:
        await page.goto(f"{site.url}/c/{recorded().at}/verify")
        await page.evaluate("window.same = true")
        await page.get_by_role("button", name="Verify").click()
        await page.get_by_text("Everything is as it was written").wait_for()
        assert await page.evaluate("window.same")


async def test_the_keyboard_reaches_the_content_first_and_shows_where_it_is(site: Site) -> None:
    async with site.page() as page:
        await page.goto(f"{site.url}/c/{recorded().at}")
        await page.wait_for_function("document.hasFocus()")
        await page.keyboard.press("Tab")
        await page.wait_for_function("document.activeElement !== document.body")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        seen: list[str] = []
        for _ in range(12):
            await page.keyboard.press("Tab")
            focused = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
            tag, outline = await page.evaluate(focused)
            assert outline != "none", f"the focus on {tag} is not visible"
            seen.append(await page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
        assert seen[:5] == ["Timeline", "Diff", "Search", "Artifacts", "Policy"]


async def test_the_list_follows_what_happens(site: Site, log: MemoryLog) -> None:
    talk = Talk(policy(2000), at=type(recorded().at)(tenant=recorded().at.tenant, conversation=hostile().at.tenant))
    talk.play(user(words(100)))
    await fill(log, MemoryArtifacts(), talk)
    known = len(talk.records)
    async with site.page() as page:
        await page.goto(site.url)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(talk.at), exact=True))
        assert await row.get_by_role("cell").nth(2).text_content() == f"{talk.state.live_tokens:,}"
        await row.get_by_role("link").focus()
        talk.play(user(words(900)))
        await fill(log, MemoryArtifacts(), talk, first=known)
        await row.get_by_role("cell").get_by_text(f"{talk.state.live_tokens:,}", exact=True).wait_for()
        assert await page.evaluate("document.activeElement.textContent") == str(talk.at), "the focus is kept"
