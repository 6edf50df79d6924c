"""What clients keep of their sessions is read as the events that a log of the same session has."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.programs.clients.transcripts import PROMPTS, Events, opencode_sessions, qwen_sessions

SESSION: Events = [
    ("asks", "", PROMPTS[0]),
    ("says", "", "I look."),
    ("calls", "call_1", "bash"),
    ("gets", "call_1", "log 1"),
    ("says", "", "Done."),
]


def test_qwen_codes_chats_are_read(tmp_path: Path) -> None:
    lines: list[tuple[str, list[dict[str, Any]]]] = [
        ("user", [{"text": f"{PROMPTS[0]}."}]),
        (
            "assistant",
            [
                {"text": "hm", "thought": True},
                {"text": "I look."},
                {"functionCall": {"id": "call_1", "name": "bash", "args": {}}},
            ],
        ),
        ("tool_result", [{"functionResponse": {"id": "call_1", "name": "bash", "response": {"output": "log 1"}}}]),
        ("assistant", [{"text": "Done."}]),
    ]
    chat = tmp_path / ".qwen" / "projects" / "of-the-folder" / "chats" / "s.jsonl"
    chat.parent.mkdir(parents=True)
    written = [json.dumps({"type": kind, "message": {"role": "x", "parts": parts}}) for kind, parts in lines]
    chat.write_text("\n".join([*written, '{"type": "system", "subtype": "ui_telemetry"}']))
    assert qwen_sessions(tmp_path) == [SESSION]


def test_opencodes_database_is_read(tmp_path: Path) -> None:
    call = {"type": "tool", "tool": "bash", "callID": "call_1", "state": {"status": "completed", "output": "log 1"}}
    parts = [
        ("m1", {"type": "text", "text": f'"{PROMPTS[0]}."'}),
        ("m2", {"type": "step-start"}),
        ("m2", {"type": "text", "text": "I look."}),
        ("m2", call),
        ("m3", {"type": "text", "text": "Done."}),
        ("m4", {"type": "text", "text": f"{PROMPTS[2]}: read."}),
    ]
    file = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as made, made:
        made.execute("create table session (id)")
        made.execute("create table message (id, session_id, data)")
        made.execute("create table part (id, message_id, data)")
        made.executemany("insert into session values (?)", [("s1",), ("s2",)])
        roles = [("m1", "s1", "user"), ("m2", "s1", "assistant"), ("m3", "s1", "assistant"), ("m4", "s2", "user")]
        made.executemany(
            "insert into message values (?, ?, ?)", [(one, of, json.dumps({"role": role})) for one, of, role in roles]
        )
        told = [(f"p{at}", of, json.dumps(part)) for at, (of, part) in enumerate(parts)]
        made.executemany("insert into part values (?, ?, ?)", told)
    assert opencode_sessions(tmp_path) == [SESSION, [("asks", "", PROMPTS[2])]]
