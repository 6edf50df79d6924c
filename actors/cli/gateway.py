"""The command that serves the gateway: `gateway`, and its part of `up --gateway`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext

from actors.gateway.answers import Answers
from actors.gateway.apis import Host
from actors.gateway.app import Gateway
from actors.gateway.callers import Callers, check_open
from actors.gateway.claims import Claims
from actors.gateway.keeper import Keeper
from actors.gateway.managed import Managed
from actors.gateway.plan import Planner
from actors.gateway.policies import Policies
from actors.gateway.sessions import Sessions
from actors.gateway.upstream import check_upstreams, connected
from actors.host.adapters import gateway_stores_on, tenant_keys
from actors.host.admitted import admitted_in
from actors.host.bootstrap import data_folder, runtime, work
from actors.host.freed_memory import keep_freed_memory
from actors.host.readiness import Need
from actors.host.settings import LOG_LEVEL, GatewaySection, Settings
from actors.model_info.tokens import counter
from actors.model_info.windows import window_of
from actors.runtime.task_group import beside
from protocol.client import Client
from protocol.connecting import connect
from protocol.errors import LogUnavailable, Unavailable
from protocol.ids import Token
from protocol.outages import Outage
from storage.connections import connection_name

from .http_server import listening_at, serving, tls_of
from .options import StackOptions, WrongUsage
from .probes import probed
from .session import located, run, running_stack, said, settings_of, started_stack
from .wrap import CLIENTS, command, ran

RETRY_SECONDS = 2.0
"""Between two attempts to reach NATS for the first time; later ones are the connection's own."""


def gateway(stack: StackOptions, *, port: int | None, wrap: str, arguments: Sequence[str]) -> int:
    """Serve the gateway until told to stop; see `jettison gateway --help`."""
    if wrap and wrap not in CLIENTS:
        raise WrongUsage(f"--wrap starts {', '.join(CLIENTS)}, not {wrap!r:.40}; others: set their base URL")
    if arguments and not wrap:
        raise WrongUsage("arguments are for the client of --wrap")
    settings = settings_of(stack)
    tell_requests(wanted=not wrap)
    if wrap:
        return run(_wrapped(settings, wrap, arguments), service="gateway", settings=settings)
    # who only forwards needs no stack
    found = settings if settings.gateway.mode == "pass" else located(settings)
    return run(_until_told(found, port), service="gateway", settings=settings, probed=True)


def tell_requests(*, wanted: bool = True) -> None:
    """Log a line for each request, beside what all commands log, unless the environment says how much is logged.

    A client that is wrapped has the terminal for itself.
    """
    if LOG_LEVEL not in os.environ:
        logging.getLogger("jettison.gateway.requests").setLevel(logging.INFO if wanted else logging.WARNING)


async def _until_told(settings: Settings, port: int | None) -> int:
    planner = Planner(deadline_seconds=settings.gateway.deadline_seconds)
    async with served(settings, planner, port=port) as url, probed(settings.probe) as readiness:
        said(f"gateway  {url}")
        said(f"ready    OPENAI_BASE_URL={url}v1 or ANTHROPIC_BASE_URL={url[:-1]}; Ctrl-C stops it")
        with readiness.needs(_needs(settings.gateway, planner)):
            await asyncio.Event().wait()
    return 0


def _needs(section: GatewaySection, planner: Planner) -> dict[str, Need]:
    """Return the needs of this gateway: where requests go on as they came without NATS, it is told and not required."""

    async def kept() -> None:
        if planner.keeper is None:
            raise LogUnavailable("NATS has not answered yet")
        # a place that nobody has: the stream answers that there is none
        await planner.keeper.claims.places.read(Token(section.tenant), Token("readyz"))

    return {"nats": Need(ask=kept, is_required=section.on_failure == "refuse")} if section.mode == "manage" else {}


