"""A repair that is killed at any of its writes is taken up again by the same command (promise 23c)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from actors.audit.bundle import packed
from actors.audit.replay import replay
from actors.audit.verify import Evidence, verify
from actors.cli import UNREACHABLE
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import Address
from storage.ports import Record
from tests.audit.test_repair_interrupted import damaged, outcome
from tests.promises.harness import environment, only_in_chaos
from tests.stack import ROOT

KILLS_MAX = 200


async def repaired(settings: Settings, folder: Path, at: Address, *, copies: bool, dies_after: int = KILLS_MAX) -> int:
    """Run the command in *folder*, as an operator does; return its exit code. *copies*: from all that lie there."""
    files = sorted(folder.glob("*.tar")) if copies else []
    copied = [word for file in files for word in ("--from", str(file))]
    ours = ("-m", "tests.promises.mortal_repair", str(dies_after), "repair", str(at), "--yes", *copied)
    paths = {"PYTHONPATH": str(ROOT)}
    # its errors are ours; what it was killed in the middle of saying is nobody's
    process = await asyncio.create_subprocess_exec(
        sys.executable, *ours, cwd=folder, env={**environment(settings), **paths}, stdout=asyncio.subprocess.DEVNULL
    )
    code = await process.wait()
    # a busy machine is no killed repair
    return await repaired(settings, folder, at, copies=copies) if code == UNREACHABLE else code


def fine(at: Address, records: list[Record], folder: Path) -> None:
    judged = verify(Evidence(at=at, records=records))
    assert judged.ok
    (repair,) = judged.repairs
    # the log as it was before, or nothing was left of it
    files = {hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.tar")}
    assert repair.export in {*files, ""}
    assert replay(at, records).divergence is None


@only_in_chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anew", [False, True])
async def test_a_repair_that_is_killed_at_any_write_is_taken_up_again(
    running: Runtime, settings: Settings, tmp_path: Path, anew: bool
) -> None:
    wanted: list[bytes] = []
    for kills in range(-1, KILLS_MAX):
        whole = await damaged(running, anew=anew)
        folder = tmp_path / str(kills)
        folder.mkdir()
        if anew:
            (folder / "copy.jettison.tar").write_bytes(packed(whole))
        code = await repaired(settings, folder, whole.at, copies=anew, dies_after=kills if kills >= 0 else KILLS_MAX)
        if code:
            assert code == -signal.SIGKILL
            assert await repaired(settings, folder, whole.at, copies=anew) == os.EX_OK
        records = await running.log.read(whole.at, after=0)
        fine(whole.at, records, folder)
        if kills < 0:
            wanted = outcome(records)
        assert outcome(records) == wanted, f"it was killed with write {kills + 1}"
        if not code and kills >= 0:
            break
    else:
        raise AssertionError("there is no end to its writes")
    assert kills > (20 if anew else 4)
