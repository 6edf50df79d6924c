"""Views name the tool that reads back as the policy calls it, and none where the model has none."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.account_text import account_text
from actors.core.digest_text import FORM, render
from actors.core.read_tool import named
from actors.core.view import view
from actors.digest.requests import LEAST_CHARS, within
from actors.spill.labels import lead_files, lead_repeated, lead_stored, lead_unstored
from protocol.account import Account, AccountRequest
from protocol.jsonbytes import decode, encode
from protocol.policy import Policy
from protocol.tools import READ_TOOL
from tests.builders import COUNT, Talk, assistant, policy, result, sample, user, words
from tests.core.runs import preset_policy

MCP = "mcp__jettison__read_artifact"
LONG = "See here: " + "and so on, " * 400


def texts() -> list[str]:
    """Return one of each text in which the rules name the tool."""
    long = (AccountRequest(number=1, text=LONG), AccountRequest(number=3, text=LONG))
    account = Account(requests=within(long, LEAST_CHARS, count=COUNT), requests_left_out=3, left_out_through=7)
    sha256 = "9f86d081884c7d65" * 4
    stored = [lead_stored(text, kind, sha256=sha256, bytes=9, tokens=9, exact=True) for text, kind in STORED]
    return [
        account_text(account, prose="", through=9),
        render((), prose="", through=9, form=FORM),
        *stored,
        lead_files([("image/png", 5, sha256), ("image/png", 6, sha256)])(1000, COUNT),
        lead_repeated("text", number=3, sha256=sha256, tokens=9),
        lead_unstored(number=3, bytes=9),
        '[Shortened; the whole: read_artifact("messages:3")]\nand what is left',
    ]


STORED = (("{}", "json"), ("a\nb\nc\nd", "log"), ("a", "text"))


def said(text: str, name: str) -> str:
    raw = named(encode({"content": text}), policy(1000, shape={"read_tool": name}))
    return str(decode(raw)["content"])


@pytest.mark.parametrize("text", texts(), ids=lambda text: text[:20])
def test_each_text_of_ours_names_the_tool_as_it_is_called_or_none(text: str) -> None:
    assert READ_TOOL in text
    assert said(text, READ_TOOL) == text
    assert said(text, MCP) == text.replace(READ_TOOL, MCP)
    without = said(text, "")
    assert READ_TOOL not in without
    # nothing but the mention is gone, and what is left reads as a sentence
    assert len(text) - len(without) < 90 * text.count(READ_TOOL)
    assert not [odd for odd in (" ]", " .", ":]", "..", ": ]", ";]") if odd in without]


def _calling(name: str) -> dict[str, Any]:
    message = assistant("", "c")
    message["tool_calls"][0]["function"]["name"] = name
    return message


def run_under(wanted: Policy) -> Talk:
    talk = Talk(wanted)
    for message in sample():
        talk.play(message)
    return talk


def test_a_run_is_decided_alike_whatever_the_tool_is_called() -> None:
    runs = {
        name: run_under(preset_policy("jettison", 5000, shape={"read_tool": name})) for name in ("", MCP, READ_TOOL)
    }
    views = {name: view(talk.state, budget=5000, count=COUNT) for name, talk in runs.items()}
    assert len({str(talk.facts) for talk in runs.values()}) == 1
    assert views[READ_TOOL].body.count(b"read_artifact(") == views[MCP].body.count(b"mcp__jettison__read_artifact(") > 1
    assert b"read_artifact" not in views[""].body
    # a longer name is counted
    assert views[READ_TOOL].tokens < views[MCP].tokens <= 5000
    least = views[READ_TOOL].tokens
    assert view(runs[MCP].state, budget=least, count=COUNT).tokens <= least


def test_words_of_others_stay_and_what_the_named_tool_read_is_not_put_away_again() -> None:
    mention = 'I call read_artifact("messages:1") now.'
    back = words(900)
    for name, stays in ((MCP, True), (READ_TOOL, False)):
        talk = Talk(policy(8000, shape={"read_tool": name}, spill={"share": 0.05}))
        talk.play(user(mention), _calling(MCP), result("c", back))
        body = view(talk.state, budget=8000, count=COUNT).body
        assert encode({"content": mention})[11:-1] in body
        assert (b"of this answer are left out" in body, b"kept as an artifact" in body) == (stays, not stays)
