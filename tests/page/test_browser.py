"""The page in a real Chromium: Debian's, driven by Playwright. Without one these tests are skipped, and say so.

`PAGE_SHOTS=FOLDER` keeps a picture of each view, light and dark, wide and narrow, to be looked at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from actors.cli.page import serving
from storage.memory import MemoryArtifacts, MemoryLog
from tests.audit.recorded import recorded
from tests.builders import Talk, policy, user, words

from .shown import app_over, fill, hostile

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
SHOTS = os.environ.get("PAGE_SHOTS", "")
WIDE, NARROW = 1280, 400

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="no `chromium` on the path (on Debian: apt-get install chromium)"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="the package playwright is not installed"),
]

CONTRAST_MIN = 4.5
LARGE_CONTRAST_MIN = 3.0

# Returns what is written with less contrast than it must have, against the nearest ground behind it.
FAINT = """
([least, large]) => {
  const parse = (text) => {
    const [r, g, b, a] = text.match(/[\\d.]+/g).map(Number);
    return { rgb: [r, g, b], alpha: a === undefined ? 1 : a };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const found = parse(getComputedStyle(element).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, noscript")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(parse(style.color).rgb), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const told = `${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`;
    if (ratio < (size >= 24 ? large : least)) found.push(told);
  }
  return found;
}
"""


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
        "artifact": f"{at}/artifact/messages:1-3",
        "verify": f"{at}/verify?run=1",
        "trace": f"{at}/trace/{'0' * 32}",
        "error": "/c/not/there",
    }


class Site:
    """The page in a browser."""

    def __init__(self, url: str, browser: Browser, log: MemoryLog) -> None:
        self.url = url.rstrip("/")
        self.browser = browser
        self.log = log

    @asynccontextmanager
    async def page(self, **options: Any) -> AsyncIterator[Page]:
        """Yield a page; it fails on a dialog, on what the browser complains of, and on a request to elsewhere."""
        context = await self.browser.new_context(viewport={"width": WIDE, "height": 900}, **options)
        page = await context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("console", lambda told: complaints.append(told.text) if "404 (Not Found)" not in told.text else None)
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(f"{self.url}/") else complaints.append(f"asked {asked.url}"),
        )
        try:
            yield page
        finally:
            await context.close()
        assert complaints == []


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Site]:
    from playwright.async_api import async_playwright

    log, artifacts = MemoryLog(), MemoryArtifacts()
    for talk in (recorded(), hostile()):
        await fill(log, artifacts, talk)
    # Chromium does not start its sandbox for root, which is who runs tests in a container
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with serving(app_over(log, artifacts)) as url, async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield Site(url, browser, log)
        await browser.close()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("talk", [recorded(), hostile()], ids=["recorded", "hostile"])
async def test_every_view_is_readable_and_stays_within_its_width(
    site: Site, talk: Talk, scheme: str, width: int
) -> None:
    async with site.page(color_scheme=scheme) as page:
        await page.set_viewport_size({"width": width, "height": 900})
        for name, path in views(talk).items():
            await page.goto(site.url + path)
            if name == "timeline":
                await page.wait_for_selector("#chart[data-drawn]")
            assert await page.evaluate(FAINT, [CONTRAST_MIN, LARGE_CONTRAST_MIN]) == [], f"{name} {scheme}"
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            if SHOTS:
                kind = "recorded" if talk is recorded() else "hostile"
                await page.screenshot(path=Path(SHOTS) / f"{kind}-{name}-{scheme}-{width}.png", full_page=False)


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
    context = await site.browser.new_context()
    page = await context.new_page()
    await page.goto(f"{site.url}/c/{hostile().at}")
    await page.evaluate("""() => {
        document.querySelector("h1").innerHTML = '<img src=x onerror="window.hacked = 1">';
        const script = document.createElement("script");
        script.textContent = "window.hacked = 2";
        document.body.append(script);
        const away = new Image(); away.src = "http://127.0.0.1:9/x.png";
    }""")
    await page.wait_for_timeout(300)
    assert await page.evaluate("window.hacked") is None
    await context.close()


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
    async with site.page(java_script_enabled=False) as page:
        await page.goto(site.url)
        await page.get_by_role("link", name=str(talk.at)).click()
        await page.get_by_text("The chart needs JavaScript").wait_for()
        await page.get_by_role("link", name="Next").click()
        await page.get_by_text("Page 2 of 2").first.wait_for()
        await page.get_by_label("Compare").fill("20")
        await page.get_by_label("with").fill("60")
        await page.get_by_role("button", name="Compare").click()
        await page.get_by_role("heading", name="Version 20 → 60").wait_for()
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
        await page.keyboard.press("Tab")
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
        assert seen[:5] == ["Timeline", "Diff", "Search", "Artifacts", "Verify"]


async def test_the_list_follows_what_happens(site: Site) -> None:
    talk = Talk(policy(2000), at=type(recorded().at)(tenant=recorded().at.tenant, conversation=hostile().at.tenant))
    talk.play(user(words(100)))
    await fill(site.log, MemoryArtifacts(), talk)
    known = len(talk.records)
    async with site.page() as page:
        await page.goto(site.url)
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(talk.at), exact=True))
        assert await row.get_by_role("cell").nth(1).text_content() == f"{talk.state.live_tokens:,}"
        await row.get_by_role("link").focus()
        talk.play(user(words(900)))
        await fill(site.log, MemoryArtifacts(), talk, first=known)
        await row.get_by_role("cell").get_by_text(f"{talk.state.live_tokens:,}", exact=True).wait_for(timeout=15_000)
        assert await page.evaluate("document.activeElement.textContent") == str(talk.at), "the focus is kept"
