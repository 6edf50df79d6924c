"""Audit commands, which explain: `versions`, `diff`, `why`, `where`, `stats`. They read the log and write nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import JsonOption, StackOptions, on_stack

audit = typer.Typer()

ConvOption = Annotated[
    str, typer.Argument(help="CONV (CONVERSATION or TENANT/CONVERSATION), or a bundle's file.", metavar="CONV")
]
At = Annotated[
    str,
    typer.Argument(
        help="CONV@VERSION, the newest version without one; or FILE@VERSION of a bundle.", metavar="CONV[@VERSION]"
    ),
]


@audit.command()
@on_stack
def versions(
    stack: StackOptions,
    conv: ConvOption,
    loss: Annotated[
        bool,
        typer.Option(
            "--loss", help="Count anew what each step left of steps, sentences, ids, paths and the like; name the lost."
        ),
    ] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="Without the versions that only say that a view was served.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """List every version of a conversation: who made it, what it did, tokens before and after or of the view served."""
    from .audit_read import versions as run

    return run(stack, conv, losses=loss, changes=changes, as_json=json)


@audit.command()
@on_stack
def diff(
    stack: StackOptions,
    older: Annotated[str, typer.Argument(help="CONV@VERSION", metavar="CONV@A")],
    newer: Annotated[str, typer.Argument(help="CONV@VERSION, or @VERSION of the same.", metavar="CONV@B")],
    full: Annotated[bool, typer.Option("--full", help="All lines of each change, not only the first.")] = False,
    json: JsonOption = False,
) -> int:
    """Compare two versions message by message: kept, spilled, shortened, digested, squeezed, cut, new."""
    from .audit_read import diff as run

    return run(stack, older, newer, full=full, as_json=json)


@audit.command()
@on_stack
def why(
    stack: StackOptions,
    conv: At,
    message: Annotated[int, typer.Argument(help="Its number, from 1; 0: the digest.", min=0, metavar="MESSAGE")],
    full: Annotated[bool, typer.Option("--full", help="Print the message as it was said, too.")] = False,
    json: JsonOption = False,
) -> int:
    """Explain what happened to a message: which rule, which threshold, which policy key, and how to read it."""
    from .audit_read import why as run

    return run(stack, conv, message, full=full, as_json=json)


@audit.command()
@on_stack
def where(
    stack: StackOptions,
    conv: ConvOption,
    text: Annotated[str, typer.Argument(help="What to look for, exactly as it stands in a message.", metavar="TEXT")],
    json: JsonOption = False,
) -> int:
    """Say in which versions a text stands in the view, and where else it is kept; exit 1 if nowhere."""
    from .audit_read import where as run

    return run(stack, conv, text, as_json=json)


@audit.command()
@on_stack
def stats(
    stack: StackOptions,
    conv: Annotated[
        str, typer.Argument(help="One CONV, or TENANT/ for one tenant; default: all.", metavar="[CONV]")
    ] = "",
    price_as: Annotated[
        str, typer.Option(help="Price calls as those of this model where a conversation names none.")
    ] = "",
    json: JsonOption = False,
) -> int:
    """Add up tokens and money saved, prompt-cache effect, refusals and slow steps, over all conversations."""
    from .audit_read import stats as run

    return run(stack, conv, price_as=price_as, as_json=json)
