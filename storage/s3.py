"""Artifacts on any S3-compatible store, through boto3 in threads.

The key is `{tenant}/{sha256}`: content-addressed, so that a repeated or concurrent put writes the same
bytes and no conditional put is needed (not every S3 server honours them).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from protocol.errors import PROVISION, ArtifactDamaged, ArtifactsUnavailable, NotFound
from protocol.ids import Token, is_sha256
from protocol.tracing import s3_span

from .store_calls import Silent, StoreCalls
from .store_metrics import record_failure

T = TypeVar("T")

log = logging.getLogger("jettison.s3")

THREADS = 4
"""boto3's throughput does not grow beyond four threads; more only add latency (measured)."""

UPLOAD_SECONDS = 900

CALL_SECONDS = 6.0
"""For an answer, above what a slow store needs; a store that takes connections and says nothing is one that is down.
From the turn of a call on: who waits for one of the threads waits while others get answers (`store_calls.py`)."""

BYTES_PER_SECOND_MIN = 1 << 20
"""Of a store that is slow and not down."""

READ_SECONDS = 30.0
"""For what has a length that nobody knows before: objects and listings."""

ENCRYPTED: dict[str, Any] = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}

ANCHORS_PREFIX = "anchors.v1/"
"""A tenant's token has no dot, so no tenant's artifacts are below it."""


