"""App: most commands with their options; groups of others are in the modules that it adds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .audit import audit
from .change_commands import changes
from .command_groups import Grouped
from .dlq import dlq
from .list_command import lists
from .options import TOKENS_MAX, Config, Conv, Data, JsonOption, StackOptions, on_stack
from .policy_commands import policy

app = typer.Typer(
    name="jettison",
    cls=Grouped,
    help="Lighten the context of LLM agents, keep the cargo.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with rich, the help would take half a second
)

app.add_typer(lists)
app.add_typer(audit)
app.add_typer(changes)
app.add_typer(dlq, name="dlq")
app.add_typer(policy, name="policy")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"jettison {version('jettison')}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Lighten the context of LLM agents, keep the cargo."""


Port = Annotated[int | None, typer.Option(help="Default: a free one.", min=1, max=65535)]


@app.command()
def up(
    data: Data = None,
    config: Config = None,
    nats_port: Port = None,
    s3_port: Port = None,
    gateway: Annotated[bool, typer.Option("--gateway", help="Serve the gateway too.")] = False,
) -> int:
    """Start NATS, S3 and all four actors in one go, until Ctrl-C."""
    from .serve import up as run

    return run(StackOptions(config=config, data=data), nats_port=nats_port, s3_port=s3_port, with_gateway=gateway)


@app.command()
@on_stack
def gateway(
    stack: StackOptions,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Of the client that --wrap starts, behind `--`.", metavar="[-- ARG ...]")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Default: as the settings say, 8322.", min=0, max=65535)] = None,
    wrap: Annotated[
        str,
        typer.Option(help="Start everything, and this client: claude, codex, opencode, aider, pi.", metavar="CLIENT"),
    ] = "",
) -> int:
    """Speak the APIs of OpenAI and Anthropic: an agent changes its base URL and nothing else."""
    from .gateway import gateway as run

    return run(stack, port=port, wrap=wrap, arguments=arguments or [])


