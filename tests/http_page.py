"""What answers HTTP (`infra/docs/http.md`), written from the addresses that the code knows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import chain

from starlette.routing import Route

from actors.cli.probes import probes
from actors.gateway import app as gateway
from actors.host.readiness import Readiness
from actors.mcp.door import PATH
from actors.page import app as page


def addresses() -> str:
    """Return every address, by the program that answers it."""
    rows = chain(_gateway(), _mcp(), _page(), _probes())
    return "\n".join(["| program | address | what |", "|---|---|---|", *rows])


def _gateway() -> Iterator[str]:
    yield from (
        f"| `gateway` | POST `{path}` | {api.name}: kept, and served a view |" for path, api in gateway.ROUTES.items()
    )
    yield from (
        f"| `gateway` | POST `{path}` | {api.name}: counts the view |" for path, api in gateway.COUNTERS.items()
    )
    yield f"| `gateway` | `{gateway.MODELS}`, all else | passed on as it came |"


def _mcp() -> Iterator[str]:
    yield f"| `mcp --http` | POST `{PATH}` | the Model Context Protocol, without sessions |"


def _page() -> Iterator[str]:
    for path, handler in page._ROUTES:
        about = (inspect.getdoc(handler) or "").partition("\n")[0].removeprefix("Answer with ").rstrip(".")
        yield f"| `serve` | GET `{path}` | {about[0].lower()}{about[1:]} |"


def _probes() -> Iterator[str]:
    for route in probes(Readiness()).routes:
        assert isinstance(route, Route)
        yield f"| each that runs on | GET `{route.path}` | `operations.md`, Probes |"
