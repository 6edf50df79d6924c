"""Bundle commands, about one conversation in one file: `export` and `import`."""

from __future__ import annotations

from pathlib import Path

from actors.audit import bundle as bundles
from actors.audit.evidence import exported
from actors.audit.importing import imported
from actors.host.bootstrap import Runtime
from protocol.errors import Damaged, Rejected
from protocol.ids import written_address

from .options import StackOptions
from .session import connected, said, shown, writable
from .verify import answering

SUFFIX = ".jettison.tar"


def export(stack: StackOptions, conv: str, *, out: Path | None, as_json: bool) -> int:
    """Write a bundle; see `jettison export --help`."""
    at = written_address(conv)
    path = writable(out or Path(f"{at.conversation}{SUFFIX}"))

    async def main(running: Runtime) -> int:
        bundle = await exported(at, await answering(running))
        body = bundles.packed(bundle)
        if path.exists():
            said(f"note: {path} was there, and is replaced")
        _replaced(path, body)
        for sha256, why in bundle.missing.items():
            said(f"warning: artifact {sha256} is {why}; the bundle says so")
        row = {
            "address": str(at),
            "file": str(path),
            "bytes": len(body),
            "records": len(bundle.records),
            "artifacts": len(bundle.artifacts),
            "anchors": len(bundle.proofs),
            "missing": dict(bundle.missing),
        }
        shown(
            row,
            "{address}: {records} records, {artifacts} artifacts, {anchors} anchors, {bytes:,} bytes "
            "in {file}\n".format(**row),
            as_json=as_json,
        )
        return 0

    return connected(main, stack)


def _replaced(path: Path, body: bytes) -> None:
    """Write *body* to *path*, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(body)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def import_file(stack: StackOptions, file: Path, conv: str, *, as_json: bool) -> int:
    """Write a bundle's log into a running stack; see `jettison import --help`."""
    bundle = bundles.sound(bundles.read(file))
    at = bundle.at
    if conv and written_address(conv) != at:
        raise Rejected(f"{file} is about {at}, not about {conv}: the hashes cover the address", address=str(at))
    verdict = bundles.judged(bundle)
    if verdict.first is not None:
        first = verdict.first
        raise Damaged(f"{file} is not imported: version {first.version}, {first.where}: {first.reason}")

    async def main(running: Runtime) -> int:
        async with running.erasure.paused():
            found = await imported(bundle, log=running.log, artifacts=running.artifacts)
            if found.records:
                await running.conversations.renew(at)
        shown(found, f"{found.address}: {found.records} records written, {found.present} were there\n", as_json=as_json)
        return 0

    return connected(main, stack)
