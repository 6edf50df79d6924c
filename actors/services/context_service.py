"""Context service: answer agents who ask for the view of their next call.

It computes nothing that the log does not determine. It waits for spill, digest and cut (never for an
LLM, and not for a compaction where what stood before it fits and is asked for), renders, records what is served, and
only then answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec
from opentelemetry.trace import get_current_span

from actors.core.flow import next_actor
from actors.core.state import State
from actors.core.view import unspilled, view
from actors.runtime.conversations import Conversations
from actors.runtime.fold import count_of
from actors.runtime.registry import asks_model
from actors.runtime.task_group import regularly, together
from actors.runtime.under_way import UnderWay
from actors.spill.policy_layers import NO_LAYERS, Layers
from actors.telemetry.service_metrics import record_served
from protocol import semconv
from protocol.errors import (
    UNREADABLE,
    BadEnvelope,
    BudgetRefused,
    Busy,
    Contended,
    Deadly,
    JettisonError,
    LogUnavailable,
    NotFound,
    NotReady,
    Rejected,
    Unavailable,
)
from protocol.facts import ContextServed
from protocol.guarded import published
from protocol.history import ArtifactsAsked, SearchAsked
from protocol.ids import Address, is_sha256, written_address
from protocol.limits import APPEND_ATTEMPTS_MAX, REPLY_CHUNK_BYTES
from protocol.service_messages import (
    WORKING_SECONDS,
    Answer,
    Answering,
    ContextAsked,
    ExpandAsked,
    ForkAsked,
    Forked,
    OpenAsked,
    PolicyAsked,
    ReadAsked,
    RewindAsked,
    UploadAsked,
    fault_of,
)
from protocol.subjects import FIRST_ACTOR, Actor, Verb
from protocol.tracing import extract, span, traced
from storage.ports import Artifacts, EventLog
from storage.work_ports import InProgress, Request, Requests, Wakes

from . import heard
from .media import with_media
from .policies import PolicyChanges, opening
from .read_back import read_back
from .request_limit import Admission
from .search import artifacts_of, found_in
from .serving import budget_of, calls_open, fact_of, fits_as_it_is, meta_of, refusal
from .store_question import StoreQuestion
from .undo import Undo

T = TypeVar("T")

log = logging.getLogger("jettison.context")

WAIT_SECONDS_MAX = 60.0

PRIORITY_AFTER_SECONDS = (0.25, 1.0)
"""When an agent has waited so long, its conversation goes before all that nobody waits for; again after each second.
Not at once: most waits are shorter, and two lanes may do the same step twice."""

LOOK_AT_QUEUE = 4
"""At this look, after 30 ms, it goes before the others where some queue: then most likely nobody is at its step yet."""


class Forks(Protocol):
    """Who makes forks."""

    async def fork(self, at: Address, asked: ForkAsked) -> Forked:
        """Begin a conversation as a copy of *at*. Raises `NotFound`, `Erased`, `Rejected`, `Unavailable`."""
        ...


@dataclass(kw_only=True)
class ContextService:
    """One of any number; they share the requests."""

    requests: Requests
    conversations: Conversations
    artifacts: Artifacts
    log: EventLog
    wakes: Wakes
    in_progress: InProgress
    layers: Layers = NO_LAYERS
    forks: Forks | None = None
    others: Mapping[Verb, Answering] = field(default_factory=dict)
    """Who answers the verbs that are not answered here: those about the past."""
    under_way: UnderWay = field(default_factory=UnderWay)

    def __post_init__(self) -> None:
        self.store = StoreQuestion(self.artifacts)

    async def run(self) -> None:
        """Answer until cancelled."""
        admission = Admission()
        try:
            async with asyncio.TaskGroup() as group:
                async for request in self.requests.asked():
                    group.create_task(self._answer(request, admission))
        finally:
            self.store.forget()

    async def _answer(self, request: Request, admission: Admission) -> None:
        handlers: dict[Verb, Callable[[Address, Request], Awaitable[tuple[Answer, bytes]]]] = {
            "context": self._context,
            "upload": self._upload,
            "read": self._read,
            "expand": self._expand,
            "open": self._open,
            "policy": self._policy,
            "rewind": self._rewind,
            "fork": self._fork,
            "search": self._search,
            "artifacts": self._artifacts,
        }
        body, began = b"", time.monotonic()
        try:
            at, verb = request.at, request.verb
            attributes = {**semconv.of_conversation(at.tenant, at.conversation), semconv.MESSAGING_SYSTEM: "nats"}
            with span(f"serve {verb}", kind="server", parent=extract(request.headers), attributes=attributes):
                # signs of life, so that the end of this process is noticed at once
                async with regularly(WORKING_SECONDS, request.working), admission.place(at.tenant):
                    if verb in handlers:
                        answer, body = await handlers[verb](at, request)
                    else:
                        answer, body = Answer(), await self._other(at, request)
        except JettisonError as error:
            answer = Answer(fault=fault_of(error))
        except Exception as error:
            log.exception("%s failed", request.verb)
            answer = Answer(fault=fault_of(Rejected(f"the service failed: {type(error).__name__}")))
        failed = answer.fault.kind if answer.fault else ""
        record_served(request.verb, seconds=time.monotonic() - began, error=failed)
        await self._send(request, answer, body)

    async def _send(self, request: Request, answer: Answer, body: bytes) -> None:
        frames = [body[start : start + REPLY_CHUNK_BYTES] for start in range(0, len(body), REPLY_CHUNK_BYTES)]
        try:
            await request.answer([msgspec.json.encode(msgspec.structs.replace(answer, frames=len(frames))), *frames])
        except LogUnavailable as error:
            # the agent asks again; what was served is recorded either way
            log.info("%s", error)

    async def _context(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        with self.under_way.agent():
            return await self._view(at, request)

    async def _view(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, ContextAsked)
        state = await self._answered(at, asked)
        count = count_of(state)
        if state.policy is None:
            raise NotFound(f"there is no message in {at} yet", address=str(at))
        for _ in range(APPEND_ATTEMPTS_MAX):
            budget = budget_of(asked, state)
            try:
                seen = view(state, budget=budget, count=count)
            except BudgetRefused as refused:
                # many views are tried for the smallest budget that works
                raise await asyncio.to_thread(refusal, state, budget, refused) from None
            if not seen.messages:
                # no provider takes an empty list; most often the agent asks before it has appended
                # a rewind to a version from before the first one leaves none
                there = f"the context of {at}: append one" if state.messages else f"{at} yet"
                raise NotFound(f"there is no message in {there}", address=str(at))
            # it is told of while it is written down; images are fetched once, for the view that landed
            async with together() as group:
                recording = group.create_task(self._record(at, state, fact_of(asked, state, seen, budget)))
                await published()
                meta = meta_of(asked, state, seen, budget, state.version + 1)
            if version := recording.result():
                if meta.compacted:
                    get_current_span().set_attribute(semconv.GEN_AI_CONVERSATION_COMPACTED, True)
                shown = seen.body if not meta.same else b"[" + b",".join(seen.messages[meta.same :]) + b"]"
                body = await with_media(self.artifacts, at, state, shown)
                return Answer(context=msgspec.structs.replace(meta, version=version)), body
            if asked.have:
                # somebody else spoke after all
                asked = msgspec.structs.replace(asked, have="", doubted=(), coming=None)
                state = await self._answered(at, asked)
            else:
                state = await self.conversations.load(at)
        raise Contended(f"the view of {at} could not be recorded: other writers were faster", address=str(at))

    async def _answered(self, at: Address, asked: ContextAsked) -> State:
        """Return a settled state in which no call waits for its result. Raises `CallsOpen` when the wait is over.

        Where somebody speaks over a call, it waits no longer: the view says that it is running.
        """
        ends = time.monotonic() + min(max(0.0, asked.wait_seconds), WAIT_SECONDS_MAX)
        while True:
            state = await self._settled(at, asked)
            calls = state.exchange.open_calls
            if not calls or asked.unfinished:
                return state
            left = ends - time.monotonic()
            if left <= 0:
                raise calls_open(at, state)
            asked = msgspec.structs.replace(asked, wait_seconds=left, have="", doubted=(), coming=None)
            await asyncio.sleep(heard.POLL_SECONDS[-1])

    async def _settled(self, at: Address, asked: ContextAsked) -> State:
        """Return a state in which the deterministic actors are done, or the best that the wait allows."""
        ends = time.monotonic() + min(max(0.0, asked.wait_seconds), WAIT_SECONDS_MAX)
        hurries = time.monotonic() + PRIORITY_AFTER_SECONDS[0]
        looks = 0
        await self._check_survivable(at)
        state = await self._heard(at, asked)
        while True:
            waits_for = next_actor(state)
            if waits_for is None or asks_model(waits_for):
                return state
            is_storing = waits_for == FIRST_ACTOR and state.policy is not None
            if asked.soon and waits_for != FIRST_ACTOR and fits_as_it_is(asked, state):
                return state
            if time.monotonic() >= ends:
                if state.policy is not None and not unspilled(state):
                    return state
                if is_storing:
                    await self.store.check(at)
                raise NotReady(
                    f"{waits_for} has not worked on {at} within the wait; does a worker run?", actor=waits_for
                )
            if looks == LOOK_AT_QUEUE and await self._is_queued(waits_for):
                hurries = time.monotonic()
            if time.monotonic() >= hurries:
                hurries += PRIORITY_AFTER_SECONDS[1]
                if is_storing and unspilled(state):
                    self.store.begin(at.tenant)
                await self._hurry(waits_for, at)
            await asyncio.sleep(heard.POLL_SECONDS[min(looks, len(heard.POLL_SECONDS) - 1)])
            looks += 1
            state = await self.conversations.living(at)

    async def _heard(self, at: Address, asked: ContextAsked) -> State:
        """Return a state with all that who asks has said. Raises `LogRegression` where the log lost some of it."""
        if asked.coming:
            state = await heard.arriving(
                lambda upto: self.conversations.living(at, upto=upto), asked.coming, wait_seconds=asked.wait_seconds
            )
            if heard.reaches(state, asked.upto_seq):
                await heard.check(self.log, at, state, asked)
                return state
        if asked.have and asked.said and not asked.doubted:
            # where nobody else spoke, nothing behind it is waited for
            state = await self.conversations.living(at, upto=asked.upto_seq)
            if heard.reaches(state, asked.upto_seq) and not heard.lacks(state, asked.said):
                return state
        lost = time.monotonic() + heard.LOST_SECONDS
        while not heard.reaches(state := await self.conversations.living(at), asked.upto_seq):
            if time.monotonic() >= lost:
                raise heard.lost(at, asked.upto_seq)
            await asyncio.sleep(heard.POLL_SECONDS[-1])
        if not state.seq:
            raise NotFound(f"nothing was ever said in {at}", address=str(at))
        await heard.check(self.log, at, state, asked)
        return state

    async def _check_survivable(self, at: Address) -> None:
        """Raise `Deadly` before this process folds for the first time what a process died of."""
        if self.conversations.is_warm(at):
            return
        found = await self.in_progress.find(FIRST_ACTOR, at)
        if found is not None and found.is_deadly:
            raise Deadly(f"{at} ends each process that works on it; see `jettison dlq show {at}`", address=str(at))

    async def _is_queued(self, actor: Actor) -> bool:
        """Tell whether slots wait for *actor*; one that nobody has come to may be that of this conversation."""
        try:
            return await self.wakes.untaken(actor) > 0
        except Unavailable:
            return False

    async def _hurry(self, actor: Actor, at: Address) -> None:
        """Let *actor* take *at* before what nobody waits for; without it, it comes to it in its turn."""
        try:
            await self.wakes.wake(actor, at, headers=traced(), lane="priority")
        except Unavailable as error:
            log.warning("%s cannot be woken on the priority lane for %s: %s", actor, at, error)

    async def _record(self, at: Address, state: State, served: ContextServed) -> int:
        """Write down what is served; return the version that says so, 0 if another writer came first."""
        try:
            landed = await self.conversations.commit(at, state, (served,), headers=traced())
        except Busy:
            if served.view_hash not in dict(state.calibration.served):
                raise
            # there is no room to say that it is served again, and no need: that it was is written down
            return state.version
        return state.version + 1 if landed else 0

    async def _upload(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, UploadAsked)
        if not is_sha256(asked.sha256):
            # it becomes a key of the store: `../other-tenant/…` must not
            raise BadEnvelope("an upload is named by its SHA-256 in hex", sha256=asked.sha256[:80])
        if asked.bytes <= 0:
            raise BadEnvelope("an upload says how many bytes it has; update the client", bytes=asked.bytes)
        return Answer(url=await self.artifacts.upload_url(at.tenant, asked.sha256, size_bytes=asked.bytes)), b""

    async def _read(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, ReadAsked)
        return Answer(), await read_back(asked, at=at, log=self.log, artifacts=self.artifacts)

    async def _search(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, SearchAsked)
        await self._check_survivable(at)
        return Answer(), await found_in(at, asked, log=self.log, artifacts=self.artifacts)

    async def _artifacts(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, ArtifactsAsked)
        await self._check_survivable(at)
        return Answer(), await artifacts_of(at, asked, log=self.log)

    async def _expand(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, ExpandAsked)
        await self._check_survivable(at)
        undo = Undo(conversations=self.conversations, log=self.log, artifacts=self.artifacts)
        return Answer(), msgspec.json.encode(await undo.expand(at, asked, headers=traced()))

    async def _rewind(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, RewindAsked)
        await self._check_survivable(at)
        undo = Undo(conversations=self.conversations, log=self.log, artifacts=self.artifacts)
        rewound = await undo.rewind(at, to=asked.version, upto=asked.upto, headers=traced())
        await self._wake(at)
        return Answer(), msgspec.json.encode(rewound)

    async def _fork(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, ForkAsked)
        await self._check_survivable(at)
        if self.forks is None:
            raise Rejected("this service makes no forks")
        made = await self.forks.fork(at, asked)
        await self._wake(written_address(made.address))
        return Answer(), msgspec.json.encode(made)

    async def _other(self, at: Address, request: Request) -> bytes:
        if request.verb not in self.others:
            raise Rejected(f"this service does not answer {request.verb}")
        if request.verb != "erase":  # which folds nothing
            await self._check_survivable(at)
        return await self.others[request.verb](at, request.body)

    async def _wake(self, at: Address) -> None:
        follower = next_actor(await self.conversations.load(at))
        if follower is not None:
            await self.wakes.wake(follower, at, headers=traced())

    async def _open(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, OpenAsked)
        await self._check_survivable(at)
        return Answer(), msgspec.json.encode(opening(at, await self.conversations.load(at), asked, self.layers))

    async def _policy(self, at: Address, request: Request) -> tuple[Answer, bytes]:
        asked = _decoded(request.body, PolicyAsked)
        await self._settled(at, ContextAsked(upto_seq=asked.upto_seq, said=asked.said, doubted=asked.doubted))
        changing = PolicyChanges(conversations=self.conversations, layers=self.layers)
        return Answer(), msgspec.json.encode(await changing.set(at, asked, headers=traced()))


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except UNREADABLE as error:
        raise BadEnvelope(f"not a request: {error}"[:200]) from None
