"""A real Chromium for the tests: Debian's where there is one, else the one that a wheel from the package index carries.

`python -m tests.page.chromium` runs the wheel's, Qt WebEngine, without a display. It has one page and no second
context, so that is all the tests use of either.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tests.stack import LOOPBACK, ROOT, free_port, missing

if TYPE_CHECKING:
    from playwright.async_api import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
STARTING_SECONDS = 180.0
SAID = b"DevTools listening on "


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Yield the one page of a Chromium; where there is none, skip the test, in CI fail it."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        if CHROMIUM:
            # Chromium does not start its sandbox for root, which is who runs tests in a container
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=flags)
            yield await browser.new_page()
            await browser.close()
            return
        if find_spec("PySide6") is None:
            missing("a Chromium: apt-get install chromium, or pip install --require-hashes -r infra/lock/browser.txt")
        async with _wheel() as url:
            # no defaults: Playwright would set up downloads, for which Qt has no place
            browser = await driver.chromium.connect_over_cdp(url, no_defaults=True)
            context = browser.contexts[0]
            yield context.pages[0] if context.pages else await context.wait_for_event("page")


@asynccontextmanager
async def _wheel() -> AsyncIterator[str]:
    """Run the wheel's Chromium in a process of its own; yield where it speaks the DevTools protocol."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.page.chromium", cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    told = bytearray()
    try:
        url = await asyncio.wait_for(_listening(process.stderr, told), STARTING_SECONDS)
        if not url:
            missing(f"what Qt WebEngine needs (apt-get install chromium brings it): {told.decode(errors='replace')}")
        rest = asyncio.create_task(_drained(process.stderr))
        yield url
        rest.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _listening(stderr: asyncio.StreamReader, told: bytearray) -> str:
    """Return the address that is said on *stderr*; what else is said goes to *told*. Nothing: it has ended."""
    async for line in stderr:
        if line.startswith(SAID):
            return line.removeprefix(SAID).decode().strip()
        told += line
    return ""


async def _drained(stderr: asyncio.StreamReader) -> None:
    async for _ in stderr:
        pass


def main() -> None:
    """Run Qt WebEngine with one page until told to stop."""
    os.environ |= {
        "QT_QPA_PLATFORM": "offscreen",
        "QT_QUICK_BACKEND": "software",
        "QTWEBENGINE_CHROMIUM_FLAGS": "--disable-gpu",
        "QTWEBENGINE_DISABLE_SANDBOX": "1",  # containers often allow none, and it opens our own page alone
        "QTWEBENGINE_REMOTE_DEBUGGING": f"{LOOPBACK}:{free_port()}",  # it refuses port 0
    }
    from PySide6.QtCore import QUrl
    from PySide6.QtWebEngineWidgets import QWebEngineView
    from PySide6.QtWidgets import QApplication

    application = QApplication([])
    view = QWebEngineView()
    view.setUrl(QUrl("about:blank"))
    view.show()
    sys.exit(application.exec())


if __name__ == "__main__":
    main()
