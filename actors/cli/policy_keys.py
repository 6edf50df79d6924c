"""Policy keys: what every key of the policy means, from the code and its docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import typing
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from protocol import hooks, policy_sections, retention
from protocol import policy as policies
from protocol.policy import Policy

_PART = "tokens of one part; none: as for every tool"
MORE: Mapping[str, str] = {
    "Shape.overdue_seconds": (
        "How long a call that others spoke over is said to be running, by the times at which agents "
        "published; then that no result came yet. 0: until the agent's next answer that asks no tool, which "
        "ends it in any case."
    ),
    "Shape.read_tool": (
        "What the tool that reads back is called, if not `read_artifact`; empty: there is none, and no text names one."
    ),
    "Shape.read_keys": (
        "`named`: the conversation stands before each key (`ticket-1/messages:4-9`), for a tool that reads for several "
        "(`jettison mcp`)."
    ),
    "Trigger.comparator": "Whether the share itself already counts.",
    "Cooldown.growth": "Tokens that the view must have grown by.",
    "Economy.mode": "Whether it is asked at all.",
    "ToolCap.share": "Share that one part may have; none: as for every tool.",
    "ToolCap.tokens": f"Most {_PART}.",
    "ToolCap.bytes": "Most bytes of one part; none: as for every tool.",
    "ToolCap.medium": "As `spill.medium`; none: as for every tool.",
    "Spill.share": "Share of `of` that one part may have.",
    "Spill.of": "What the shares are of.",
    "Spill.tokens": "Most tokens of one part.",
    "Spill.shown": "What of a result that left is shown. `kind`: by its kind, so that a log shows its errors and a "
    "table its rows unlike the others; `in_order`: the same, but warnings stand among errors as they came (rules 1); "
    "`first`: the first items that fit, how many there are, and how to see others.",
    "Digest.mode": "Whether old history is digested at all.",
    "Digest.secrets": "What becomes of a password or a key. `handle`: the message that it stands in is named, and "
    "it can be read there; `show`: as it was said, which an operator's layer alone can say. The "
    "risk: it then stands in digests, in summaries, in what is sent to the model that squeezes, "
    "and in the log for as long as that is kept. In spans and in what programs print it never "
    "stands.",
    "Squeeze.deadline_seconds": "Seconds for all requests of one squeeze.",
    "Squeeze.attempts": "Tries of one request.",
    "Floor.blocks": "Newest blocks.",
    "Floor.messages": "Newest messages.",
    "Floor.tokens": "Tokens of the newest messages.",
    "Cut.down_to": "Where it stops: at the target, or as soon as the view fits.",
    "Tool.name": "As the model calls it.",
    "Tool.category": "What it is listed under.",
    "Tool.about": "What it does, in a few words.",
    "Reminder.few": "Tools that are still named one by one.",
    "Reminder.text": "Said in front of the tools.",
    "Reminder.cap": "Share of the usable tokens that the note may have.",
    "Shape.profile": "The API that views are written for.",
    "Shape.summary_role": "Who says the digest and the notes.",
    "Pressure.at_least": "Share of the usable tokens.",
    "Turns.at_least": "How many; 0: not asked.",
    "Turns.every": "Each so many; 0: not asked.",
    "ModelCalls.at_least": "How many; 0: not asked.",
    "ModelCalls.every": "Each so many; 0: not asked.",
    "ToolCalls.at_least": "How many.",
    "Messages.at_least": "How many.",
    "AllOf.of": "The conditions.",
    "AnyOf.of": "The conditions.",
    "Not.of": "The other condition.",
    "Inject.text": "What it says.",
    "Note.text": "The line.",
    "Call.name": "The last token of the subject.",
    "Hook.id": "Its name in the log.",
    "Hook.when": "What must hold.",
    "Hook.do": "What is done.",
    "Hook.cooldown_turns": "Messages of the user between two times.",
    "Hook.cooldown_seconds": "Seconds between two times.",
}
"""What a key means where its name says nearly all of it, and its section has no line of its own for it."""


def described() -> dict[str, Any]:
    """Return the JSON Schema of a layer, each key with what it means."""
    schema = policies.schema()
    for section in _all_sections(Policy, {}):
        properties = schema["$defs"][section.__name__]["properties"]
        for field in section.__struct_fields__:
            if meaning := meaning_of(section, field):
                properties[field]["description"] = meaning
    return schema


def meaning_of(section: type[msgspec.Struct], field: str) -> str:
    """Return the meaning of a key: the line below it in the code, else the one above, else what its own section is."""
    at, inner = f"{section.__name__}.{field}", sections_in(typing.get_type_hints(section)[field])
    about = docstrings().get(at) or MORE.get(at) or (inner[0].__doc__ if inner else "")
    return " ".join((about or "").split())


def sections_in(hint: Any) -> list[type[msgspec.Struct]]:
    """Return the structs in a type."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [one for part in typing.get_args(hint) for one in sections_in(part)]


Sections = dict[type[msgspec.Struct], None]


def _all_sections(section: type[msgspec.Struct], found: Sections) -> Sections:
    if section not in found:
        found[section] = None
        for inner in (one for hint in typing.get_type_hints(section).values() for one in sections_in(hint)):
            _all_sections(inner, found)
    return found


@cache
def docstrings() -> Mapping[str, str]:
    """Return the lines below the keys in the code, by class and field."""
    return lines_below(policies, policy_sections, hooks, retention)


def lines_below(*modules: ModuleType) -> Mapping[str, str]:
    """Return the lines below the fields of the classes in some modules, by class and field."""
    found: dict[str, str] = {}
    for module in modules:
        for made in ast.parse(inspect.getsource(module)).body:
            body = made.body if isinstance(made, ast.ClassDef) else []
            for before, line in itertools.pairwise(body):
                is_key = isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
                if is_key and isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                    found[f"{made.name}.{before.target.id}"] = str(line.value.value)  # type: ignore[attr-defined]
    return found
