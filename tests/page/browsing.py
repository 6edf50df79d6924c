"""The page in a browser: opened, watched for what must not happen, and looked at.

`PAGE_SHOTS=FOLDER` keeps a picture of each view, light and dark, wide and narrow.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Page, Request

SHOTS = os.environ.get("PAGE_SHOTS", "")
WIDE, NARROW = 1280, 375
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

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


class Site:
    """The page in a browser."""

    def __init__(self, url: str, shared: Page) -> None:
        self.url = url.rstrip("/")
        self._page = shared
        # Playwright gives up after 30 seconds; it draws by software here, and others may use the machine
        shared.set_default_timeout(180_000)

    @asynccontextmanager
    async def page(
        self,
        *,
        scripts: bool = True,
        complaints: list[str] | None = None,
    ) -> AsyncIterator[Page]:
        """Yield the page. Dialogs, complaints of the browser and requests to elsewhere are *complaints*, or fail."""
        page = self._page
        found: list[str] = [] if complaints is None else complaints

        def said(message: ConsoleMessage) -> None:
            if not any(status in message.text for status in ("404 (Not Found)", "410 (Gone)")):
                found.append(message.text)

        def asked(request: Request) -> None:
            if not request.url.startswith(f"{self.url}/"):
                found.append(f"asked {request.url}")

        listeners: dict[Any, Callable[[Any], None]] = {
            "pageerror": lambda error: found.append(f"error: {error}"),
            "dialog": lambda dialog: found.append(f"dialog: {dialog.message}"),
            "console": said,
            "request": asked,
        }
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        await page.set_viewport_size({"width": WIDE, "height": 900})
        await page.emulate_media(color_scheme="light")
        for event, listener in listeners.items():
            page.on(event, listener)
        try:
            yield page
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            await devtools.detach()
            await page.goto("about:blank")
        assert complaints is found or found == []

    async def look(self, views: Mapping[str, str], *, of: str, width: int) -> None:
        """Open each of *views*: all text must be readable, light and dark, and nothing stand out of the window."""
        async with self.page() as page:
            await page.set_viewport_size({"width": width, "height": 900})
            for name, path in views.items():
                await page.goto(self.url + path)
                if await page.locator("#chart").count():
                    await page.wait_for_selector("#chart[data-drawn]")
                for scheme in SCHEMES:
                    await page.emulate_media(color_scheme=scheme)
                    assert await page.evaluate(FAINT, [CONTRAST_MIN, LARGE_CONTRAST_MIN]) == [], f"{name} {scheme}"
                    wide = await page.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, f"{name} is {wide} wide"
                    if SHOTS:
                        await page.screenshot(path=Path(SHOTS) / f"{of}-{name}-{scheme}-{width}.png")
