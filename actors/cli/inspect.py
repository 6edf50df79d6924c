"""Inspect commands, which only read: `log`, `show`, `artifact`, `trace`."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, cast, get_args

import msgspec

from actors.audit.trail import trail
from actors.audit.verify import mentioned
from actors.core.state import State
from actors.core.view import view
from actors.host.bootstrap import Runtime
from actors.runtime.fold import check_living, count_of, folded
from actors.services.read_back import artifact as fetched
from actors.services.serving import ranges
from actors.telemetry.trace_view import as_json as spans_as_json
from actors.telemetry.trace_view import newest, read_spans, trace_tree
from protocol import codec
from protocol.errors import JettisonError, NotFound, Rejected
from protocol.facts import MessagesAppended
from protocol.formats import messages
from protocol.ids import Address, Token, written_address
from storage.ports import Record

from .asked_about import missing, typed, way_back
from .options import StackOptions, WrongUsage
from .progress import bar
from .session import connected, printed, said, settings_of, shown, traces_folder
from .terminal_text import one_line, plain

ROLE = "reader"

ARTIFACT_KEY = re.compile("[0-9a-f]{8,64}")
"""Fewer digits are too few to say which one a log means."""


def log(stack: StackOptions, conv: str, *, as_json: bool) -> int:
    """Print all facts; see `jettison log --help`."""

    typed(conv)  # says it of a file
    at = written_address(conv)

    async def main(running: Runtime) -> int:
        for record in await _records(running, at, conv):
            for row in facts_told(record):
                shown(row, _fact_line(row) + "\n", as_json=as_json)
        return 0

    return connected(main, stack, role=ROLE)


def show(stack: StackOptions, conv: str, *, budget: int, full: bool, profile: str, as_json: bool) -> int:
    """Print a view; see `jettison show --help`."""
    at, version = typed(conv)
    if profile and profile not in get_args(messages.Profile):
        raise WrongUsage(f"a profile is one of {', '.join(get_args(messages.Profile))}, not {profile!r:.40}")
    shape = cast(messages.Profile, profile) if profile else None

    async def main(running: Runtime) -> int:
        records = await _records(running, at, conv if version is None else conv.rpartition("@")[0])
        check_living(at, records)
        state = _state_at(at, records, version)
        if state.policy is None:
            raise NotFound(f"{at} has no policy yet: no worker has seen it", address=str(at))
        count = count_of(state)
        seen = view(state, budget=min(budget or state.usable_tokens, state.usable_tokens), count=count, profile=shape)
        decoded = [messages.decode(raw) for raw in seen.messages]
        if as_json:
            about = {name: getattr(seen, name) for name in ("upto", "tokens", "hash", "level", "categories")}
            printed({"address": str(at), "version": state.version, **about, "messages": decoded})
        else:
            sys.stdout.write(drawn(decoded, chars=10**9 if full else 400))
            # what a version served may have been cut for its call; `show --served` shows that
            which = f"version {version}" if version is not None else f"as it stands behind version {state.version}"
            shows = f"; it shows messages {ranges(seen.numbers)} of {state.messages:,}" if seen.numbers else ""
            said(f"{which}, {seen.tokens:,} tokens, hash {seen.hash[:16]}{shows}")
        return 0

    return connected(main, stack, role=ROLE)


def artifact(stack: StackOptions, key: str, *, tenant: str) -> int:
    """Write an artifact; see `jettison artifact --help`."""

    async def main(running: Runtime) -> int:
        owner = Token(written_address(f"{tenant}/x").tenant)
        try:
            body = await fetched(key, tenant=owner, artifacts=running.artifacts)
        except NotFound:
            if at := await _lost(running, owner, key):
                told = f"the log of {at} names the artifact {key}, and the store has it no more; {way_back(str(at))}"
                raise NotFound(told, key=key, address=str(at)) from None
            raise
        sys.stdout.buffer.write(body)
        return 0

    return connected(main, stack, role=ROLE)


def trace(stack: StackOptions, conv: str, *, last: int, as_json: bool) -> int:
    """Draw traces; see `jettison trace --help`."""
    folder = traces_folder(settings_of(stack))
    at = written_address(conv)
    rows = read_spans(folder, at.conversation, at.tenant)
    if not rows:
        raise NotFound(f"no span of {conv} in {folder}; spans may have gone to an OTLP endpoint", folder=str(folder))
    rows = newest(rows, last)
    if as_json:
        for row in spans_as_json(rows):
            printed(row)
        return 0
    from rich.console import Console

    Console(highlight=False).print(trace_tree(rows))
    return 0


def drawn(view_messages: Iterable[Mapping[str, Any]], *, chars: int) -> str:
    """Return messages as text for a person: each with its role, its tools and at most *chars* characters.

    It is hostile text: what a terminal would obey is shown instead.
    """
    lines = []
    called: dict[str, str] = {}
    for message in view_messages:
        parsed = messages.parse(message)
        names = {call.id: call.name for call in parsed.calls}
        called |= names
        of = [*names.values(), *(called.get(result.id, "") for result in parsed.results)]
        about = f" ({', '.join(map(plain, filter(None, of)))})" if any(of) else ""
        text = "\n".join(part.text for part in parsed.parts)
        more = f" […{len(text) - chars:,} more characters]" if len(text) > chars else ""
        lines.append(f"--- {parsed.role}{about} ---\n{plain(text[:chars])}{more}")
    return "\n".join(lines) + "\n"


async def _lost(running: Runtime, tenant: Token, key: str) -> Address | None:
    """Return the conversation of *tenant* whose log names an artifact with *key* that the store has not."""
    if not ARTIFACT_KEY.fullmatch(key):
        return None
    ours = [at for at in await running.log.addresses() if at.tenant == tenant]
    with bar("looking into logs", len(ours), unit="conversations") as step:
        for index, at in enumerate(ours, 1):
            # one that cannot be read says nothing of it
            with suppress(JettisonError):
                for named in mentioned(at, await running.log.read(at, after=0)):
                    if named.startswith(key) and not await _has(running, tenant, named):
                        return at
            step(str(at), index, len(ours))
    return None


async def _has(running: Runtime, tenant: Token, sha256: str) -> bool:
    try:
        return bool(await running.artifacts.find(tenant, sha256))
    except NotFound:
        return False


async def _records(running: Runtime, at: Address, text: str) -> list[Record]:
    records = await running.log.read(at, after=0)
    if not records:
        raise missing(text, at)
    return records


def _state_at(at: Address, records: list[Record], version: int | None) -> State:
    """Return the state right after the commit of *version*, with what had been said by then."""
    if version is None:
        return folded(at, records)
    return deque(trail(at, records, upto=version), maxlen=1).pop().after


def facts_told(record: Record) -> list[dict[str, Any]]:
    """Return a row for each fact of *record*, after one for the policy that a commit adopts."""
    rows: list[dict[str, Any]] = []
    where: dict[str, Any] = {"seq": record.seq, "side": record.side, "time": record.time}
    try:
        if record.side == "said":
            said_envelope = codec.decode_said(record.body)
            facts: tuple[Any, ...] = said_envelope.facts
            where |= {"writer": said_envelope.writer, "count": said_envelope.count}
        else:
            commit = codec.decode_commit(record.body)
            facts = commit.facts
            where |= {"version": commit.version, "writer": commit.writer, "hash": commit.hash.hex()[:16]}
            if commit.policy:
                rows += [{**where, "fact": "PolicyAdopted", "policy": msgspec.json.decode(commit.policy)}]
    except Rejected as error:
        return [{**where, "fact": "unreadable", "reason": str(error)}]
    return rows + [{**where, "fact": type(fact).__name__, **_fields(fact)} for fact in facts]


def _fields(fact: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in fact.__struct_fields__:
        value = getattr(fact, name)
        if isinstance(fact, MessagesAppended) and name == "messages":
            value = [{"role": _role(one.raw), "bytes": len(one.raw), "claims": len(one.claims)} for one in value]
        elif name == "items":
            value = len(value)
        elif name in ("hash", "head"):
            value = value.hex()
        elif isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        out[name] = msgspec.to_builtins(value)
    return out


def _role(raw: bytes) -> str:
    try:
        item = messages.decode(raw)
        return str(item.get("role") or item.get("type") or "?")
    except Rejected:
        return "?"


def _fact_line(row: dict[str, Any]) -> str:
    skipped = ("seq", "side", "time", "writer", "hash", "fact", "version", "count", "text", "policy", "prose", "answer")
    rest = {key: value for key, value in row.items() if key not in skipped}
    told = " ".join(f"{key}={_brief(value)}" for key, value in rest.items())
    version = f"v{row['version']}" if "version" in row else ""
    return f"{row['seq']:>8} {row['side']:<4} {version:<6} {row['fact']:<20} {told}"


def _brief(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "role" in value[0]:
        return ",".join(f"{one['role']}:{one['bytes']}B" for one in value)
    return one_line(str(value), chars=60)
