"""`jettison compact`: play a transcript through the whole path, as an agent would, and report."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from actors.audit.report import Report, report_of
from actors.core.entry import measure
from actors.host.bootstrap import Runtime, data_folder, runtime, work
from actors.host.settings import Settings
from actors.model_info.tokens import counter, tokenizer_for
from actors.runtime.task_group import beside
from protocol.client import Client, Conversation
from protocol.context import Context
from protocol.errors import UNREADABLE, BadMessage, BadPolicy, JettisonError, Unavailable, in_words
from protocol.facts import SaidMessage
from protocol.formats import messages as wire
from protocol.formats.validate import problems
from protocol.ids import Address, fresh_id
from protocol.policy import resolve
from protocol.prepared import checked
from protocol.subjects import ACTORS

from .chat_logs import READERS
from .log_pieces import Transcript
from .options import StackOptions, WrongUsage
from .session import json_bytes, located, run, running_stack, said, settings_of, started_stack, writable
from .transcripts import FileRead, read_transcripts

CONCURRENT_MAX = 4
"""Conversations of one file that are played at once."""

OnProgress = Callable[[str, int, int], None]
"""Called with a conversation's name, messages played, and messages in all."""


@dataclass(frozen=True, kw_only=True)
class CompactJob:
    """What to compact, and how."""

    file: Path
    budget: int
    policy: Path | None = None
    model: str = ""
    out: Path | None = None
    workers: int = 0
    by_turn: bool = False
    pace_seconds: float = 0.0
    """How long a turn may wait for a squeeze under way; an agent would be waiting for its own model."""
    format: str = ""
    """Of the file; empty: what it looks like."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """One conversation that went through."""

    address: Address
    context: Context
    before_tokens: int
    before_estimated: bool
    seconds: float
    flaws: tuple[str, ...]


def compact_file(stack: StackOptions, job: CompactJob, *, as_json: bool) -> int:
    """Compact all conversations of a file; see `jettison compact --help`."""
    if job.format and job.format not in READERS:
        raise WrongUsage(f"--format is one of {', '.join(READERS)}, not {job.format!r:.40}")
    settings = settings_of(stack)
    return run(_compact(job, settings, as_json), service="compact", settings=settings)


async def _compact(job: CompactJob, settings: Settings, as_json: bool) -> int:
    found = read_transcripts(job.file, format=job.format)
    talks = found.talks
    layer = policy_layer(job)
    _tell(job.file, found)
    _tell_times(talks, layer)
    failures = 0
    if job.model and not (settings.llm.base_url or settings.llm.api_key):
        said(
            "note: no LLM endpoint is set here (llm.base_url, OPENAI_BASE_URL or OPENAI_API_KEY); unless the workers "
            f"have one elsewhere, {job.model} is not asked and digests are not squeezed"
        )
    with written(job.out) as out:
        async with (
            stack_for(settings, job.workers) as (running, url),
            Client.connect(url, keys=running.tenants) as client,
        ):
            limit = asyncio.Semaphore(CONCURRENT_MAX)
            bar = progress(len(talks), sum(len(talk.messages) for talk in talks))
            with bar as step:

                async def one(talk: Transcript) -> tuple[Transcript, Played | JettisonError]:
                    async with limit:
                        try:
                            return talk, await play(client, talk, layer, job, step)
                        except JettisonError as error:
                            return talk, error

                results = await asyncio.gather(*map(one, talks))
            # behind the bar: on a terminal both would stand on one line
            for talk, played in results:
                if isinstance(played, JettisonError):
                    failures += 1
                    said(f"{talk.name}: {type(played).__name__}: {played}")
                    continue
                failures += bool(played.flaws) or played.context.tokens > played.context.budget
                report = report_of(await running.log.read(played.address, after=0))
                await _written(out, played, report, as_json)
    said(f"{len(talks)} conversations, {failures} failed; data in {data_folder(settings)}")
    return 1 if failures else 0


async def play(client: Client, talk: Transcript, layer: dict[str, Any], job: CompactJob, step: OnProgress) -> Played:
    """Publish *talk* message by message and ask for the view at its end (or before each turn)."""
    started = time.monotonic()
    layer = layer_of(talk, layer)
    check_all(talk, declared=str(layer.get("shape", {}).get("profile", "")))
    conversation = await client.open(f"{talk.name}-{fresh_id()[:8]}", policy=layer)
    for index, message in enumerate(talk.messages):
        if job.by_turn and index and isinstance(message, dict) and message.get("role") == "assistant":
            context = await conversation.context(patience=30, unfinished=True)
            if context.squeezing and job.pace_seconds:
                await _squeezed(conversation, job.pace_seconds)
        try:
            await conversation.append([message], at_ms=talk.times[index] if talk.times else 0)
        except JettisonError as error:
            # each append is of one message, which calls itself the first
            what = str(error).removeprefix("message 1: ")
            raise type(error)(f"message {index + 1} of {talk.name}: {what}", **error.fields) from None
        step(talk.name, index + 1, len(talk.messages))
    context = await conversation.context(patience=60, unfinished=True)
    before, estimated = await asyncio.to_thread(_tokens_before, talk)
    return Played(
        address=conversation.at,
        context=context,
        before_tokens=before,
        before_estimated=estimated,
        seconds=time.monotonic() - started,
        flaws=tuple(problems(context.messages, context.profile)),
    )


def _tell(file: Path, found: FileRead) -> None:
    """Say as what the file was read, and what of it is in no conversation."""
    left: Counter[str] = Counter()
    for talk in found.talks:
        left.update(talk.left_out)
    told = ", ".join(f"{number} {what}" for what, number in left.items() if number)
    tools = sum(len(talk.tools) for talk in found.talks)
    kept = f"; {tools} tool definitions count as tokens and are in no view" if tools else ""
    said(f"{file}: read as {', '.join(found.formats)}{kept}{f'; left out: {told}' if told else ''}")
    for note in found.notes:
        said(f"note: {note}")


def _tell_times(talks: Sequence[Transcript], layer: dict[str, Any]) -> None:
    """Say where what waits for seconds waits as if all were said now."""
    wanted = resolve([layer])
    waits = wanted.cooldown.seconds or any(hook.cooldown_seconds for hook in wanted.hooks)
    if waits and any(not talk.times for talk in talks):
        said("note: there are no times in it; the policy's cooldowns in seconds take all of it as said now")


def layer_of(talk: Transcript, layer: dict[str, Any]) -> dict[str, Any]:
    """Return *layer* for *talk*: its tools take of the budget, and its API gets the view, where no policy says else."""
    out = dict(layer)
    if talk.tools:
        count = counter(tokenizer_for("").encoding)
        tokens = sum(count(wire.encode({"tool": tool}).decode("utf-8", "replace")) for tool in talk.tools)
        out["budget"] = {"tools": tokens, **out["budget"]}
    if talk.profile != wire.CHAT:
        out["shape"] = {"profile": talk.profile, **out.get("shape", {})}
    return out


def check_all(talk: Transcript, *, declared: str = "") -> None:
    """Raise `BadMessage` before anything of *talk* is said: a conversation that is refused leaves none behind."""
    for index, message in enumerate(talk.messages):
        try:
            checked(index, message, declared=declared)
        except BadMessage as error:
            raise BadMessage(
                str(error).replace(f"message {index + 1}", f"message {index + 1} of {talk.name}", 1), **error.fields
            ) from None


async def _squeezed(conversation: Conversation, seconds: float) -> None:
    """Wait until the view is ready, or long enough."""
    try:
        async with asyncio.timeout(seconds):
            async for _ in conversation.ready():
                return
    except TimeoutError:
        return


@contextmanager
def written(path: Path | None) -> Iterator[BinaryIO]:
    """Yield stdout, or a file that takes *path*'s place only when all went well."""
    if path is None:
        yield sys.stdout.buffer
        return
    partial = writable(path).with_name(path.name + ".partial")
    with partial.open("wb") as file:
        yield file
    partial.replace(path)


