"""Commands of the policy: show, set, schema, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import TOKENS_MAX, Conv, JsonOption, StackOptions, on_stack

policy = typer.Typer(
    help="The policy: show and check it, change a conversation's, print its schema, import another system's settings.",
    no_args_is_help=True,
)


@policy.command("show")
def policy_show(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Layers (TOML, JSON or YAML), the later over the earlier.")
    ] = None,
    preset: Annotated[str, typer.Option(help="jettison, holmes, digitorn, llm4s, docsgpt, octopus-fifo …")] = "",
    window: Annotated[int | None, typer.Option(help="Tokens of the model's window.", min=1, max=TOKENS_MAX)] = None,
    as_json: JsonOption = False,
) -> int:
    """Resolve a policy, check it, and print every key of it."""
    from .policy import show as run

    return run(files=files or [], preset=preset, window=window, as_json=as_json)


@policy.command("set")
@on_stack
def policy_set(
    stack: StackOptions,
    conv: Conv,
    values: Annotated[list[str], typer.Argument(help="Such as budget.window=64000.", metavar="KEY=VALUE …")],
    json: JsonOption = False,
) -> int:
    """Change a conversation's policy from the next version on; what is not named stays."""
    from .policy import set_ as run

    return run(stack, conv, values, as_json=json)


@policy.command("windows")
def policy_windows(models: Annotated[list[str], typer.Argument(help="Names, as a provider has them.")]) -> int:
    """Print the windows of models, and where each number is from."""
    from .policy import windows as run

    return run(models)


@policy.command("schema")
def policy_schema() -> int:
    """Print the policy's JSON Schema."""
    from .policy import schema as run

    return run()


@policy.command("import")
def policy_import(
    file: Annotated[Path, typer.Argument(help="Digitorn's YAML, or an .env file of DocsGPT or HolmesGPT.")],
    system: Annotated[
        str, typer.Option("--from", help="digitorn, docsgpt or holmes; default: seen from the keys.")
    ] = "",
    agent: Annotated[str, typer.Option(help="Id of the Digitorn agent; default: the first.")] = "",
) -> int:
    """Print another system's settings as a layer of our policy; what has no counterpart is said on stderr."""
    from .policy import import_ as run

    return run(file=file, system=system, agent=agent)