async def _wrapped(settings: Settings, client: str, arguments: Sequence[str]) -> int:
    """Run *client* before a gateway of its own, beside the stack that runs, or one that is started for it."""
    async with AsyncExitStack() as held:
        if not settings.nats.url and running_stack(data_folder(settings)) is None:
            ours, _ = await held.enter_async_context(started_stack(settings, owner="gateway"))
            running = await held.enter_async_context(runtime(ours, role="gateway"))
            await held.enter_async_context(beside(work(running)))
        else:
            ours = located(settings)
        url = await held.enter_async_context(served(ours, port=0))
        argv, environment = held.enter_context(command(client, url, arguments))
        return await ran(argv, environment)


@asynccontextmanager
async def served(settings: Settings, planner: Planner | None = None, *, port: int | None = None) -> AsyncIterator[str]:
    """Serve the gateway as *settings* say; yield its URL.

    Raises `Rejected` for settings that cannot be used, `Unavailable` for a port that is taken.
    """
    section = settings.gateway
    callers = callers_of(section)
    check_open(callers, section.listen)
    tls = tls_of(section.cert_file, section.key_file, section="gateway")
    keep_freed_memory()
    urls: dict[Host, str] = {"openai": section.upstream.openai, "anthropic": section.upstream.anthropic}
    check_upstreams(urls)
    listening = listening_at(
        section.listen, section.port if port is None else port, section="gateway", by_option=port is not None
    )
    sessions = Sessions()
    planner = planner or Planner(deadline_seconds=section.deadline_seconds)
    async with (
        connected(urls) as upstream,
        _kept(settings, planner, sessions) if section.mode == "manage" else nullcontext(),
    ):
        managed = Managed(
            upstream=upstream,
            callers=callers,
            planner=planner,
            refuses=section.on_failure == "refuse",
            sessions=sessions,
        )
        app = Gateway(
            upstream=upstream,
            callers=callers,
            body_bytes_max=section.body_bytes_max,
            managed=managed if section.mode == "manage" else None,
        )
        options = {"ws": "none", "date_header": False, "access_log": False, **tls}
        async with serving(app, listening, closing_seconds=section.drain_seconds, **options):
            yield f"{'https' if tls else 'http'}://{section.listen}:{listening.getsockname()[1]}/"


@asynccontextmanager
async def _kept(settings: Settings, planner: Planner, sessions: Sessions) -> AsyncIterator[None]:
    """Give *planner* its keeper as soon as NATS answers; until then requests go on as they came."""
    first = asyncio.Event()
    try:
        async with beside(_keeping(settings, planner, first)):
            # most often it is there, and the first request finds it so
            await first.wait()
            async with beside(sessions.run(lambda: planner.keeper.sessions if planner.keeper else None)):
                yield
    finally:
        if planner.keeper is not None:
            await planner.keeper.client.connection.close()


async def _keeping(settings: Settings, planner: Planner, first: asyncio.Event) -> None:
    outage, tenants = Outage(said, "gateway waits"), tenant_keys(settings)
    while planner.keeper is None:
        try:
            name = connection_name("gateway", writes=settings.rules_written)
            connection = await connect(settings.nats.url, name=name, login=settings.nats.login())
        except Unavailable as error:
            outage.failed(str(error))
            first.set()
            await asyncio.sleep(RETRY_SECONDS)
            continue
        outage.succeeded()
        # what a first request would wait for: the tokenizer, and the table of models
        await asyncio.to_thread(counter, "o200k_base")
        await asyncio.to_thread(window_of, "gpt-4o")
        stores = gateway_stores_on(connection, tenants=tenants)
        client = Client(connection=connection, keys=stores.keys if tenants else None)
        planner.keeper = Keeper(
            client=client,
            claims=Claims(places=stores.places),
            answers=Answers(client=client, places=stores.places, keys=stores.keys),
            sessions=stores.sessions,
            keys=stores.keys,
            policies=Policies(
                layers=settings.layers,
                window=settings.gateway.window,
                retrieval=settings.gateway.retrieval,
                mcp_tool=settings.gateway.mcp_tool,
            ),
        )
        first.set()


def callers_of(section: GatewaySection) -> Callers:
    """Return the callers who may ask. Raises `Rejected`."""
    own = {"openai": section.openai_key, "anthropic": section.anthropic_key}
    return Callers(
        tenant=section.tenant,
        own=own,  # type: ignore[arg-type]  # the two hosts, by name
        admitted=admitted_in(section.callers),
    )
