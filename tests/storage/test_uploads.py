"""What the URL of an upload opens: one object of one tenant, of one length, for a while."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from actors.host.bootstrap import Runtime
from protocol.client import Client
from protocol.errors import Rejected
from protocol.ids import Token
from protocol.service_call import ask
from protocol.service_messages import UploadAsked
from storage import s3

BODY = b"said by one tenant " * 500


def status(method: str, url: str, body: bytes | None = None) -> int:
    """Return how the store answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method), timeout=180) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


async def asked(method: str, url: str, body: bytes | None = None) -> int:
    return await asyncio.to_thread(status, method, url, body)


async def test_a_url_opens_one_object_for_one_length(running: Runtime) -> None:
    sha256 = hashlib.sha256(BODY).hexdigest()
    theirs = await running.artifacts.put(Token("theirs"), b"kept by another tenant")
    url = await running.artifacts.upload_url(Token("ours"), sha256, size_bytes=len(BODY))
    mine = urlsplit(url).path
    for path in (
        mine.replace("/ours/", "/theirs/"),
        mine.replace(sha256, theirs).replace("/ours/", "/theirs/"),
        mine.replace(sha256, "0" * 64),
        f"{mine}/../../theirs/{theirs}",
        mine.rpartition("/")[0],
    ):
        for method in ("PUT", "GET", "DELETE", "HEAD"):
            body = BODY if method == "PUT" else None
            assert await asked(method, url.replace(mine, path), body) in (400, 403, 404, 405), (method, path)
    for method in ("GET", "DELETE", "HEAD"):
        assert await asked(method, url) in (400, 403, 405), method
    for body in (BODY + b"x", BODY[:-1], b""):
        assert await asked("PUT", url, body) in (400, 403), len(body)
    assert await asked("PUT", url, BODY) == 200
    assert await running.artifacts.get(Token("ours"), sha256) == BODY
    assert await running.artifacts.get(Token("theirs"), theirs) == b"kept by another tenant"


async def test_a_url_opens_nothing_after_its_time(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    assert s3.UPLOAD_SECONDS <= 900
    monkeypatch.setattr(s3, "UPLOAD_SECONDS", 1)
    sha256 = hashlib.sha256(BODY).hexdigest()
    url = await running.artifacts.upload_url(Token("late"), sha256, size_bytes=len(BODY))
    async with asyncio.timeout(180):
        while (status := await asked("PUT", url, BODY)) == 200:
            await asyncio.sleep(0.1)
    assert status == 403


async def test_no_url_for_any_length(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name)
    with pytest.raises(Rejected, match="update the client"):
        await ask(client.connection, talk.at, "upload", UploadAsked(sha256="0" * 64), 5.0)
