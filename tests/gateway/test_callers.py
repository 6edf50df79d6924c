"""Whose key the provider is asked with, and who may ask."""

import hashlib
from typing import Any

import aiohttp
import pytest

from actors.cli.gateway import callers_of
from actors.gateway.callers import check_open
from actors.host.admitted import admitted_in
from actors.host.settings import GatewaySection, load
from protocol.errors import BadPolicy, Rejected
from tests.gateway.provider import Answer, in_front_of, provider

TOKEN = "token-of-acme"
SHA256 = hashlib.sha256(TOKEN.encode()).hexdigest()
CALLERS = f"# those of acme\nacme {SHA256} 2999-01-01\nold {hashlib.sha256(b'old').hexdigest()} 2001-01-01\n"
BODY = b'{"messages": [{"role": "user", "content": "Hello."}]}'
OWN: dict[str, Any] = {"openai_key": "sk-own", "anthropic_key": "ant-own", "callers": CALLERS}


@pytest.mark.parametrize(
    ("shown", "status"), [({}, 401), ({"authorization": "Bearer old"}, 401), ({"x-api-key": "other"}, 401)]
)
async def test_who_shows_no_token_that_holds_is_refused(
    session: aiohttp.ClientSession, shown: dict[str, str], status: int
) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there, **OWN) as url:
        got = await session.post(f"{url}/v1/messages", data=b"{}", headers=shown)
        assert (got.status, (await got.json())["error"]["type"]) == (status, "authentication_error")
    assert there.asked == []


async def test_own_keys_go_up_and_what_the_caller_showed_goes_nowhere(session: aiohttp.ClientSession) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there, **OWN) as url:
        given = {"authorization": f"Bearer {TOKEN}", "cookie": "a=b", "openai-organization": "theirs"}
        for path in ("/v1/chat/completions", "/v1/messages"):
            assert (await session.post(url + path, data=BODY, headers=given)).status == 200
        for path in ("/v1/files", "/v1/modelsx"):
            assert (await session.post(url + path, data=b"{}", headers=given)).status == 403
    chat, messages = there.asked
    assert (chat.header("authorization"), chat.header("x-api-key")) == ("Bearer sk-own", "")
    assert (messages.header("authorization"), messages.header("x-api-key")) == ("", "ant-own")
    assert {key.lower() for key, _ in chat.headers}.isdisjoint({"cookie", "openai-organization"})
    assert TOKEN not in str(there.asked)


@pytest.mark.parametrize(
    "body",
    [
        b'{"input": "x", "previous_response_id": "resp_of_another"}',
        b'{"input": "x", "conversation": {"id": "conv_of_another"}}',
        b'{"input": [{"type": "item_reference", "id": "msg_of_another"}]}',
        b'{"input": [{"type": "item\\u005freference", "id": "msg_of_another", "x": "\\ud800"}]}',
        b'{"input": [{"id": "msg_of_another"}]}',
        b'{"input": [{"role": "user", "content": "x"}, {"type": null, "id": "msg_of_another"}]}',
        b'{"input": [{"type": "message", "type": null, "id": "msg_of_another"}]}',
        b'{"input": [{"type": "item_reference", "role": "system", "id": "msg_of_another"}, {"role": "user"}]}',
        b"no JSON, which another reader may take for some",
        b'{"input": "' + b"x" * 3000 + b'"}',
    ],
)
async def test_with_own_keys_nobody_reaches_for_what_another_caller_left(
    session: aiohttp.ClientSession, body: bytes
) -> None:
    given = {"authorization": f"Bearer {TOKEN}"}
    async with provider(lambda _: Answer()) as there, in_front_of(there, **OWN, body_bytes_max=2000) as url:
        assert (await session.post(f"{url}/v1/responses", data=body, headers=given)).status == 403
    assert there.asked == []


