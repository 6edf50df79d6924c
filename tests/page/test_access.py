"""Behind a proxy the page shows a user's tenants, and believes nobody else about who that is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import httpx2 as httpx
import pytest

from actors.cli.page import access_of, page_of, serving_page
from actors.host.bootstrap import Runtime
from actors.host.settings import PageSection
from protocol.client import Client
from protocol.errors import Rejected
from protocol.ids import fresh_id

USERS: dict[str, tuple[str, ...]] = {"alice": ("acme",), "bob": ("acme", "default"), "carol": ()}


async def test_a_user_sees_its_tenants_and_a_stranger_none(running: Runtime, client: Client, tmp_path: Path) -> None:
    name = f"seen-{fresh_id()[:8]}"
    for tenant in ("default", "acme"):
        talk = await client.open(name, tenant=tenant)
        await talk.append([{"role": "user", "content": f"of {tenant}"}])
    socket = tmp_path / "page.sock"
    settings = PageSection(users=USERS, socket=str(socket), hosts=("page.example",))
    app = page_of(running, traces=tmp_path, access=access_of(settings), hosts=settings.hosts)

    async def asked(path: str, headers: Mapping[str, str] | list[tuple[str, str]]) -> httpx.Response:
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://page.example") as browser:
            async with asyncio.timeout(180):
                while (answer := await browser.get(path, headers=headers)).status_code == 202:
                    await asyncio.sleep(0.1)
            return answer

    async with serving_page(app, page=settings):
        assert socket.stat().st_mode & 0o007 == 0
        for user, tenants in USERS.items():
            said = {"X-Forwarded-User": user}
            listed = (await asked(f"/?q={name}", said)).text
            for tenant in ("default", "acme"):
                assert (f"/c/{tenant}/{name}" in listed) == (tenant in tenants), (user, tenant)
                for path in ("", "/verify", "/chart.json", "/artifacts", "/where?q=of"):
                    status = (await asked(f"/c/{tenant}/{name}{path}", said)).status_code
                    assert (status != 404) == (tenant in tenants), (user, tenant, path, status)
        for headers in ({}, {"X-Forwarded-User": "mallory"}, {"X-Forwarded-User": ""}, {"X-Other": "bob"}):
            assert (await asked("/", headers)).status_code == 403, headers
        both = [("X-Forwarded-User", "carol"), ("X-Forwarded-User", "bob")]
        assert (await asked("/", both)).status_code == 403


@pytest.mark.parametrize(("peers", "status"), [(("127.0.0.1",), 200), (("192.0.2.7",), 403)])
async def test_only_a_listed_address_is_believed(
    running: Runtime, tmp_path: Path, peers: tuple[str, ...], status: int
) -> None:
    settings = PageSection(users=USERS, peers=peers)
    app = page_of(running, traces=tmp_path, access=access_of(settings))
    async with serving_page(app, page=settings) as url, httpx.AsyncClient() as browser:
        assert (await browser.get(url, headers={"X-Forwarded-User": "bob"})).status_code == status


def test_users_without_a_place_for_the_proxy_are_refused() -> None:
    with pytest.raises(Rejected, match=r"page\.socket.*page\.peers"):
        access_of(PageSection(users=USERS))
    with pytest.raises(Rejected, match=r"page\.listen are for a proxy"):
        access_of(PageSection(listen="192.0.2.1"))
    assert access_of(PageSection()) is None