def policy_layer(job: CompactJob) -> dict[str, Any]:
    """Return the conversation's layer: the file's, then the budget and the model of the command."""
    layer: dict[str, Any] = {}
    if job.policy is not None:
        import tomllib

        try:
            text = job.policy.read_text(encoding="utf-8")
            layer = msgspec.json.decode(text) if job.policy.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise BadPolicy(f"policy file {in_words(error)}", key=str(job.policy)) from None
        except (ValueError, *UNREADABLE) as error:
            raise BadPolicy(f"policy file {job.policy}: {error}", key=str(job.policy)) from None
    try:
        resolve([layer])
    except BadPolicy as error:
        raise BadPolicy(f"policy file {job.policy}: {error}", **error.fields) from None
    layer["budget"] = {**layer.get("budget", {}), "window": job.budget, "reserve": 0}
    if job.model:
        layer["squeeze"] = {**layer.get("squeeze", {}), "model": job.model}
    resolve([layer])
    return layer


@asynccontextmanager
async def stack_for(settings: Settings, workers: int) -> AsyncIterator[tuple[Runtime, str]]:
    """Yield a running system: the given one, the one that runs already, or an embedded one of our own."""
    async with AsyncExitStack() as stack:
        found = None if settings.nats.url else running_stack(data_folder(settings))
        if found is not None and found.owner != "up":
            raise Unavailable(
                f"`jettison {found.owner}` (pid {found.pid}) uses {data_folder(settings)}; "
                "wait for its end, give another --data, or start `jettison up` for both",
                pid=found.pid,
            )
        ours = not settings.nats.url and found is None
        if ours:
            said("starting NATS, S3 and the actors …")
            settings, _ = await stack.enter_async_context(started_stack(settings))
        else:
            settings = located(settings)
        running = await stack.enter_async_context(runtime(settings, role="compact"))
        if workers:
            await stack.enter_async_context(_processes(settings, workers))
        elif ours:
            await stack.enter_async_context(beside(work(running)))
        yield running, settings.nats.url


