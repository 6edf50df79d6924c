"""Each page of the built site in a browser: no network is asked, no script fails, nothing hangs over, all is drawn.

python -m tests.programs.docs_check [FOLDER]    with a folder: pictures of every page into it
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from playwright.async_api import ConsoleMessage, Page, Request
from playwright.async_api import TimeoutError as TooLong

from tests.page.chromium import chromium

SITE = Path(__file__).parents[2] / "build" / "docs"
WIDTHS = (1280, 375)
SOUGHT = "tombstone"


async def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    pages = [file for file in sorted(SITE.rglob("*.html")) if file.name != "404.html"]
    wrong: list[str] = []

    def asked(request: Request) -> None:
        if request.url.startswith("http"):
            wrong.append(f"{page.url} asks {request.url}")

    def told(message: ConsoleMessage) -> None:
        if message.type == "error":
            wrong.append(f"{page.url} says {message.text}")

    async with chromium() as page:
        page.on("request", asked)
        page.on("console", told)
        page.on("pageerror", lambda error: wrong.append(f"{page.url} fails: {error}"))
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 900})
                for file in pages:
                    wrong += await _looked_at(page, file, width)
                    if pictures:
                        name = f"{file.relative_to(SITE).with_suffix('')}".replace("/", "_")
                        await page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png", full_page=True)
        wrong += await _searched(page)
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    sys.stdout.write(f"docs-check: {len(pages)} pages at {WIDTHS} pixels, light and dark: {len(wrong)} wrong\n")
    return 1 if wrong else 0


async def _looked_at(page: Page, file: Path, width: int) -> list[str]:
    await page.goto(file.as_uri())
    name = file.relative_to(SITE)
    over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    found = [f"{name} hangs over by {over} at {width}"] if over > 0 else []
    try:
        await page.wait_for_function("!document.querySelector('pre.mermaid')", timeout=10_000)
    except TooLong:
        found.append(f"{name}: a drawing is not drawn")
    return found


async def _searched(page: Page) -> list[str]:
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto((SITE / "index.html").as_uri())
    await page.fill("input.md-search__input", SOUGHT)
    await page.wait_for_function("document.querySelectorAll('.md-search-result__item').length > 0")
    return []


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
