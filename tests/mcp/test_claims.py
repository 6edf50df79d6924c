"""What a caller may read comes from its claims; what a call names chooses among them, and never goes beyond."""

import hashlib

import pytest

from actors.host.admitted import admitted_in, shown_by
from actors.mcp.claims import Claims, Unknown
from actors.mcp.texts import ANSWER_BYTES_MAX, explained_text, found_text, versions_text
from actors.mcp.tools import OFFERS, TEXT_CHARS_MAX
from protocol.errors import Rejected
from protocol.history import Event, Found, Hit, Version, Why
from protocol.ids import Address, Token, address
from protocol.tools import SERVED_TOOLS

ALL = Claims.of("acme", ())
SOME = Claims.of("acme", ("ticket-1", "build-*", "a name"))
ONE = Claims.of("acme", ("ticket-1",))


def at(conversation: str) -> Address:
    return Address(tenant=Token("acme"), conversation=Token(conversation))


@pytest.mark.parametrize(
    ("claims", "key", "conversation", "found"),
    [
        (ONE, "messages:4-9", "", ("ticket-1", "messages:4-9")),
        (ONE, "ticket-1/#4", "", ("ticket-1", "#4")),
        (ONE, "9f86d081884c7d65", "ticket-1", ("ticket-1", "9f86d081884c7d65")),
        (ONE, " ticket-1/9f86 ", "ticket-1", ("ticket-1", "9f86")),
        (SOME, "build-7/messages:1", "", ("build-7", "messages:1")),
        (SOME, "messages:1", "a name", (address("a name").conversation, "messages:1")),
        (SOME, f"{address('a name').conversation}/messages:1", "", (address("a name").conversation, "messages:1")),
        (ALL, "whatever/messages:1", "", ("whatever", "messages:1")),
        # whatever is in a name, it names no tenant
        (ALL, "other/ticket-1/messages:1", "", (address("other/ticket-1").conversation, "messages:1")),
        (ALL, "../other/messages:1", "", (address("../other").conversation, "messages:1")),
    ],
)
def test_a_key_names_its_conversation(claims: Claims, key: str, conversation: str, found: tuple[str, str]) -> None:
    assert claims.addressed(key, conversation) == (at(found[0]), found[1])


OUTSIDE = ["ticket-2", "ticket-10", "Ticket-1", "ticket-1 ", "build", "builds-1", "../ticket-1", "acme/ticket-1", "*"]
OUTSIDE += ["build-*/x", "ticket-1\0", "ticket-1.", ">", "\ud800", "x" * 400, "h--x", "e--dGlja2V0LTE", "%2e%2e", "."]


@pytest.mark.parametrize("outside", OUTSIDE)
def test_what_is_outside_of_the_claims_is_unknown_in_the_same_words(outside: str) -> None:
    for claims in (SOME, ONE):
        for key, conversation in ((f"{outside}/messages:1", ""), ("messages:1", outside)):
            with pytest.raises(Unknown, match="nothing of that name is kept here"):
                claims.addressed(key, conversation)


def test_a_conversation_is_named_where_there_are_several_and_once() -> None:
    for claims in (ALL, SOME, Claims.of("acme", ("build-*",))):
        with pytest.raises(Rejected, match="say which conversation"):
            claims.addressed("messages:1")
    with pytest.raises(Rejected, match="two conversations"):
        ALL.addressed("ticket-1/messages:1", "ticket-2")
    with pytest.raises(Unknown):
        ALL.addressed("/messages:1")


