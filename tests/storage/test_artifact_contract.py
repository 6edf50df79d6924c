"""What every `Artifacts` promises, asked of the one in memory and of a real S3 store."""

import asyncio
import hashlib
import random
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.errors import ArtifactDamaged, ArtifactsUnavailable, NotFound
from protocol.ids import Token, fresh_id, token
from storage.memory import MemoryArtifacts
from storage.ports import Artifacts
from storage.s3 import S3Artifacts, S3Settings
from tests.stack import LOOPBACK, free_port

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture(params=["memory", "s3"])
def artifacts(request: pytest.FixtureRequest, running: Runtime) -> Artifacts:
    return MemoryArtifacts() if request.param == "memory" else running.artifacts


@pytest.fixture
def tenant() -> Token:
    return token(f"tenant-{fresh_id()[:8]}")


@pytest.fixture(scope="module")
def s3(settings: Settings) -> "Iterator[S3Client]":
    found: S3Client = boto3.client(
        "s3",
        endpoint_url=settings.s3.endpoint,
        aws_access_key_id=settings.s3.access_key,
        aws_secret_access_key=settings.s3.secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    yield found
    found.close()


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    "body", [b"", b"\0\xff\r\n", "ä😀".encode(), b"x" * 300_000], ids=["none", "raw", "text", "big"]
)
async def test_bytes_come_back_as_they_were(artifacts: Artifacts, tenant: Token, body: bytes) -> None:
    assert await artifacts.put(tenant, body) == sha256(body)
    assert await artifacts.put(tenant, body) == sha256(body)
    assert await artifacts.get(tenant, sha256(body)) == body


async def test_twenty_megabytes_come_back(artifacts: Artifacts, tenant: Token) -> None:
    body = random.Random(7).randbytes(20 * 2**20)
    assert await artifacts.get(tenant, await artifacts.put(tenant, body)) == body


async def test_a_missing_one_is_not_found(artifacts: Artifacts, tenant: Token) -> None:
    with pytest.raises(NotFound):
        await artifacts.get(tenant, sha256(b"never stored"))


async def test_a_deleted_one_is_gone_and_deleting_it_again_is_harmless(artifacts: Artifacts, tenant: Token) -> None:
    sha256, other = await artifacts.put(tenant, b"gone"), await artifacts.put(tenant, b"stays")
    for _ in range(2):
        await artifacts.delete(tenant, sha256)
        with pytest.raises(NotFound):
            await artifacts.get(tenant, sha256)
    assert await artifacts.get(tenant, other) == b"stays"


async def test_all_are_told_with_their_tenants_and_sizes(artifacts: Artifacts, tenant: Token) -> None:
    other = token(f"{tenant}x")
    wanted = {(one, await artifacts.put(one, body)): len(body) for one in (tenant, other) for body in (b"", b"two")}
    told = [name_and_size async for some in artifacts.sizes() for name_and_size in some.items()]
    assert sorted(one for one in told if one[0][0] in (tenant, other)) == sorted(wanted.items())


async def test_tenants_do_not_see_each_other(artifacts: Artifacts, tenant: Token) -> None:
    key = await artifacts.put(tenant, b"mine")
    other = token(f"{tenant}x")
    with pytest.raises(NotFound):
        await artifacts.get(other, key)
    with pytest.raises(NotFound):
        await artifacts.find(other, key[:16])


async def test_a_prefix_finds_the_only_one_that_begins_so(artifacts: Artifacts, tenant: Token) -> None:
    keys = [await artifacts.put(tenant, b"%d" % index) for index in range(40)]
    assert await artifacts.find(tenant, keys[0][:16]) == keys[0]
    assert await artifacts.find(tenant, keys[0]) == keys[0]
    with pytest.raises(NotFound):
        await artifacts.find(tenant, "0123456789abcdef")
    shared = next(key[0] for key in keys if sum(other[0] == key[0] for other in keys) > 1)
    with pytest.raises(NotFound):
        await artifacts.find(tenant, shared)


async def test_many_at_once(artifacts: Artifacts, tenant: Token) -> None:
    bodies = [b"%d" % index * 1000 for index in range(40)]
    keys = await asyncio.gather(*(artifacts.put(tenant, body) for body in bodies))
    assert await asyncio.gather(*(artifacts.get(tenant, key) for key in keys)) == bodies


async def test_a_damaged_object_is_never_handed_out(
    running: Runtime, settings: Settings, tenant: Token, s3: "S3Client"
) -> None:
    key = await running.artifacts.put(tenant, b"what was written")
    s3.put_object(Bucket=settings.s3.bucket, Key=f"{tenant}/{key}", Body=b"what was wretten")
    with pytest.raises(ArtifactDamaged) as damaged:
        await running.artifacts.get(tenant, key)
    assert damaged.value.fields["sha256"] == key
    # storing it again heals it
    await running.artifacts.put(tenant, b"what was written")
    assert await running.artifacts.get(tenant, key) == b"what was written"


async def test_an_upload_by_url_is_an_artifact(running: Runtime, tenant: Token) -> None:
    body = b"uploaded by an agent" * 1000
    url = await running.artifacts.upload_url(tenant, sha256(body), size_bytes=len(body))

    def upload() -> int:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT"), timeout=180) as reply:
            return int(reply.status)

    assert await asyncio.to_thread(upload) == 200
    assert await running.artifacts.get(tenant, sha256(body)) == body


async def test_threads_that_ask_at_once_share_one_client(
    settings: Settings, tenant: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, another = [], threading.Barrier(2)
    client: Any = boto3.client

    def counted(*arguments: Any, **more: Any) -> Any:
        made.append(threading.current_thread())
        with suppress(threading.BrokenBarrierError):
            another.wait(0.2)
        return client(*arguments, **more)

    monkeypatch.setattr(boto3, "client", counted)
    store = S3Artifacts(S3Settings(endpoint=settings.s3.endpoint, access_key="a", secret_key="b"))
    await asyncio.gather(*(store.upload_url(tenant, sha256(b"x"), size_bytes=1) for _ in range(4)))
    store.close()
    assert len(made) == 1


async def test_a_store_that_is_down_is_bad_luck(tenant: Token) -> None:
    down = S3Artifacts(S3Settings(endpoint=f"http://{LOOPBACK}:{free_port()}", access_key="a", secret_key="b"))
    try:
        with pytest.raises(ArtifactsUnavailable):
            await down.put(tenant, b"x")
        with pytest.raises(ArtifactsUnavailable):
            await down.get(tenant, sha256(b"x"))
    finally:
        down.close()


async def test_wrong_credentials_are_no_missing_artifact(settings: Settings, tenant: Token) -> None:
    stranger = S3Artifacts(S3Settings(endpoint=settings.s3.endpoint, access_key="stranger", secret_key="wrong"))
    try:
        with pytest.raises(ArtifactsUnavailable):
            await stranger.get(tenant, sha256(b"x"))
    finally:
        stranger.close()


async def test_the_bucket_can_be_prepared_twice(running: Runtime) -> None:
    await running.bucket.prepare()
    await running.bucket.prepare()


async def test_who_answers_not_as_s3_does_is_no_missing_artifact() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    port = free_port()
    where = f"http://{LOOPBACK}:{port}"
    other = S3Artifacts(S3Settings(endpoint=where, access_key="a", secret_key="b"))
    async with await asyncio.start_server(refuse, LOOPBACK, port):
        with pytest.raises(ArtifactsUnavailable, match=f"{where} answers, but not as S3 does"):
            await other.prepare()
    other.close()