class S3Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The S3 store; an empty endpoint means the embedded one, or AWS where NATS is given."""

    endpoint: str = ""
    bucket: str = "jettison"
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = ""
    # without credentials, boto3 looks for its own


def seconds_for(size_bytes: int) -> float:
    """Return how long a store may take for an object of *size_bytes*, at most."""
    return READ_SECONDS + size_bytes / BYTES_PER_SECOND_MIN


class S3Artifacts:
    """`Artifacts` in one bucket."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._calls = StoreCalls(THREADS, name="s3", refusals=_refusals)
        self._made: Any = None
        self._making = threading.Lock()

    async def prepare(self) -> None:
        """Create the bucket where it is missing, and have it encrypt. Raises `ArtifactsUnavailable`."""
        try:
            await self._run("CreateBucket", "", self._create_bucket)
        except NotFound:
            where = self._settings.endpoint or "AWS"
            raise ArtifactsUnavailable(f"{where} answers, but not as S3 does; set JETTISON_S3__ENDPOINT") from None

    async def put(self, tenant: Token, body: bytes) -> str:
        """See `Artifacts.put`."""
        sha256 = hashlib.sha256(body).hexdigest()
        key = f"{tenant}/{sha256}"
        await self._run(
            "PutObject",
            key,
            lambda: self._client.put_object(Bucket=self._bucket, Key=key, Body=body),
            seconds=CALL_SECONDS + len(body) / BYTES_PER_SECOND_MIN,
        )
        return sha256

    async def get(self, tenant: Token, sha256: str) -> bytes:
        """See `Artifacts.get`."""
        key = f"{tenant}/{sha256}"
        body: bytes = await self._run(
            "GetObject", key, lambda: self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        )
        found = hashlib.sha256(body).hexdigest()
        if found != sha256:
            raise ArtifactDamaged(
                f"artifact {sha256[:16]} has other bytes than were stored", sha256=sha256, found=found, bytes=len(body)
            )
        return body

    async def delete(self, tenant: Token, sha256: str) -> None:
        """See `Artifacts.delete`."""
        key = f"{tenant}/{sha256}"
        await self._run("DeleteObject", key, lambda: self._client.delete_object(Bucket=self._bucket, Key=key))

    async def find(self, tenant: Token, prefix: str) -> str:
        """See `Artifacts.find`."""
        listing = await self._run(
            "ListObjectsV2",
            f"{tenant}/{prefix}",
            lambda: self._client.list_objects_v2(Bucket=self._bucket, Prefix=f"{tenant}/{prefix}", MaxKeys=2),
            seconds=CALL_SECONDS,
        )
        found = [entry["Key"].rpartition("/")[2] for entry in listing.get("Contents", ())]
        if len(found) != 1:
            raise NotFound(
                f"{'no' if not found else 'more than one'} artifact begins with {prefix!r:.80}", prefix=prefix
            )
        return str(found[0])

    async def upload_url(self, tenant: Token, sha256: str, *, size_bytes: int) -> str:
        """See `Artifacts.upload_url`."""
        parameters = {"Bucket": self._bucket, "Key": f"{tenant}/{sha256}", "ContentLength": size_bytes}
        # computed here, and not behind calls that wait for a store
        url: str = await asyncio.to_thread(
            lambda: self._client.generate_presigned_url("put_object", Params=parameters, ExpiresIn=UPLOAD_SECONDS)
        )
        return url

    async def sizes(self) -> AsyncIterator[dict[tuple[Token, str], int]]:
        """See `Artifacts.sizes`."""
        async for page in self.pages(""):
            parts = ((key.partition("/"), size) for key, size in page.items())
            yield {(Token(tenant), name): size for (tenant, _, name), size in parts if is_sha256(name)}

    async def pages(self, prefix: str) -> AsyncIterator[dict[str, int]]:
        """Yield the bytes of each object below *prefix* by its name, a thousand at once, in the order of the names.

        Raises `ArtifactsUnavailable`.
        """
        more: dict[str, str] | None = {}
        while more is not None:
            found = await self._run(
                "ListObjectsV2",
                prefix,
                lambda token=more: self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **token),  # type: ignore[misc]
            )
            yield {one["Key"]: one["Size"] for one in found.get("Contents", ())}
            more = {"ContinuationToken": found["NextContinuationToken"]} if found.get("IsTruncated") else None

    async def check_bucket(self) -> None:
        """Ask whether the bucket is there. Raises `ArtifactsUnavailable`."""
        try:
            await self.call("HeadBucket", "", lambda client, bucket: client.head_bucket(Bucket=bucket))
        except NotFound:
            raise ArtifactsUnavailable(f"there is no bucket {self._bucket}; {PROVISION}") from None

    def close(self) -> None:
        """Stop the threads."""
        self._calls.close()

    async def call(self, method: str, key: str, call: Callable[[Any, str], T], *, seconds: float = READ_SECONDS) -> T:
        """Return the result of *call* with the client and the bucket. Raises `NotFound`, `ArtifactsUnavailable`."""
        return await self._run(method, key, lambda: call(self._client, self._bucket), seconds=seconds)

    async def _run(self, method: str, key: str, call: Callable[[], T], *, seconds: float = READ_SECONDS) -> T:
        began = 0.0

        def begun() -> T:
            nonlocal began
            began = time.monotonic()
            return call()

        where = self._settings.endpoint or "AWS"
        with (
            s3_span(method, bucket=self._bucket, key=key),
            _faults(method, key, where, took=lambda: time.monotonic() - began),
        ):
            return await self._calls.take(begun, seconds=seconds)

    def _create_bucket(self) -> None:
        from botocore.exceptions import ClientError

        try:
            self._client.create_bucket(Bucket=self._bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise
        try:
            # each object under a key of its own, which goes with it: what a store deletes stays on its disks for long
            self._client.put_bucket_encryption(Bucket=self._bucket, ServerSideEncryptionConfiguration=ENCRYPTED)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            log.warning("the bucket %s is not encrypted by default: %s", self._bucket, code)

    @property
    def _bucket(self) -> str:
        return self._settings.bucket

    @property
    def _client(self) -> Any:
        # a client is for all threads at once, but boto3 makes them one after the other
        with self._making:
            if self._made is None:
                self._made = _new_client(self._settings)
            return self._made


def _new_client(settings: S3Settings) -> Any:
    # boto3 takes half a second to import: only who stores artifacts pays
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=settings.endpoint or None,
        region_name=settings.region,
        aws_access_key_id=settings.access_key or None,
        aws_secret_access_key=settings.secret_key or None,
        config=Config(
            connect_timeout=2,
            read_timeout=CALL_SECONDS * 2,
            retries={"mode": "standard", "total_max_attempts": 2},
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            max_pool_connections=THREADS,
        ),
    )


