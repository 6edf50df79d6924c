"""Writes the protocol for other languages anew from our types: `.venv/bin/python -m tests.asyncapi`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec

from protocol import codec, history, service_messages, subjects
from protocol.ids import Address, Token

PAGE = Path(__file__).parents[1] / "infra" / "docs" / "asyncapi.json"
AT = Address(tenant=Token("{tenant}"), conversation=Token("{conversation}"))

ASKED: dict[subjects.Verb, tuple[type[msgspec.Struct], Any, str]] = {
    "context": (service_messages.ContextAsked, list[dict[str, Any]], "The view for the next call."),
    "upload": (service_messages.UploadAsked, None, "Where a large part can be PUT; the answer's `url`."),
    "read": (service_messages.ReadAsked, str, "A part of an artifact or of messages, as text."),
    "expand": (service_messages.ExpandAsked, service_messages.Expanded, "What has left the view comes back."),
    "open": (service_messages.OpenAsked, service_messages.Opening, "Whether it can be opened so."),
    "search": (history.SearchAsked, history.Found, "Messages of the whole history that hold some words."),
    "artifacts": (history.ArtifactsAsked, list[history.KeptPart], "What is kept whole outside of views."),
    "versions": (history.VersionsAsked, list[history.Version], "What was done, commit by commit."),
    "diff": (history.DiffAsked, history.Diff, "What lies between two versions."),
    "why": (history.WhyAsked, history.Why, "What happened to a message."),
    "where": (history.WhereAsked, history.Where, "Where a text stands."),
    "policy": (service_messages.PolicyAsked, service_messages.PolicyChanged, "Another policy from now on."),
    "rewind": (service_messages.RewindAsked, service_messages.Rewound, "An earlier context again."),
    "fork": (service_messages.ForkAsked, service_messages.Forked, "Another conversation that begins as this one."),
    "erase": (history.EraseAsked, history.Certificate, "It is erased for good."),
}
"""By verb: the question, the body of its answer, and what it is for."""

REF = "#/components/schemas/{name}"
PARAMETERS = {
    "tenant": {"description": "Safe name of the tenant: [A-Za-z0-9_-]{1,64}; others as protocol.md says."},
    "conversation": {"description": "Safe name of the conversation."},
}


def written() -> str:
    """Return the document as it should be."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Return the protocol as AsyncAPI 3: every channel of an agent, with the schema of every message."""
    types: list[Any] = [codec.Said, service_messages.Answer, service_messages.Ready]
    for asked, answered, _ in ASKED.values():
        types += [asked, *([answered] if answered is not None else [])]
    shapes, schemas = msgspec.json.schema_components(types, ref_template=REF)
    shape = dict(zip(map(repr, types), shapes, strict=True))
    channels: dict[str, Any] = {"said": _said(), "ready": _ready()}
    messages: dict[str, Any] = {
        "Said": _message("Said", shape[repr(codec.Said)], "application/msgpack", "What an agent says at once."),
        "Stored": _message("Stored", _STORED, "application/json", "NATS has stored it; `seq` is its place in the log."),
        "Answer": _message("Answer", shape[repr(service_messages.Answer)], "application/json", "The first frame."),
        "Working": _message("Working", {"type": "null"}, "application/json", "A sign of life: header `Status: 100`."),
        "Ready": _message("Ready", shape[repr(service_messages.Ready)], "application/json", "The next view is ready."),
    }
    operations: dict[str, Any] = {
        "say": _operation("send", "said", ["Said"], reply="stored"),
        "hearReady": _operation("receive", "ready", ["Ready"]),
    }
    channels["stored"] = {"address": None, "messages": {"Stored": _ref("messages", "Stored")}}
    for verb in get_args(subjects.Reading) + get_args(subjects.Changing):
        asked, answered, about = ASKED[verb]
        name, body = asked.__name__, f"{verb.title()}Body"
        messages[name] = _message(name, shape[repr(asked)], "application/json", about)
        bodies = []
        if answered is not None:
            kind = "text/plain" if answered is str else "application/json"
            told = "What `frames` frames hold, put together."
            messages[body] = _message(body, shape[repr(answered)], kind, told)
            bodies = [body]
        answer = f"{verb}Answer"
        names = ["Working", "Answer", *bodies]
        channels[verb] = _channel(subjects.ask(verb, AT), [name])
        channels[answer] = {"address": None, "messages": {one: _ref("messages", one) for one in names}}
        operations[verb] = _operation("send", verb, [name], reply=answer)
        operations[verb]["description"] = about + _allowed(verb)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Jettison, as agents speak to it over NATS",
            "version": "1",
            "description": "Written by `.venv/bin/python -m tests.asyncapi` from the types of `protocol/`. "
            "What no schema says is in protocol.md. MessagePack has its bytes as they are where a schema says base64.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"nats": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


_STORED = {
    "type": "object",
    "properties": {
        "stream": {"type": "string"},
        "seq": {"type": "integer"},
        "duplicate": {"type": "boolean"},
        "error": {"type": "object"},
    },
}


def _said() -> dict[str, Any]:
    return _channel(subjects.said(AT), ["Said"])


def _ready() -> dict[str, Any]:
    return _channel(subjects.ready(AT), ["Ready"])


def _channel(address: str, names: list[str]) -> dict[str, Any]:
    return {"address": address, "parameters": PARAMETERS, "messages": {one: _ref("messages", one) for one in names}}


def _operation(action: str, channel: str, names: list[str], *, reply: str = "") -> dict[str, Any]:
    def of(where: str, one: str) -> dict[str, str]:
        return {"$ref": f"#/channels/{where}/messages/{one}"}

    found: dict[str, Any] = {"action": action, "channel": _ref("", channel)}
    found["messages"] = [of(channel, one) for one in names]
    if reply:
        found["reply"] = {
            "address": {"location": "$message.header#/reply", "description": "The inbox of who asks."},
            "channel": _ref("", reply),
        }
    return found


def _message(name: str, payload: Any, content: str, about: str) -> dict[str, Any]:
    found = {"name": name, "contentType": content, "summary": about, "payload": payload}
    if name == "Said":
        # arrays whose items have places: AsyncAPI's own dialect, draft 7, has no words for them
        found["payload"] = {"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": payload}
        told = "Repeats with the envelope, and nobody else can guess it: what comes twice is stored once."
        properties = {"Nats-Msg-Id": {"type": "string", "description": told}, "traceparent": {"type": "string"}}
        found["headers"] = {"type": "object", "properties": properties, "required": ["Nats-Msg-Id"]}
    return found


def _allowed(verb: subjects.Verb) -> str:
    return " Where an operator turned it on." if verb in get_args(subjects.Changing) else ""


def _ref(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}" if kind else f"#/channels/{name}"}


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
