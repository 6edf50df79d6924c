"""The page of commands and settings (`infra/docs/cli.md`), written from the parser and from the settings' types."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
import typer.main

from actors.cli.app import app
from actors.cli.options import StackOptions
from actors.cli.policy_keys import lines_below
from actors.host import settings
from actors.host.settings import PREFIX, SECRETS, Settings

SHARED = {*(f"--{name}" for name in StackOptions.__dataclass_fields__), "--json", "--help"}
"""Options that many commands have; the page says once what they are."""

LAYERS = {"policy", "locked", "tenants"}
"""Layers of policies: `client.md` says what stands in them."""
SECRET = "A secret: by the environment alone, or as a file that the same name with `_FILE` names."


def commands() -> str:
    """Return all commands, each with its arguments and its own options."""
    return "\n".join(_below(typer.main.get_command(app), "jettison"))


def names() -> frozenset[str]:
    """Return the names of all commands."""
    return frozenset(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def _below(group: Any, called: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _below(command, f"{called} {name}")
        else:
            yield from _command(command, f"{called} {name}")


def _command(command: Any, called: str) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    own = [one for one in options if not SHARED & set(one.opts)]
    shared = [f"`{flag}`" for one in options for flag in one.opts if flag in SHARED]
    yield f"### {called.removeprefix('jettison ')}"
    yield ""
    yield f"    {' '.join([called, *(_metavar(one) for one in arguments), *(_flag(one) for one in own)])}"
    yield ""
    yield from _text(command.help)
    if arguments or own:
        yield "| | default | |"
        yield "|---|---|---|"
        yield from (_row(one) for one in (*arguments, *own))
        yield ""
    if shared:
        yield f"Also: {', '.join(shared)}."
        yield ""


def _text(said: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(said).split("\n\n"):
        yield textwrap.fill(" ".join(paragraph.split()), 150, break_on_hyphens=False).replace("<", r"\<")
        yield ""


def _metavar(one: Any) -> str:
    name = one.metavar or one.name.upper()
    return name if one.required or name.startswith("[") else f"[{name}]"


def _flag(one: Any) -> str:
    shown = f"{one.opts[0]}{_value(one)}"
    return shown if one.required else f"[{shown}]"


def _value(one: Any) -> str:
    return "" if one.is_flag else f" {one.metavar or one.name.upper()}"


def _row(one: Any) -> str:
    name = _metavar(one) if one.param_type_name == "argument" else f"{', '.join(one.opts)}{_value(one)}"
    default = "" if one.default in (None, "", False, ()) else f"`{one.default}`"
    return f"| `{name.replace('|', chr(92) + '|')}` | {default} | {_cell(one.help)} |"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", r"\|")


def settings_page() -> str:
    """Return every setting with its default and what it means, section by section."""
    about = lines_below(settings)
    return "\n".join(_section(Settings, "", about))


def _section(section: type[msgspec.Struct], under: str, about: Any) -> Iterator[str]:
    plain = [one for one in msgspec.structs.fields(section) if not _is_section(one.default) and one.name not in LAYERS]
    if plain:
        yield f"**{_heading(under)}** {_cell(inspect.getdoc(section))}"
        yield ""
        yield "| variable | default | |"
        yield "|---|---|---|"
        for one in plain:
            variable = PREFIX + f"{under}{one.name}".upper().replace(".", "__")
            secret = SECRET if (under[:-1], one.name) in SECRETS else ""
            meaning = _cell(about.get(f"{section.__name__}.{one.name}"))
            yield f"| `{variable}` | {_default(one)} | {' '.join(filter(None, [meaning, secret]))} |"
        yield ""
    for one in msgspec.structs.fields(section):
        if _is_section(one.default):
            yield from _section(type(one.default), f"{under}{one.name}.", about)


def _heading(under: str) -> str:
    return f"`[{under[:-1]}]`." if under else "At the top."


def _is_section(default: object) -> bool:
    return isinstance(default, msgspec.Struct)


def _default(one: Any) -> str:
    value = one.default if one.default is not msgspec.NODEFAULT else one.default_factory()
    return "" if value in ("", (), {}, None) else f"`{str(value).lower() if isinstance(value, bool) else value}`"