def test_who_shows_a_token_has_its_claims_until_it_runs_out() -> None:
    def line(token: str, rest: str) -> str:
        return f"acme {hashlib.sha256(token.encode()).hexdigest()} {rest}\n"

    text = line("all", "") + line("old", "2001-01-01") + line("one", "never ticket-1 build-*") + "# nobody\n"
    admitted = admitted_in(text, key="mcp.callers")
    told = {token: shown_by(token, admitted) for token in ("all", "old", "one", "", "none", "\ud800")}
    assert {token for token, found in told.items() if found} == {"all", "one"}
    one = told["one"]
    assert one is not None
    assert one.conversations == ("ticket-1", "build-*")
    for bad in ("never a/b", "never ticket-1 *x", "soon", "never a.b", "never ''"):
        with pytest.raises(Rejected, match=r"mcp\.callers, line 1: a tenant") as refused:
            admitted_in(line("token", bad), key="mcp.callers")
        assert "token" not in str(refused.value).lower()


BAD = [
    *({}, {"key": 5}, {"key": ["a"]}, {"key": "a", "path": "/etc/passwd"}, {"key": "x" * (TEXT_CHARS_MAX + 1)}),
    *({"key": "a", "context": 10**30}, {"key": "a", "context": "many"}, {"key": {"a": {}}}, {"Key": "a"}),
    {"key": "a", "tenant": "other"},
]


@pytest.mark.parametrize("arguments", BAD, ids=lambda one: str(one)[:40])
def test_arguments_that_cannot_be_used_are_told_of_in_words(arguments: dict[str, object]) -> None:
    with pytest.raises(Rejected) as refused:
        OFFERS[0].read(arguments)
    assert len(str(refused.value)) < 250


def test_arguments_are_taken_as_models_write_them() -> None:
    assert tuple(one.name for one in OFFERS) == SERVED_TOOLS
    read, search, versions, explain, expand = OFFERS
    assert read.read({"key": "a", "lines": 20, "pattern": None}) == read.read({"key": "a", "lines": 20})
    assert search.read({"query": "x", "limit": "5", "regex": "true"}) == search.read(
        {"query": "x", "limit": 5, "regex": True}
    )
    assert versions.read({}) == versions.read({"limit": 20})
    assert explain.schema["required"] == ["message"]
    assert explain.read({"message": 12}) != explain.read({"message": "#12"})
    assert expand.changes
    assert all(set(one.schema["properties"]) == set(one.takes.__struct_fields__) for one in OFFERS)


def test_answers_are_bounded_and_say_what_is_left() -> None:
    line = "日本" * 120
    hits = tuple(Hit(number=number, about=line, lines=((2, line, True),) * 3, more=7) for number in range(50, 0, -1))
    text = found_text(Found(hits=hits, messages=900, oldest=1, looked_at=1000), conversation="c" * 64)
    assert len(text.encode()) <= ANSWER_BYTES_MAX
    head = text.partition("\n")[0]
    shown = text.count("more lines of it match")
    assert f"the newest {shown}, newest first" in head
    assert f"go on with before={51 - shown}," in head
    assert f"{900 - shown:,} older ones" in head

    row = Version(
        version=3, time="2026-11-22T10:00:00Z", seq=7, stage="cut", outcome="applied", facts={"HistoryCut": 2},
        before_tokens=9, after_tokens=5, usable_tokens=8, messages=4, upto_seq=7, reasons=("r" * 5000,),
        policy_hash="", trace_id="", writer="", hash="",
    )  # fmt: skip
    text = versions_text([row] * 200, conversation="c", more=True)
    assert len(text.encode()) <= ANSWER_BYTES_MAX
    assert "Older ones: before=3" in text

    step = Event(
        version=2, time="", seq=7, stage="spill", did="spilled", fact="ToolOutputSpilled", rule="é" * 500, policy={},
        before_tokens=9, after_tokens=5, commit_id="", hash="", policy_hash="", trace_id="",
    )  # fmt: skip
    explained = Why(address="", version=9, number=4, role="tool", now="changed", text="é" * 9000, history=(step,) * 400)
    text = explained_text(explained, conversation="c")
    assert len(text.encode()) <= ANSWER_BYTES_MAX
    assert "earlier steps are left out; ask with version=1" in text
    assert 'Read it whole: "c/messages:4"' in text
