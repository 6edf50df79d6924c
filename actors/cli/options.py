"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default ./jettison.toml.")]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL; default from settings, else the running embedded stack.")]
Data = Annotated[Path | None, typer.Option("--data", help="Folder of the embedded stack.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]
Conv = Annotated[str, typer.Argument(help="CONVERSATION or TENANT/CONVERSATION.", metavar="CONV")]