@app.command()
@on_stack
def mcp(
    stack: StackOptions,
    http: Annotated[
        bool, typer.Option("--http", help="Over HTTP, for any number of clients; else over stdio.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="With --http: as the settings say, 8323.", min=0, max=65535)] = None,
) -> int:
    """Let any client of the Model Context Protocol read back what left a view: Claude Code, Codex and others."""
    from .mcp import mcp as run

    return run(stack, http=http, port=port)


@app.command()
@on_stack
def worker(
    stack: StackOptions,
    role: Annotated[
        str,
        typer.Argument(
            help="spill, digest, squeeze or cut; what is beside cut: service, sweeper; or all.", metavar="ACTOR"
        ),
    ],
    alone: Annotated[
        bool, typer.Option("--alone", help="Of cut: without the service and the sweeper beside it.")
    ] = False,
) -> int:
    """Run one worker of one actor, or of all in one process; start as many as you like, anywhere."""
    from .serve import worker as run

    return run(stack, role=role, alone=alone)


@app.command()
@on_stack
def provision(
    stack: StackOptions,
    replicas: Annotated[int, typer.Option(help="Copies of each stream in a cluster.", min=1)] = 1,
    partitions: Annotated[
        int, typer.Option(help="Parts of the log, each with a leader of its own; 0: as there are, else 1.", min=0)
    ] = 0,
) -> int:
    """Create or update the streams, the consumers and the bucket."""
    from .serve import provision as run

    return run(stack, replicas=replicas, partitions=partitions)


@app.command()
@on_stack
def rewrap(
    stack: StackOptions,
    tenant: Annotated[str, typer.Argument(help="Whose conversations' keys.")] = "default",
    json: JsonOption = False,
) -> int:
    """Wrap a tenant's keys by the last line of its key file, so that copies with the older lines open nothing more.

    Add a line first (`openssl rand -hex 32 >> FOLDER/TENANT.key`), and remove the others afterwards: then not even a
    complete backup from before, with all keys of today, brings back what was erased.
    """
    from .rewrap import rewrap as run

    return run(stack, tenant, as_json=json)


@app.command()
@on_stack
def sweep(
    stack: StackOptions,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation, not only those that changed.")] = False,
    json: JsonOption = False,
) -> int:
    """Wake who must act and was not told; workers do so by themselves, `--all` is for after a lost work queue."""
    from .serve import sweep as run

    return run(stack, everything=everything, as_json=json)


@app.command()
@on_stack
def doctor(
    stack: StackOptions,
    monitor: Annotated[str, typer.Option(help="URL of the server's monitoring port: is each write synced?")] = "",
    json: JsonOption = False,
) -> int:
    """Check everything that Jettison needs, and say how to mend what is wrong (`BAD`: exit code 4).

    `WARN` is what could not be seen from here, or is to be watched: exit code 0.
    """
    from .doctor import doctor as run

    return run(stack, monitor=monitor, as_json=json)


@app.command()
@on_stack
def compact(
    stack: StackOptions,
    file: Annotated[
        Path,
        typer.Argument(help="A chat log, as JSON or JSON lines (- for standard input); see --format.", metavar="FILE"),
    ],
    budget: Annotated[int, typer.Option(help="Tokens that the result may have.", min=1, max=TOKENS_MAX)],
    policy: Annotated[Path | None, typer.Option(help="TOML or JSON file with a policy.")] = None,
    model: Annotated[
        str, typer.Option(help="Model that may retell old steps; needs an endpoint in the settings.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the messages here instead of stdout.")] = None,
    workers: Annotated[int, typer.Option(help="Use this many separate processes of each actor.", min=0)] = 0,
    by_turn: Annotated[bool, typer.Option(help="Ask for a view before every turn, as an agent does.")] = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="What FILE is: openai, anthropic or responses (requests or messages), claude-code or codex "
            "(sessions), chatgpt (export), langchain, gemini, gemini-cli, sharegpt. Default: what it looks like.",
        ),
    ] = "",
    json: JsonOption = False,
) -> int:
    """Publish a transcript through the whole path and print what is left of it."""
    from .compact import CompactJob, compact_file

    job = CompactJob(
        file=file,
        budget=budget,
        policy=policy,
        model=model,
        out=out,
        workers=workers,
        by_turn=by_turn,
        format=format,
    )
    return compact_file(stack, job, as_json=json)


@app.command()
@on_stack
def log(stack: StackOptions, conv: Conv, json: JsonOption = False) -> int:
    """Print every fact of a conversation, in order."""
    from .inspect import log as run

    return run(stack, conv, as_json=json)


@app.command()
@on_stack
def show(
    stack: StackOptions,
    conv: Annotated[str, typer.Argument(help="CONV or CONV@VERSION", metavar="CONV[@VERSION]")],
    budget: Annotated[int, typer.Option(help="Tokens; 0: as the policy says.", min=0)] = 0,
    full: Annotated[bool, typer.Option("--full", help="Whole messages instead of their first lines.")] = False,
    served: Annotated[
        bool, typer.Option("--served", help="The exact bytes of the context served then; exit 3 if rebuilt otherwise.")
    ] = False,
    profile: Annotated[
        str, typer.Option(help="openai-chat, openai-responses or anthropic-messages; default: the policy's.")
    ] = "",
    json: JsonOption = False,
) -> int:
    """Print the view of a conversation, now or at a version."""
    if served:
        from .audit_read import served as run_served

        return run_served(stack, conv, as_json=json)
    from .inspect import show as run

    return run(stack, conv, budget=budget, full=full, profile=profile, as_json=json)


