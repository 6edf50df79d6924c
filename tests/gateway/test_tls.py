"""TLS between agents and the gateway."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from protocol.errors import Rejected
from tests.gateway.provider import Answer, in_front_of, provider
from tests.infra.identities import Authority
from tests.stack import LOOPBACK


async def test_an_agent_that_trusts_its_authority_is_served_and_no_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.certificate("gateway")
    section: Any = {"cert_file": str(cert), "key_file": str(key)}
    async with provider(lambda _: Answer()) as there, in_front_of(there, **section) as url:
        assert url.startswith(f"https://{LOOPBACK}:")
        trusting = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority.file)))
        async with aiohttp.ClientSession(connector=trusting) as session:
            got = await session.post(f"{url}/v1/messages", data=b"{}")
            assert (got.status, await got.read()) == (200, b"{}")
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await stranger.get(f"{url}/v1/models")
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await stranger.get(url.replace("https", "http") + "/v1/models")
    assert len(there.asked) == 1


@pytest.mark.parametrize("wrong", ["missing", "another's key"])
async def test_a_certificate_that_cannot_be_used_is_told_before_anything_is_served(tmp_path: Path, wrong: str) -> None:
    authority = Authority(tmp_path)
    cert, _ = authority.certificate("gateway")
    other = tmp_path / "nowhere.pem" if wrong == "missing" else authority.certificate("other")[1]
    async with provider(lambda _: Answer()) as there:
        with pytest.raises(Rejected, match=r"gateway\.cert_file"):
            async with in_front_of(there, cert_file=str(cert), key_file=str(other)):
                pass