@asynccontextmanager
async def _processes(settings: Settings, each: int) -> AsyncIterator[None]:
    """Run *each* worker processes of every actor, and end them by their pids."""
    environment = {
        **os.environ,
        "JETTISON_NATS__URL": settings.nats.url,
        "JETTISON_S3__ENDPOINT": settings.s3.endpoint,
        "JETTISON_S3__ACCESS_KEY": settings.s3.access_key,
        "JETTISON_S3__SECRET_KEY": settings.s3.secret_key,
        "JETTISON_DATA": str(data_folder(settings)),
        "JETTISON_KEYS__FOLDER": settings.keys.folder,
        "JETTISON_KEYS__MAKE": str(settings.keys.make).lower(),
    }
    command = (sys.executable, "-c", "from actors.cli import main; main()", "worker")
    found = [
        await asyncio.create_subprocess_exec(*command, actor, env=environment) for actor in ACTORS for _ in range(each)
    ]
    try:
        yield
    finally:
        for process in found:
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(process.wait() for process in found))


async def _written(out: Any, played: Played, report: Report, as_json: bool) -> None:
    context = played.context
    if as_json:
        document = json_bytes(
            {
                "address": str(played.address),
                "before_tokens": played.before_tokens,
                "before_estimated": played.before_estimated,
                "after_tokens": context.tokens,
                "budget": context.budget,
                "over_budget": context.tokens > context.budget,
                "level": context.level,
                "hash": context.hash,
                "version": context.version,
                "tokenizer": context.tokenizer,
                "estimated": context.estimated,
                "flaws": list(played.flaws),
                "seconds": round(played.seconds, 3),
                "report": report,
                "system": context.system,
                "messages": context.messages,
            }
        )
    else:
        system = [{"role": "system", "content": context.system}] if context.system else []
        document = b"[" + b",\n".join(map(wire.encode, [*system, *context.messages])) + b"]"
    out.write(document + b"\n")
    out.flush()
    said(
        f"{played.address.conversation}: {'~' * played.before_estimated}{played.before_tokens:,} -> "
        f"{context.tokens:,} tokens"
        f"{' (estimated)' if context.estimated else ''}, budget {context.budget:,}, {report.line()}, "
        f"{played.seconds:.1f} s" + (f", INVALID: {played.flaws[:3]}" if played.flaws else "")
    )


def _tokens_before(talk: Transcript) -> tuple[int, bool]:
    """Return the tokens of all messages as they were said, and whether a part of them was only estimated.

    What cannot be read counts nothing.
    """
    count = counter(tokenizer_for("").encoding)
    total, estimated = 0, False
    for message in talk.messages:
        try:
            entry = measure(SaidMessage(raw=wire.encode(message)), number=1, count=count)
        except JettisonError:
            continue
        total += entry.tokens
        estimated = estimated or any(part.estimated for part in entry.parts)
    return total, estimated


def progress(conversations: int, messages: int) -> Any:
    """Return a context manager with a progress bar on stderr; without a terminal, a line every few seconds."""
    from .progress import bar

    return bar(f"{conversations} conversation{'s' if conversations != 1 else ''}", messages)
