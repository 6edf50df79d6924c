"""What reads bytes of strangers: functions of bytes that raise where they should not, each with bytes to begin from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args
from urllib.parse import unquote

import msgspec

from actors.audit import anchors, bundle
from actors.audit.repair_plan import plan
from actors.audit.repairing import repaired
from actors.audit.replay import replay
from actors.audit.trail import versioned
from actors.audit.verify import Evidence, verify
from actors.core.text.kinds import kind_of
from actors.core.text.preview import preview
from actors.core.text.secrets import without_secrets
from actors.core.text.shorten.by_kind import shorten
from actors.core.text.values import values
from actors.runtime.conversations import Conversations
from actors.runtime.fold import folded
from actors.services.context_service import ContextService
from protocol import cipher, codec
from protocol import policy as policies
from protocol.cipher import KEY_BYTES, Key
from protocol.errors import BadEnvelope, BadId, BadPolicy, BudgetRefused, ChainBroken, Damaged, NotFound, Rejected
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats.messages import Profile
from protocol.formats.validate import problems
from protocol.ids import written_address
from protocol.overflow import counts_in, is_overflow
from protocol.service_messages import Answer, raised
from protocol.subjects import Verb
from protocol.tools import read_asked
from storage.memory import MemoryArtifacts, MemoryLog, MemorySnapshots
from storage.memory_work import MemoryInProgress, MemoryRequests, MemoryWakes
from storage.ports import Record
from tests.audit import faults
from tests.builders import AT, COUNT, Talk, assistant, policy, result, sample, user, words
from tests.page.shown import app_over, fill

LOOP_SECONDS = 20.0
TEXT_TOKENS = 60
PROFILES: tuple[Profile, ...] = get_args(Profile)
VERBS: tuple[Verb, ...] = get_args(Verb)


@dataclass(frozen=True, kw_only=True)
class Target:
    """One reader: *check* fails where it does what it must not do."""

    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]


@cache
def talk() -> Talk:
    """Return a small conversation; nobody may change it."""
    made = Talk(policy(600))
    for turn in range(5):
        made.play(user(f"question {turn}"), assistant(None, f"c{turn}"), result(f"c{turn}", words(300)))
    made.append(user("and now?"))
    return made


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all targets that need one."""
    return asyncio.new_event_loop()


def check_codec(data: bytes) -> None:
    with suppress(BadEnvelope):
        said = codec.decode_said(data)
        assert codec.decode_said(codec.encode_said(said)) == said
    with suppress(BadEnvelope):
        assert codec.is_whole(data) or codec.decode_commit(data) is None


def check_cipher(data: bytes) -> None:
    cipher.opened(codec.ENCRYPTED + data, key=Key(bytes(KEY_BYTES)), at=AT, side="said")


