"""Commands that change, repair, erase or copy conversations, with their options; a call loads what carries them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Conv, JsonOption, StackOptions, on_stack

changes = typer.Typer()


@changes.command()
@on_stack
def expand(
    stack: StackOptions,
    conv: Conv,
    messages: Annotated[str, typer.Option(help="Numbers, such as 4-9 or #4; a call comes with its results.")] = "",
    artifact: Annotated[str, typer.Option(help="SHA-256 of a spilled part, or its first digits.")] = "",
    json: JsonOption = False,
) -> int:
    """Put messages that left the view, or a spilled part, back in full, until the next compaction."""
    from .undo import expand as run

    return run(stack, conv, messages=messages, artifact=artifact, as_json=json)


@changes.command()
@on_stack
def rewind(
    stack: StackOptions,
    conv: Conv,
    to: Annotated[int, typer.Option("--to", help="The version to go back to.", min=1)],
    json: JsonOption = False,
) -> int:
    """Make the context that of an earlier version again; the log keeps everything."""
    from .undo import rewind as run

    return run(stack, conv, to=to, as_json=json)


@changes.command()
@on_stack
def fork(
    stack: StackOptions,
    conv: Annotated[
        str, typer.Argument(help="CONV@VERSION; the newest version without one.", metavar="CONV[@VERSION]")
    ],
    new: Annotated[str, typer.Argument(help="The new conversation, of the same tenant.", metavar="NEW")],
    json: JsonOption = False,
) -> int:
    """Begin a new conversation with the history of another one up to a version."""
    from .undo import fork as run

    return run(stack, conv, new, as_json=json)


@changes.command()
@on_stack
def repair(
    stack: StackOptions,
    conv: Conv,
    copies: Annotated[
        list[Path] | None, typer.Option("--from", help="A bundle that was exported before; several.", metavar="FILE")
    ] = None,
    nats_copies: Annotated[
        list[str] | None, typer.Option("--from-nats", help="URL of a NATS with a copy of the log.", metavar="URL")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the damaged log goes before; default: a new file here.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only said what would be done.")] = False,
    json: JsonOption = False,
) -> int:
    """Make a damaged conversation go on: from a copy, else behind its last sound commit. For operators.

    What agents said is kept and decided on again; what nobody has readable is named. The log is exported first, and
    says for ever that it was repaired: `jettison verify` exits with 5. Lost artifacts that a copy has are put back.
    """
    from .repair import RepairJob
    from .repair import repair as run

    job = RepairJob(files=tuple(copies or ()), urls=tuple(nats_copies or ()), out=out, yes=yes)
    return run(stack, conv, job, as_json=json)


@changes.command()
@on_stack
def erase(
    stack: StackOptions,
    conv: Conv,
    yes: Annotated[bool, typer.Option("--yes", help="Really: nothing brings it back.")] = False,
) -> int:
    """Erase a conversation for ever, and print the certificate (JSON); forks of it are others.

    Its key is destroyed, so that copies of the log that were made before open nothing. A copy that holds the wrapped
    key too is ended by `jettison rewrap`; what was exported, and a copy of the bucket, is not.
    """
    from .undo import erase as run

    return run(stack, conv, yes=yes)


@changes.command()
@on_stack
def retain(
    stack: StackOptions,
    every: Annotated[float, typer.Option(help="Seconds between two rounds; 0: one round.", min=0)] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due.")] = False,
    json: JsonOption = False,
) -> int:
    """Archive and erase conversations that were idle for as long as the policy's `retention` says. For operators.

    Without it only erasures are finished that were interrupted, which it looks for in the log and in the store. An
    archived log is in the store, and reads as ever; the certificate of each erasure is printed (JSON): keep it.
    """
    from .retain import retain as run

    return run(stack, every=every, dry_run=dry_run, as_json=json)


@changes.command()
@on_stack
def repartition(
    stack: StackOptions,
    partitions: Annotated[int, typer.Argument(help="Parts of the log; their number only grows.", min=1)],
    json: JsonOption = False,
) -> int:
    """Spread the log over more partitions while agents speak; run it again where it was interrupted."""
    from .serve import repartition as run

    return run(stack, partitions=partitions, as_json=json)


Folder = Annotated[Path, typer.Argument(help="Where the copy is.", metavar="FOLDER")]
KeysFolder = Annotated[
    Path | None, typer.Option("--keys", help="Where the copy of the wrapped keys is; default: FOLDER/keys.")
]


@changes.command()
@on_stack
def backup(stack: StackOptions, folder: Folder, keys: KeysFolder = None, json: JsonOption = False) -> int:
    """Copy the log, the wrapped keys, what gateways know, dead letters and all objects into a folder. For operators.

    Nobody has to stop. The same folder again copies only the objects that are new. The tenants' key files are not on
    NATS, and not in it: copy them yourself, elsewhere.
    """
    from .backup import backup as run

    return run(stack, folder, keys=keys, as_json=json)


@changes.command()
@on_stack
def restore(
    stack: StackOptions,
    folder: Folder,
    keys: KeysFolder = None,
    objects: Annotated[
        bool, typer.Option("--objects", help="Only the objects that the bucket lost; the log stays as it is.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Put a backup back, where there is nothing yet. For operators.

    It says up to which message the log goes: what was said later is lost. Then `jettison sweep --all`.
    """
    from .backup import restore as run

    return run(stack, folder, keys=keys, objects=objects, as_json=json)