class S3Anchors:
    """`Anchors` in the bucket of *artifacts*, under a prefix that no tenant's name can have."""

    def __init__(self, artifacts: S3Artifacts) -> None:
        self._store = artifacts

    async def put(self, tenant: Token, number: int, body: bytes) -> bool:
        """See `Anchors.put`."""
        key = _anchor_key(tenant, number)
        return await self._store.call("PutObject", key, lambda client, where: _put_new(client, where, key, body))

    async def get(self, tenant: Token, number: int) -> bytes:
        """See `Anchors.get`."""
        key = _anchor_key(tenant, number)
        body: bytes = await self._store.call(
            "GetObject", key, lambda client, where: client.get_object(Bucket=where, Key=key)["Body"].read()
        )
        return body

    async def numbers(self, tenant: Token) -> list[int]:
        """See `Anchors.numbers`."""
        prefix = f"{ANCHORS_PREFIX}{tenant}/"
        pages = await self._pages(prefix)
        names = (entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", ()))
        return sorted(int(name) for name in names if name.isdecimal())

    async def oldest(self) -> datetime | None:
        """See `Anchors.oldest`."""
        newest: dict[str, datetime] = {}
        for entry in (entry for page in await self._pages(ANCHORS_PREFIX) for entry in page.get("Contents", ())):
            tenant = entry["Key"].removeprefix(ANCHORS_PREFIX).partition("/")[0]
            newest[tenant] = max(newest.get(tenant, entry["LastModified"]), entry["LastModified"])
        return min(newest.values(), default=None)

    async def tenants(self) -> list[Token]:
        """See `Anchors.tenants`."""
        pages = await self._pages(ANCHORS_PREFIX, Delimiter="/")
        found = (entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", ()))
        return sorted(Token(prefix.removeprefix(ANCHORS_PREFIX).rstrip("/")) for prefix in found)

    async def check(self) -> None:
        """See `Anchors.check`."""
        await self._store.call(
            "ListObjectsV2",
            ANCHORS_PREFIX,
            lambda client, where: client.list_objects_v2(Bucket=where, Prefix=ANCHORS_PREFIX, MaxKeys=1),
            seconds=CALL_SECONDS,
        )

    async def _pages(self, prefix: str, **more: str) -> list[dict[str, Any]]:
        """Return the pages of a listing of *prefix*."""
        return await self._store.call(
            "ListObjectsV2",
            prefix,
            lambda client, where: list(
                client.get_paginator("list_objects_v2").paginate(Bucket=where, Prefix=prefix, **more)
            ),
        )


def _anchor_key(tenant: Token, number: int) -> str:
    return f"{ANCHORS_PREFIX}{tenant}/{number:010d}"


def _put_new(client: Any, bucket: str, key: str, body: bytes) -> bool:
    from botocore.exceptions import ClientError

    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
            raise
        return False
    return True


@contextmanager
def _faults(method: str, key: str, where: str, *, took: Callable[[], float]) -> Iterator[None]:
    """Turn boto3's errors into ours: not there, or not reachable. *where* is the store, which a call *took* so long."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in ("NoSuchKey", "404", "NotFound"):
            raise NotFound(f"no artifact at {key!r:.120}", key=key) from None
        raise _unavailable(method, key, code, where, silent=took()) from None
    except Silent as silent:
        raise _unavailable(method, key, "no answer in time", where, silent=silent.seconds) from None
    except (BotoCoreError, OSError) as error:
        raise _unavailable(method, key, type(error).__name__, where, silent=took()) from None


def _refusals() -> type[Exception]:
    """Return the class of errors that the store answered."""
    from botocore.exceptions import ClientError

    refusals: type[Exception] = ClientError
    return refusals


def _unavailable(method: str, key: str, code: str, where: str, *, silent: float) -> ArtifactsUnavailable:
    record_failure(method)
    denied = code in ("NoCredentialsError", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied")
    fix = "set JETTISON_S3__ACCESS_KEY and JETTISON_S3__SECRET_KEY" if denied else f"is the store at {where} well?"
    told = f"S3 {method} failed: {code}; {fix}"
    return ArtifactsUnavailable(told, method=method, key=key, code=code, silent_seconds=silent)
