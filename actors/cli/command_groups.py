"""Command groups: `jettison --help` lists commands below what they are for, each with its whole first sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperGroup

SENTENCE_CHARS = 400
"""Longer than any: nothing is cut, and long ones go on below."""

GROUPS: Mapping[str, Sequence[str]] = {
    "Start and use": ("up", "gateway", "mcp", "compact", "policy"),
    "Look at what was served": (
        *("ls", "versions", "show", "diff", "why", "where", "log", "artifact", "stats", "trace", "serve"),
    ),
    "Change a conversation": ("expand", "rewind", "fork", "export", "import", "erase"),
    "Prove": ("verify", "replay", "anchor"),
    "Operate": (
        *("doctor", "worker", "provision", "repartition", "sweep", "dlq", "retain", "rewrap"),
        *("backup", "restore", "repair", "version"),
    ),
}


class Grouped(TyperGroup):
    """All commands, by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each group."""
        wide = max(map(len, self.commands))
        for title, names in GROUPS.items():
            with formatter.section(title):
                about = {name: self.commands[name].get_short_help_str(SENTENCE_CHARS) for name in names}
                formatter.write_dl([(name.ljust(wide), text) for name, text in about.items()])
