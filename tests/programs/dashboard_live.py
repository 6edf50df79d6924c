"""`make dashboards`: each query of the dashboard and the alerts on a real Prometheus that scrapes a stack under load.

Grafana itself is not run. A query that Prometheus refuses fails; those that found nothing here are named.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from actors.cli.session import ENDPOINTS_FILE
from protocol.client import Client
from tests.conftest import SAMPLE, layer
from tests.infra.test_observability import FOLDER, queries
from tests.stack import LOOPBACK, ROOT, free_port

SCRAPES = 20
"""A second each: rates need some."""

PROMETHEUS = """
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: ["{rules}"]
scrape_configs: [{{ job_name: jettison, static_configs: [{{ targets: ["{target}"] }}] }}]
"""


async def load(url: str) -> None:
    """Have three agents talk, over what fits."""
    async with Client.connect(url) as client:
        for number in range(3):
            talk = await client.open(f"live-{number}", model="gpt-4o", policy=layer(window=4000))
            for message in SAMPLE[:60]:
                await talk.append([message])
                if message["role"] == "user":
                    await talk.context()


async def asked(base: str) -> tuple[list[str], list[str]]:
    """Ask every query; return those that Prometheus refuses, and those that found nothing."""
    refused, empty = [], []
    for name, query in queries():
        plain = query.replace("$__rate_interval", "1m").replace("$__range", "5m")
        answer = await asyncio.to_thread(got, f"{base}/api/v1/query?query={urllib.parse.quote(plain)}")
        if answer.get("status") != "success":
            refused.append(f"{name}: {answer.get('error')}")
        elif not answer["data"]["result"]:
            empty.append(name)
    return refused, empty


def got(url: str) -> dict[str, Any]:
    """Return the JSON at *url*, of a refusal too."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        return dict(json.loads(error.read()))


async def scraped(folder: Path, probe: int) -> tuple[list[str], list[str]]:
    """Run Prometheus over the probe at *probe* while agents talk; return what `asked` does."""
    port, config = free_port(), folder / "prometheus.yaml"
    config.write_text(PROMETHEUS.format(rules=FOLDER / "alerts.yaml", target=f"{LOOPBACK}:{probe}"))
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address={LOOPBACK}:{port}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command) as prometheus:
        try:
            await load(json.loads((folder / ENDPOINTS_FILE).read_text())["endpoints"]["nats_url"])
            await asyncio.sleep(SCRAPES)
            groups = (await asyncio.to_thread(got, f"http://{LOOPBACK}:{port}/api/v1/rules"))["data"]["groups"]
            unhealthy = [rule["name"] for group in groups for rule in group["rules"] if rule["health"] != "ok"]
            refused, empty = await asked(f"http://{LOOPBACK}:{port}")
            return [*refused, *(f"rule {name} is not evaluated" for name in unhealthy)], empty
        finally:
            prometheus.terminate()


async def main() -> int:
    """Run all, and say what was found."""
    with TemporaryDirectory() as name:
        folder, probe = Path(name), free_port()
        named = {**os.environ, "JETTISON_PROBE__PORT": str(probe)}
        command = [sys.executable, "-c", "from actors.cli import main; main()", "up", "--data", name]
        with subprocess.Popen(command, cwd=ROOT, env=named) as stack:
            try:
                async with asyncio.timeout(120):
                    while not (folder / ENDPOINTS_FILE).exists():
                        await asyncio.sleep(0.2)
                refused, empty = await scraped(folder, probe)
            finally:
                stack.terminate()
                with suppress(subprocess.TimeoutExpired):
                    stack.wait(timeout=60)
    total = len(list(queries()))
    for one in refused:
        print(f"REFUSED {one}")
    print(f"dashboards: {total} queries, {len(refused)} refused; {total - len(empty)} found something")
    print("nothing in this load for: " + ", ".join(empty))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