async def test_with_own_keys_nobody_goes_on_with_a_thread_that_another_caller_began(
    session: aiohttp.ClientSession,
) -> None:
    said = [{"role": "user", "content": "Go on."}]
    begins, goes_on = {"type": "create"}, {"type": "continue", "previous_message_id": "msg_of_another"}
    async with provider(lambda _: Answer()) as there, in_front_of(there, **OWN) as url:
        for thread, status in ((goes_on, 403), (begins, 200)):
            body = {"messages": said, "thread": thread}
            got = await session.post(f"{url}/v1/messages", json=body, headers={"x-api-key": TOKEN})
            assert got.status == status
    assert len(there.asked) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models/m", 200),
        ("HEAD", "/v1/models", 200),
        ("DELETE", "/v1/models/m", 403),
        ("POST", "/v1/models/m", 403),
        # a list of what all callers have had stored
        ("GET", "/v1/chat/completions", 403),
        ("GET", "/v1/responses", 403),
        ("DELETE", "/v1/messages", 403),
    ],
)
async def test_with_own_keys_models_are_only_read_and_what_is_managed_is_only_asked(
    session: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    body = b'{"input": "x", "messages": [{"role": "user", "content": "x"}]}'
    given = {"authorization": f"Bearer {TOKEN}"}
    async with provider(lambda _: Answer(pieces=())) as there, in_front_of(there, **OWN) as url:
        assert (await session.request(method, url + path, data=body, headers=given)).status == status
    assert len(there.asked) == (status == 200)


def test_callers_with_keys_of_their_own_are_told_apart_by_them() -> None:
    callers = callers_of(GatewaySection())
    one, other = (callers.caller(((b"x-api-key", key),), "anthropic") for key in (b"one", b"other"))
    assert one is not None
    assert other is not None
    assert (one.tenant, other.tenant) == ("default", "default")
    assert one.partition != other.partition
    assert "one" not in one.partition
    assert callers.caller(((b"authorization", b"Bearer one"),), "openai") == one


def test_two_tokens_of_a_tenant_are_one_caller() -> None:
    callers = callers_of(GatewaySection(openai_key="k", callers=CALLERS))
    found = callers.caller(((b"authorization", f"Bearer {TOKEN}".encode()),), "openai")
    assert found is not None
    assert (found.tenant, found.partition) == ("acme", "acme")


@pytest.mark.parametrize("line", ["acme", "acme zz", f"acme {SHA256} tomorrow", f"acme {SHA256[:-2]}", "a b c d e"])
def test_a_line_that_is_no_callers_is_named_and_not_quoted(line: str) -> None:
    with pytest.raises(Rejected, match="line 2") as refused:
        admitted_in(f"\n{line}")
    assert line not in str(refused.value)


def test_own_keys_are_for_this_machine_unless_callers_are_known() -> None:
    with pytest.raises(Rejected, match="callers"):
        check_open(callers_of(GatewaySection(openai_key="k")), "0.0.0.0")
    check_open(callers_of(GatewaySection(openai_key="k")), "127.0.0.1")
    check_open(callers_of(GatewaySection(openai_key="k", callers=CALLERS)), "0.0.0.0")
    check_open(callers_of(GatewaySection()), "0.0.0.0")


def test_keys_come_from_the_environment_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("settings")
    file = folder / "jettison.toml"
    file.write_text('[gateway]\nopenai_key = "sk"\n')
    with pytest.raises(BadPolicy, match="JETTISON_GATEWAY__OPENAI_KEY"):
        load(file=file, environment={})
    (folder / "callers").write_text(CALLERS)
    file.write_text("[gateway]\nport = 1\n")
    given = {
        "JETTISON_GATEWAY__CALLERS_FILE": str(folder / "callers"),
        "JETTISON_GATEWAY__UPSTREAM__OPENAI": "http://a",
    }
    found = load(file=file, environment=given).gateway
    assert (found.port, found.callers, found.upstream.openai) == (1, CALLERS.strip(), "http://a")
