"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

TOKENS_MAX = 10**9
"""Of a window or a budget that is typed: more is a slip of the finger, and no limit at all."""

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default ./jettison.toml.")]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL; default from settings, else the running embedded stack.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the embedded stack.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Conv = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION.", metavar="CONV")]


class WrongUsage(typer.BadParameter):
    """What was typed names what there is not, or does not go together: told with the usage, and exit code 2."""

    def format_message(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """The stack that a command works on: what its settings are read from, and what goes before them."""

    config: Config = None
    nats: Nats = ""
    data: Data = None


def on_stack(command: Callable[..., int]) -> Callable[..., int]:
    """Return *command*, whose first parameter is `stack`, with an option for each of that one's fields.

    Typer reads options from a function's signature, and has no groups of them.
    """
    _, *own = signature(command, eval_str=True).parameters.values()
    shared = signature(StackOptions, eval_str=True).parameters

    @wraps(command)
    def called(**given: Any) -> int:
        stack = StackOptions(**{name: given.pop(name) for name in shared})
        return command(stack, **given)

    called.__signature__ = Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return called