@app.command()
@on_stack
def replay(
    stack: StackOptions,
    what: Annotated[
        list[str] | None,
        typer.Argument(help="CONV, TENANT/, a bundle's file or a folder of bundles; several.", metavar="CONV|FILE..."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation in the log.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Exit 3 if a step or a served view differs.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="As --verify; exit 3 also if a step of older rules rests on the record.")
    ] = False,
    environments: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            help="Virtual environment of an older release, which decides the steps of its rules; several.",
            metavar="ENV",
        ),
    ] = None,
    fold: Annotated[bool, typer.Option("--fold", help="Decide nothing again: chain, snapshot, served views.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; default: one for each processor.", min=0)] = 0,
    json: JsonOption = False,
) -> int:
    """Rebuild conversations from the log alone, decide every step again and compare: no LLM, no S3, nothing written."""
    from .replay import Checks
    from .replay import replay as run

    checks = Checks(verify=verify or strict, strict=strict, environments=tuple(environments or ()), fold=fold)
    return run(stack, what or (), everything=everything, checks=checks, jobs=jobs, as_json=json)


@app.command()
@on_stack
def artifact(
    stack: StackOptions,
    key: Annotated[str, typer.Argument(help="SHA-256 of the artifact or its first digits.")],
    tenant: Annotated[str, typer.Option(help="Whose artifact.")] = "default",
) -> int:
    """Write an artifact's bytes to stdout."""
    from .inspect import artifact as run

    return run(stack, key, tenant=tenant)


@app.command()
def trace(
    conv: Conv,
    last: Annotated[int, typer.Option(help="Newest traces to draw or print.", min=1)] = 10,
    config: Config = None,
    data: Data = None,
    json: JsonOption = False,
) -> int:
    """Draw the traces of a conversation as trees (from the local trace files)."""
    from .inspect import trace as run

    return run(StackOptions(config=config, data=data), conv, last=last, as_json=json)


@app.command()
@on_stack
def export(
    stack: StackOptions,
    conv: Conv,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Default: CONVERSATION.jettison.tar here.")] = None,
    json: JsonOption = False,
) -> int:
    """Put a conversation into one file: log, snapshot, artifacts and the proofs of its anchors.

    The file is in plain text, whatever encrypts the log: who has it reads it, also after the conversation was erased.
    """
    from .bundle import export as run

    return run(stack, conv, out=out, as_json=json)


@app.command("import")
@on_stack
def import_(
    stack: StackOptions,
    file: Annotated[Path, typer.Argument(help="A bundle that `jettison export` wrote.")],
    conv: Annotated[str, typer.Option("--as", help="Refuse the file if it is about another CONV.")] = "",
    json: JsonOption = False,
) -> int:
    """Write a bundle's log and artifacts into a running stack, where the conversation can go on."""
    from .bundle import import_file as run

    return run(stack, file, conv, as_json=json)


@app.command()
@on_stack
def verify(
    stack: StackOptions,
    what: Annotated[str, typer.Argument(help="CONV, or a bundle's file.", metavar="[CONV|FILE]")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every conversation and every anchor.")] = False,
    unnamed: Annotated[bool, typer.Option("--unnamed", help="With --all: objects that no log names.")] = False,
    json: JsonOption = False,
) -> int:
    """Prove that nothing was changed, dropped, inserted, reordered or cut off; exit 3 if something was."""
    from .verify import verify as run

    return run(stack, what, everything=everything, unnamed=unnamed, as_json=json)


@app.command()
@on_stack
def anchor(
    stack: StackOptions,
    every: Annotated[float, typer.Option(help="Seconds between two rounds; 0: one round.", min=0)] = 0,
    json: JsonOption = False,
) -> int:
    """Write the Merkle root of all heads of each tenant to S3, outside NATS."""
    from .verify import anchor as run

    return run(stack, every=every, as_json=json)


@app.command()
@on_stack
def serve(
    stack: StackOptions, port: Annotated[int, typer.Option(help="Port on this machine.", min=1, max=65535)] = 8321
) -> int:
    """Show the page: conversations, versions, diffs, why, where, artifacts, verify; read-only, for this machine."""
    from .page import serve as run

    return run(stack, port=port)


@app.command()
def version() -> int:
    """Print the version."""
    from importlib import metadata

    typer.echo(metadata.version("jettison"))
    return 0
