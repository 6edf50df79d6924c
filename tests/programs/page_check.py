"""`make page`: each view of the page before axe-core, light and dark, wide and 375 pixels; pictures of all are kept."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from actors.cli.page import serving_page
from tests.audit.recorded import recorded
from tests.page.chromium import chromium
from tests.page.many import crowded

WIDTHS = (1280, 375)
SCHEMES = ("light", "dark")


def views() -> dict[str, str]:
    """Return the address of each view by its name."""
    talk = recorded()
    at, newest = f"/c/{talk.at}", talk.state.version
    return {
        "list": "/",
        "unreadable": "/?state=unreadable",
        "found": "/?q=返金&sort=pressure&page=2",
        "none": "/?q=nothing+like+it",
        "costs": "/costs",
        "policies": "/policies",
        "letters": "/letters",
        "timeline": at,
        "policy": f"{at}/policy",
        "version": f"{at}/v/{newest}",
        "sent": f"{at}/v/{newest}?as=sent",
        "diff": f"{at}/diff?a={newest // 2}&b={newest}",
        "why": f"{at}/why/4",
        "where": f"{at}/where?text=payments",
        "artifacts": f"{at}/artifacts",
        "artifact": f"{at}/artifact/messages:1-3",
        "verify": f"{at}/verify?run=1",
        "error": "/c/not/there",
    }


async def checked(axe: str, shots: Path) -> list[str]:
    """Return what axe-core finds in any view, and what stands out of the window."""
    shots.mkdir(parents=True, exist_ok=True)
    app, _ = await crowded()
    found: list[str] = []
    async with serving_page(app) as url, chromium() as page:
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 900})
                for name, path in views().items():
                    await page.goto(url.rstrip("/") + path)
                    if await page.locator("#chart").count():
                        await page.wait_for_selector("#chart[data-drawn]")
                    where = f"{name} {scheme} {width}"
                    found += [f"{where}: {told}" for told in await _axe(page, axe)]
                    wide = await page.evaluate("document.documentElement.scrollWidth")
                    found += [f"{where}: {wide} pixels wide"] if wide > width else []
                    await page.screenshot(path=shots / f"{name}-{scheme}-{width}.png")
    return found


async def _axe(page: Any, axe: str) -> list[str]:
    await page.evaluate(axe)
    result = await page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:120]}" for one in result["violations"] for node in one["nodes"]
    ]


def main() -> int:
    """Check, and say what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("axe", type=Path, help="axe.min.js of the npm package axe-core")
    parser.add_argument("--shots", type=Path, default=Path("build/page"))
    asked = parser.parse_args()
    found = asyncio.run(checked(asked.axe.read_text(encoding="utf-8"), asked.shots))
    for one in found:
        print(one)
    looked = len(views()) * len(WIDTHS) * len(SCHEMES)
    print(f"page: {looked} views, {len(found)} findings, pictures in {asked.shots}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
