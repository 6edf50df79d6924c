"""`make compose`: asks what `infra/compose` has started whether each process is ready, works, and is watched."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from ruamel.yaml import YAML

from tests.programs.image import Wrong, conversation
from tests.stack import ROOT

FOLDER = ROOT / "infra" / "compose"
MADE = FOLDER / "made"
READY_SECONDS = 180.0
LOOPBACK = "http://127.0.0.1"


def until(what: str, url: str, wanted: str = "") -> str:
    """Return what *url* answers, once it does with *wanted* in it. Raises `Wrong` after three minutes."""
    ends, last = time.monotonic() + READY_SECONDS, ""
    while time.monotonic() < ends:
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                last = str(reply.read(), "utf-8")
            if wanted in last:
                return last
        except (urllib.error.URLError, OSError) as error:
            last = str(error)
        time.sleep(0.5)
    raise Wrong(f"{what}: {last[:500]}")


def ready(services: dict[str, dict[str, dict[str, str]]]) -> int:
    """Wait until each process of ours is ready; return how many there are."""
    ports = {
        name: port for name, one in services.items() if (port := one.get("environment", {}).get("JETTISON_PROBE__PORT"))
    }
    for name, port in ports.items():
        until(f"{name} is not ready", f"{LOOPBACK}:{port}/readyz")
    print(f"ready: {', '.join(ports)}")
    return len(ports)


def main() -> int:
    """Ask all of it."""
    services = YAML(typ="safe").load(FOLDER / "compose.yaml")["services"]
    password = (MADE / "secrets" / "agent").read_text().strip()
    try:
        count = ready(services)
        print(
            asyncio.run(
                conversation(
                    services["spill"]["environment"]["JETTISON_NATS__URL"], user="agent-default", password=password
                )
            )
        )
        query = urllib.parse.urlencode({"query": 'sum(up{job="jettison"})'})
        told = until("Prometheus does not see all", f"{LOOPBACK}:9090/api/v1/query?{query}", f'"{count}"')
        print(f"Prometheus: up {json.loads(told)['data']['result'][0]['value'][1]}")
        until("the page does not answer", f"{LOOPBACK}:8321/", "<html")
        print("the page answers")
    except Wrong as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
