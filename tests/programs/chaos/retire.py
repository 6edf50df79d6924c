"""Retire: remove what ended conversations left on the servers, so that an hour needs no more room than minutes do.

A conversation that was audited waits until no sweep can come upon its name any more: who looks for a log that is gone
rightly calls it lost, and writes a dead letter.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from actors.host.bootstrap import Runtime
from actors.services.sweeper import SWEEP_SECONDS
from protocol import subjects
from protocol.ids import Address, Token
from storage.known_layout import known_layout
from tests.programs.chaos.speech import TENANT_CONVERSATIONS

REST_SECONDS = SWEEP_SECONDS * 4
"""After the sweepers' mark has passed by: one of them that was overtaken may still be at what was before it."""

OBJECTS_AT_ONCE = 1000
"""As many as S3 lists and deletes in one call."""


@dataclass(kw_only=True)
class Retirement:
    """Tenants, all of whose conversations have ended, in the order in which they may go."""

    conversations: int = 0
    """Those that are gone."""
    _ended: dict[Token, list[Address]] = field(default_factory=dict)
    _resting: deque[Token] = field(default_factory=deque)
    _end_seq: int = 0
    """Behind all that the log holds of the next tenant, once that is known."""
    _rested_at: float = 0.0
    """When the next tenant may go, once the sweepers' mark is behind it."""

    def end(self, at: Address) -> None:
        """Note that *at* was audited, and nothing was wrong with it; one that never ends keeps its whole tenant."""
        ended = self._ended.setdefault(at.tenant, [])
        ended.append(at)
        if len(ended) == TENANT_CONVERSATIONS:
            self._resting.append(at.tenant)

    async def retire(self, running: Runtime) -> None:
        """Remove the next tenant that has rested. Raises `Unavailable`, after which it is tried again."""
        if not self._resting or not await self._has_rested(running):
            return
        tenant = self._resting[0]
        jetstream = running.connection.jetstream(timeout=30)
        for at in self._ended[tenant]:
            # a snapshot without its log would be one that is ahead of it
            layout = await known_layout(running.connection).layout()
            await jetstream.purge_stream(layout.stream(subjects.SNAPSHOT_STREAM, at), subject=subjects.snapshot(at))
            await jetstream.purge_stream(subjects.KEY_STREAM, subject=subjects.key(at))
            await jetstream.purge_stream(layout.stream(subjects.LOG_STREAM, at), subject=subjects.both(at))
        while await running.bucket.call("DeleteObjects", f"{tenant}/", lambda s3, bucket: _deleted(s3, bucket, tenant)):
            pass
        self._resting.popleft()
        self._end_seq = 0
        self._rested_at = 0.0
        self.conversations += len(self._ended.pop(tenant))

    async def _has_rested(self, running: Runtime) -> bool:
        self._end_seq = self._end_seq or await running.log.end()
        if not self._rested_at:
            mark, _ = await running.changes.mark()
            if mark.seq >= self._end_seq:
                self._rested_at = time.monotonic() + REST_SECONDS
        return bool(self._rested_at) and time.monotonic() > self._rested_at


def _deleted(s3: Any, bucket: str, tenant: Token) -> int:
    listing = s3.list_objects_v2(Bucket=bucket, Prefix=f"{tenant}/", MaxKeys=OBJECTS_AT_ONCE)
    found = [{"Key": entry["Key"]} for entry in listing.get("Contents", ())]
    if found:
        s3.delete_objects(Bucket=bucket, Delete={"Objects": found, "Quiet": True})
    return len(found)
