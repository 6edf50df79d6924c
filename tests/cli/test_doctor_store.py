"""The doctor's look at the store: an empty bucket takes a probe as well as a full one."""

from __future__ import annotations

from actors.audit.verify import mentioned
from actors.cli.doctor_store import ARTIFACTS_MAX, artifacts_found, store_found
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.client import Client
from tests.builders import user
from tests.conftest import settled


async def test_a_bucket_without_what_the_log_names_is_not_well(
    settings: Settings, working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name)
    for number in range(ARTIFACTS_MAX):
        await talk.append([user(f"{name} {number} " * 30_000)])
    await settled(working, talk.at)
    there = await artifacts_found(working)
    assert there.ok, there.detail
    assert there.detail.startswith(f"{ARTIFACTS_MAX} artifacts that the log names last: in the bucket")
    gone = list(mentioned(talk.at, await working.log.read(talk.at, after=0)))[-1]
    body = await working.artifacts.get(talk.at.tenant, gone)
    await working.artifacts.delete(talk.at.tenant, gone)
    lost = await artifacts_found(working)
    assert not lost.ok
    assert f"not in the bucket: {gone[:16]} of {talk.at}" in lost.detail
    assert "restore FOLDER --objects" in lost.fix
    probed = await store_found(settings)
    assert (probed.ok, probed.detail.partition(": ")[2]) == (
        True,
        "a probe was written and read back, nothing else was looked at",
    )
    await working.artifacts.put(talk.at.tenant, body)
