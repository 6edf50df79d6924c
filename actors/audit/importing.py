"""Importing: write a bundle's log into a running stack, where the conversation can go on.

Only under its own address, which the hashes cover, and only where nothing else stands in the way: a log that is the
beginning of the bundle's own (an import that was interrupted) is completed, any other one is refused. Sequences are
the stack's own; where a record stood before is kept in a header, and commits name the old places. Snapshots are made
anew, and anchors stay with the file; those that the stack itself has still vouch for the old places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from actors.runtime.fold import check_living
from protocol.errors import Contended, Rejected
from protocol.ids import Address, fresh_id
from storage.ports import Artifacts, EventLog, Record

from .bundle import Bundle, sound
from .heads import ORIGIN_HEADER, positions

TIME_HEADER = "Jettison-Origin-Time"
"""On an imported record: when the first stack stored it, by that server's clock."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    address: str
    records: int
    """Written now."""
    present: int
    """Already there."""
    artifacts: int


async def imported(
    bundle: Bundle, *, log: EventLog, artifacts: Artifacts, taken: str = "an import never mixes two"
) -> Imported:
    """Write *bundle*; nobody else may write this conversation meanwhile (`storage.queue_pause`).

    Doing it again writes nothing. Raises `Rejected`, which ends with *taken*, where another history stands there,
    `Erased`, `Damaged` for a damaged bundle, `Contended` if somebody wrote all the same, `Unavailable`.
    """
    at, wanted = sound(bundle).at, bundle.records
    there = await log.read(at, after=0)
    _begins_with(at, wanted, there, taken)
    for sha256 in sorted(bundle.artifacts):
        await artifacts.put(at.tenant, bundle.artifacts[sha256])
    done_seq = max((record.seq for record in there if record.side == "done"), default=0)
    await _write(log, at, wanted[len(there) :], done_seq=done_seq)
    after = await log.read(at, after=0)
    if [(one.side, one.body) for one in after[: len(wanted)]] != [(one.side, one.body) for one in wanted]:
        raise Contended(f"somebody wrote to {at} during the import; its log is another now", address=str(at))
    present = min(len(there), len(wanted))  # it may have gone on here since an earlier import
    return Imported(address=str(at), records=len(wanted) - present, present=present, artifacts=len(bundle.artifacts))


async def _write(log: EventLog, at: Address, records: Sequence[Record], *, done_seq: int) -> None:
    """Write *records* behind a log whose newest commit is at *done_seq*, in their order. Raises `Contended`."""
    for record in records:
        headers = origin_headers(record)
        if record.side == "said":
            await log.say(at, record.body, message_id=fresh_id(), headers=headers)
            continue
        landed = await appended(log, at, record.body, expected_seq=done_seq, headers=headers)
        if landed is None:
            raise Contended(f"somebody wrote to {at} during the import; it is not complete", address=str(at))
        done_seq = landed


async def appended(
    log: EventLog, at: Address, body: bytes, *, expected_seq: int, headers: Mapping[str, str]
) -> int | None:
    """Append a commit; return its sequence, None if somebody else's came first. Raises `Unavailable`."""
    # an id of its own: the server may remember the commit's own id from before the log was lost
    landed = await log.append(at, body, expected_seq=expected_seq, commit_id=fresh_id(), headers=headers)
    if landed is not None:
        return landed
    # a try whose answer was lost has landed, and the next one was refused for it
    behind = [record for record in await log.read(at, after=expected_seq) if record.side == "done"]
    return behind[0].seq if behind and behind[0].body == body else None


def _begins_with(at: Address, wanted: Sequence[Record], there: Sequence[Record], taken: str) -> None:
    for index, record in enumerate(there):
        if index < len(wanted) and (record.side, record.body) != (wanted[index].side, wanted[index].body):
            check_living(at, there)
            raise Rejected(
                f"{at} exists here with another history (from record {index + 1} on); {taken}",
                address=str(at),
                seq=record.seq,
            )


def origin_headers(record: Record) -> dict[str, str]:
    """Return the headers of *record* for another place, with those that it had before."""
    headers = {name: text for name, text in record.headers.items() if not name.startswith("Nats-")}
    headers[ORIGIN_HEADER] = ",".join(map(str, positions(record)))
    if record.time:
        headers.setdefault(TIME_HEADER, record.time)
    return headers
