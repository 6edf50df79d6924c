"""Older release: what rests on the record is decided again by the release that wrote it, in its own environment.

Another release cannot be imported beside this one. It is given a bundle that ends where newer rules begin, and its own
`jettison replay` decides it; what it says is compared with what lies in the log.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from protocol import codec
from protocol.errors import Rejected
from protocol.ids import Address
from storage.ports import Record

from .bundle import Bundle, Lack, packed
from .replay import Divergence, Replayed
from .verify import mentioned

PYTHONS = ("bin/python", "Scripts/python.exe")
"""Of an environment, below its folder."""

DECIDE_SECONDS = 3600.0
"""For one conversation; a million tokens take some ten seconds."""

_RULES = "from protocol import codec; print(codec.RULES_VERSION)"
_REPLAY = "from actors.cli import main; main()"


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Another release, in an environment of its own, and the rules that it decides by."""

    python: str
    rules: str


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """What any release says of a replay."""

    version: int
    hash: str
    decided_again: int
    divergence: Divergence | None = None


def release_in(environment: Path) -> Release:
    """Return the release in *environment*, the folder of a virtual environment or its Python.

    Raises `Rejected` if there is none, or one whose rules are not older than ours.
    """
    if environment.is_dir():
        pythons = [environment / name for name in PYTHONS if (environment / name).is_file()]
    else:
        pythons = [environment] if environment.is_file() else []
    if not pythons:
        raise Rejected(f"{environment} is no virtual environment and no Python", path=str(environment))
    # not resolved: a link inside an environment is what makes it one
    python = os.path.abspath(pythons[0])
    done = _ran(python, _RULES)
    rules = done.stdout.strip()
    if done.returncode or not rules:
        raise Rejected(f"{environment} holds no release of Jettison: {_last(done.stderr)}", path=str(environment))
    if rules not in codec.RULES_VERSIONS[:-1]:
        older = ", ".join(codec.RULES_VERSIONS[:-1]) or "none"
        raise Rejected(f"{environment} decides by rules {rules}; older ones are: {older}", path=str(environment))
    return Release(python=python, rules=rules)


def decided_by(release: Release, at: Address, records: Sequence[Record], found: Replayed) -> Replayed:
    """Return *found* with the steps that *release* decided, or with the first that it decides otherwise.

    Raises `Rejected` if it cannot replay the log at all.
    """
    if not found.rests.get(release.rules):
        return found
    readable, head = _readable(records, release.rules)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "older.tar"
        missing: dict[str, Lack] = dict.fromkeys(mentioned(at, readable), "not there")
        file.write_bytes(packed(Bundle(at=at, records=tuple(readable), missing=missing)))
        done = _ran(release.python, _REPLAY, "replay", str(file), "--json")
    try:
        told = msgspec.json.decode(done.stdout, type=_Told)
    except msgspec.MsgspecError:
        reason = _last(done.stderr) or f"exit code {done.returncode}"
        raise Rejected(f"{release.python} cannot replay {at}: {reason}", address=str(at)) from None
    divergence = told.divergence
    if divergence is None and told.hash != head.hash.hex():
        divergence = Divergence(version=head.version, fact="", field="hash", reason="another one")
    if divergence is not None:
        reason = f"{divergence.reason} (by the release with rules {release.rules})"
        divergence = msgspec.structs.replace(divergence, reason=reason)
    left = max(0, found.rests[release.rules] - told.decided_again)
    rests = {rules: steps for rules, steps in found.rests.items() if rules != release.rules}
    return msgspec.structs.replace(
        found,
        rests=rests | ({release.rules: left} if left else {}),
        decided_elsewhere=found.decided_elsewhere + told.decided_again,
        divergence=found.divergence or divergence,
    )


def _readable(records: Sequence[Record], rules: str) -> tuple[list[Record], codec.Commit]:
    """Return the log up to where rules begin that a release with *rules* does not read, and its last commit."""
    newer = codec.RULES_VERSIONS[codec.RULES_VERSIONS.index(rules) + 1 :]
    readable: list[Record] = []
    head: codec.Commit | None = None
    for record in records:
        if record.side == "done":
            commit = codec.decode_commit(record.body)
            if commit.rules_version in newer:
                break
            head = commit
        readable.append(record)
    if head is None:
        raise Rejected(f"the log begins with newer rules than {rules}: no step of them can be decided alone")
    return readable, head


def _ran(python: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run *program* by another Python, where nothing of ours is found: no folder, no setting, no variable."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JETTISON_", "PYTHON", "OTEL_")) and name != "VIRTUAL_ENV"
    }
    command = [python, "-P", "-c", program, *arguments]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return subprocess.run(  # noqa: S603
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=DECIDE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Rejected(f"{python} cannot be run: {type(error).__name__}", path=python) from None


def _last(text: str) -> str:
    """Return the last line of what a process said on its way out."""
    return (text.strip().splitlines() or [""])[-1][:200]
