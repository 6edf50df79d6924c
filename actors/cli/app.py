"""All commands with their options; what they do is in the modules that they import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="jettison",
    help="Lighten the context of LLM agents, keep the cargo.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default ./jettison.toml.")]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL; default from settings, else the running embedded stack.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the embedded stack.")]
Port = Annotated[int | None, typer.Option(help="Default: a free one.", min=1, max=65535)]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Conv = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION.", metavar="CONV")]


@app.command()
def up(
    data: Data = None,
    config: Config = None,
    nats_port: Port = None,
    s3_port: Port = None,
) -> int:
    """Start NATS, S3 and all four actors in one go, until Ctrl-C."""
    from .serve import up as run

    return run(data=data, config=config, nats_port=nats_port, s3_port=s3_port)


@app.command()
def worker(
    actor: Annotated[str, typer.Argument(help="spill, digest, squeeze or cut", metavar="ACTOR")],
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
) -> int:
    """Run one worker of one actor; start as many as you like, anywhere."""
    from .serve import worker as run

    return run(actor=actor, config=config, nats=nats, data=data)


@app.command()
def provision(
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    replicas: Annotated[int, typer.Option(help="Copies of each stream in a cluster.")] = 1,
) -> int:
    """Create or update the streams, the consumers and the bucket."""
    from .serve import provision as run

    return run(config=config, nats=nats, data=data, replicas=replicas)


@app.command()
def doctor(config: Config = None, nats: Nats = "", data: Data = None, json: Json = False) -> int:
    """Check everything that Jettison needs, and say how to mend what is wrong."""
    from .doctor import doctor as run

    return run(config=config, nats=nats, data=data, as_json=json)


@app.command()
def compact(
    file: Annotated[Path, typer.Argument(help="OpenAI-chat transcript: JSON list, {messages}, or JSONL.")],
    budget: Annotated[int, typer.Option(help="Tokens that the result may have.", min=1)],
    policy: Annotated[Path | None, typer.Option(help="TOML or JSON file with a policy.")] = None,
    model: Annotated[
        str, typer.Option(help="Model that may squeeze the digest; needs an endpoint in the settings.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the messages here instead of stdout.")] = None,
    workers: Annotated[int, typer.Option(help="Use this many separate processes of each actor.", min=0)] = 0,
    by_turn: Annotated[bool, typer.Option(help="Ask for a view before every turn, as an agent does.")] = False,
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    json: Json = False,
) -> int:
    """Publish a transcript through the whole path and print what is left of it."""
    from .compact import CompactJob, compact_file

    job = CompactJob(file=file, budget=budget, policy=policy, model=model, out=out, workers=workers, by_turn=by_turn)
    return compact_file(job, config=config, nats=nats, data=data, as_json=json)


@app.command()
def ls(config: Config = None, nats: Nats = "", data: Data = None, json: Json = False) -> int:
    """List all conversations."""
    from .read import ls as run

    return run(config=config, nats=nats, data=data, as_json=json)


@app.command()
def log(conv: Conv, config: Config = None, nats: Nats = "", data: Data = None, json: Json = False) -> int:
    """Print every fact of a conversation, in order."""
    from .read import log as run

    return run(conv, config=config, nats=nats, data=data, as_json=json)


@app.command()
def show(
    conv: Annotated[str, typer.Argument(help="CONV or CONV@VERSION", metavar="CONV[@VERSION]")],
    budget: Annotated[int, typer.Option(help="Tokens; default: as the policy says.")] = 0,
    full: Annotated[bool, typer.Option("--full", help="Whole messages instead of their first lines.")] = False,
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    json: Json = False,
) -> int:
    """Print the view of a conversation, now or at a version."""
    from .read import show as run

    return run(conv, budget=budget, full=full, config=config, nats=nats, data=data, as_json=json)


@app.command()
def replay(
    conv: Conv,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decide every step again and compare; exit 3 if one differs.")
    ] = False,
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
    json: Json = False,
) -> int:
    """Rebuild a conversation from its log alone: no LLM, no S3, nothing written."""
    from .read import replay as run

    return run(conv, verify=verify, config=config, nats=nats, data=data, as_json=json)


@app.command()
def artifact(
    key: Annotated[str, typer.Argument(help="SHA-256 of the artifact or its first digits.")],
    tenant: Annotated[str, typer.Option(help="Whose artifact.")] = "default",
    config: Config = None,
    nats: Nats = "",
    data: Data = None,
) -> int:
    """Write an artifact's bytes to stdout."""
    from .read import artifact as run

    return run(key, tenant=tenant, config=config, nats=nats, data=data)


@app.command()
def trace(
    conv: Conv,
    last: Annotated[int, typer.Option(help="Newest traces to draw.", min=1)] = 10,
    config: Config = None,
    data: Data = None,
    json: Json = False,
) -> int:
    """Draw the traces of a conversation as trees (from the local trace files)."""
    from .read import trace as run

    return run(conv, last=last, config=config, data=data, as_json=json)


@app.command()
def version() -> int:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("jettison"))
    return 0