def check_log(data: bytes) -> None:
    """A log of any bytes is folded, replayed, judged and planned for; what a plan makes of it is sound."""
    try:
        lines = msgspec.msgpack.decode(data, type=list[tuple[bool, bytes]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    records = [Record(seq=seq, side="done" if done else "said", body=body) for seq, (done, body) in enumerate(lines, 1)]
    with suppress(ChainBroken, BadEnvelope):
        folded(AT, records)
    replay(AT, records)
    found = verify(Evidence(at=AT, records=records))
    try:
        wanted = plan(AT, records, marks=(), copies=())
    except Rejected:
        return
    assert bool(wanted.problem) != found.ok
    if wanted.problem:
        commit = repaired(AT, wanted, by="fuzz", export="", at_ms=0)
        last = Record(seq=len(records) + 1, side="done", body=codec.encode_commit(commit))
        assert verify(Evidence(at=AT, records=[*wanted.records, last])).ok


def check_said(data: bytes) -> None:
    """Messages of any bytes, a line each, leave a view that every provider takes."""
    heard = Talk(policy(2000))
    for line in data.split(b"\n")[:24]:
        heard.say(MessagesAppended(messages=(SaidMessage(raw=line),)))
        heard.settle()
    for profile in PROFILES:
        with suppress(BudgetRefused):
            seen = _view(heard, profile)
            assert problems([json.loads(raw) for raw in seen], profile) == []


def check_text(data: bytes) -> None:
    """A result of any text has a kind, a shorter form and values, and keeps no secret."""
    text = _text(data)
    kind = kind_of(text)
    assert COUNT(shorten(text, kind, tokens_max=TEXT_TOKENS, count=COUNT)) <= TEXT_TOKENS
    assert COUNT(preview(text, tokens_max=TEXT_TOKENS, count=COUNT)) <= TEXT_TOKENS
    raw = text.encode("utf-8", "replace")
    for _ in values(raw):
        pass
    hidden = without_secrets(text, 1)
    assert without_secrets(hidden, 1) == hidden
    counts_in(text)
    is_overflow(text)


def check_bundle(data: bytes) -> None:
    with suppress(Rejected, Damaged):
        bundle.judged(bundle.unpacked(data))


def check_anchors(data: bytes) -> None:
    book = anchors.read(faults.AT.tenant, {1: data})
    for mark in book.marks(faults.AT.conversation):
        assert mark.anchor == 1
    with suppress(Damaged):
        anchors.proven(faults.AT, anchors.decode_proof(data))


def check_policy(data: bytes) -> None:
    with suppress(BadPolicy):
        policies.decode(data)
    try:
        layer = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    with suppress(BadPolicy):
        found = policies.resolve([layer])
        assert policies.decode(policies.encode(found)) == found


def check_names(data: bytes) -> None:
    text = _text(data)
    with suppress(BadId, NotFound):
        at, _ = versioned(text)
        assert written_address(str(at)) == at
    with suppress(Rejected):
        read_asked(text)


def check_request(data: bytes) -> None:
    """A question of any bytes is answered, and never by an error of the service itself."""
    verb = VERBS[(data[0] if data else 0) % len(VERBS)]
    answer = loop().run_until_complete(asyncio.wait_for(_asked(verb, data[1:]), LOOP_SECONDS))
    if answer.fault is not None:
        assert "the service failed" not in answer.fault.message, answer.fault.message
        raised(answer.fault)


def check_page(data: bytes) -> None:
    """Any address is answered, and never by an error of the page itself."""
    site = _site()
    status = loop().run_until_complete(asyncio.wait_for(_shown(site, data), LOOP_SECONDS))
    assert status < 500, status


async def _asked(verb: Verb, body: bytes) -> Answer:
    requests, log, artifacts = MemoryRequests(), MemoryLog(), MemoryArtifacts()
    await fill(log, artifacts, talk())
    service = ContextService(
        requests=requests,
        conversations=Conversations(log=log, snapshots=MemorySnapshots(), writer="fuzz"),
        artifacts=artifacts,
        log=log,
        wakes=MemoryWakes(),
        in_progress=MemoryInProgress(),
    )
    serving = asyncio.create_task(service.run())
    try:
        # who asks for a later place in the log waits for it: not here
        body = body.replace(b"upto_seq", b"upto_se_").replace(b"wait_seconds", b"wait_second_")
        frames = await requests.ask(verb, AT, body)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return msgspec.json.decode(frames[0], type=Answer)


@cache
def _site() -> Any:
    log, artifacts = MemoryLog(), MemoryArtifacts()
    loop().run_until_complete(fill(log, artifacts, talk()))
    return app_over(log, artifacts)


async def _shown(site: Any, data: bytes) -> int:
    path, _, query = data.partition(b"?")
    found: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(b"/" + path.lstrip(b"/")),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await site(scope, receive, send)
    return found[0]


def _text(data: bytes) -> str:
    """Return *data* as text; halves of characters stay, as JSON's escapes may bring them."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _view(heard: Talk, profile: Profile) -> tuple[bytes, ...]:
    from actors.core.view import view

    return view(heard.state, budget=heard.state.usable_tokens, count=COUNT, profile=profile).messages


def _records() -> list[bytes]:
    lines = [(record.side == "done", record.body) for record in talk().records]
    return [msgspec.msgpack.encode(lines), msgspec.msgpack.encode(lines[:9])]


def _messages() -> list[bytes]:
    anthropic: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {"a": [1]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "found " * 900}]},
    ]
    responses: list[Any] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "f1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "f1", "output": "found " * 900},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    every: list[list[Any]] = [sample()[:8], anthropic, responses, [{"role": "user", "content": [image]}]]
    every.append([*anthropic[:2], *responses[1:], user("x")])
    return [b"\n".join(msgspec.json.encode(one) for one in said) for said in every]


def _texts() -> list[bytes]:
    found = [str(one["content"]).encode()[:4000] for one in sample() if one["role"] == "tool"][:12]
    return [
        *found,
        b'[{"a": 1, "b": [true, null, 1e9]}]',
        b"a,b\n1,2\n",
        b"<html><body><p>x</p></body></html>",
        b"\xed\xa0\x80",
    ]


def _layers() -> list[bytes]:
    hooks = {"hooks": [{"id": "a", "when": {"kind": "pressure", "at": 0.5}, "then": {"kind": "compact"}}]}
    layer = {"preset": "llm4s", "budget": {"window": 9000}, "spill": {"per_tool": {"a*": {"tokens": 9}}}}
    full = policies.encode(policies.resolve([]))
    return [msgspec.json.encode(layer), msgspec.json.encode(hooks), full, b'{"preset": "holmes"}', b"{}"]


def _questions() -> list[bytes]:
    key = next(iter(talk().bodies), "ab")
    asked = [
        (0, {"budget": 400, "model": "gpt-4o"}),
        (1, {"sha256": "a" * 64}),
        (2, {"key": key[:12], "lines": "1-3", "pattern": "w.*d", "json_path": "$..a"}),
        (2, {"key": "messages:2-3", "bytes": "3-9", "context": 1}),
        (3, {"messages": "1-4"}),
        (3, {"artifact": key[:8]}),
    ]
    return [bytes([verb]) + msgspec.json.encode(body) for verb, body in asked]


def _paths() -> list[bytes]:
    key = next(iter(talk().bodies), "ab")
    c = f"c/{AT}"
    paths = [
        "",
        "?q=x&page=2",
        c,
        f"{c}?stage=digest&outcome=applied&page=1",
        f"{c}/v/3",
        f"{c}/v/3?profile=x",
        f"{c}/goto?version=2",
    ]
    paths += [
        f"{c}/why/2?v=3",
        f"{c}/where?text=a",
        f"{c}/diff?a=1&b=3",
        f"{c}/artifacts",
        f"{c}/artifact/{key}?lines=1-2",
    ]
    paths += [
        f"{c}/artifact/{key}?pattern=w&context=2&json_path=$",
        f"{c}/verify?run=1",
        f"{c}/chart.json",
        f"{c}/trace/{'a' * 32}",
    ]
    return [path.encode() for path in paths]


TARGETS: dict[str, Target] = {
    "codec": Target(check=check_codec, seeds=lambda: [record.body for record in talk().records[:30]]),
    "cipher": Target(check=check_cipher, seeds=lambda: [b"\x01" + bytes(60)]),
    "log": Target(check=check_log, seeds=_records),
    "said": Target(check=check_said, seeds=_messages),
    "text": Target(check=check_text, seeds=_texts),
    "bundle": Target(check=check_bundle, seeds=lambda: [bundle.packed(faults.recorded().bundle())]),
    "anchors": Target(
        check=check_anchors,
        seeds=lambda: [
            *list(faults.recorded().anchors.values())[:2],
            *(anchors.encode(proof) for proof in faults.recorded().book.proofs(faults.AT.conversation)[:2]),
        ],
    ),
    "policy": Target(check=check_policy, seeds=_layers),
    "names": Target(
        check=check_names, seeds=lambda: [b"t/c@3", b"a b", b'{"key": "ab", "lines": 3}', "é/日本".encode()]
    ),
    "request": Target(check=check_request, seeds=_questions),
    "page": Target(check=check_page, seeds=_paths),
}
