"""Policy keys: every key of the policy with its type, default and meaning, from the code and its docstrings."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from protocol import hooks
from protocol import policy as policies
from protocol.policy import Policy
from protocol.presets import PRESETS

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
    "table its rows unlike the others; `first`: the first items that fit, how many there are, and how to see others.",
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


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the policy."""

    path: str
    """As in a file: `spill.tokens`; in lists with its kind: `hooks[].when(turns).every`."""
    owner: str
    kind: str
    default: str
    about: str


def keys() -> Iterator[Key]:
    """Yield every key of the policy, section by section."""
    yield from _keys(Policy, "")


@cache
def _resolved(preset: str) -> Any:
    return msgspec.to_builtins(policies.resolve([{"preset": preset}]))


def values_in(preset: str, path: str) -> str:
    """Return the value of a key in a preset, as JSON; empty where it is that of `jettison`, or no single one."""
    own, usual = (_at(_resolved(name), path) for name in (preset, "jettison"))
    return "" if own == usual and preset != "jettison" else json.dumps(own, ensure_ascii=False)


def described() -> dict[str, Any]:
    """Return the JSON Schema of a layer, each key with what it means."""
    schema = policies.schema()
    meanings = {(key.owner, key.path.rpartition(".")[2]): key.about for key in keys()}
    for name, section in schema["$defs"].items():
        for field, about in section.get("properties", {}).items():
            if meaning := meanings.get((name, field)):
                about["description"] = meaning
    return schema


def _keys(section: type[msgspec.Struct], under: str) -> Iterator[Key]:
    hints = typing.get_type_hints(section)
    for field in msgspec.structs.fields(section):
        path = f"{under}{field.name}"
        inner = [(one, _told(one)) for one in _sections(hints[field.name])]
        default = _default(field)
        simple = len(inner) == 1 and default not in ("none", "required") and not _is_many(hints[field.name])
        if not (simple and section is Policy):
            about = docstrings().get(f"{section.__name__}.{field.name}") or MORE.get(f"{section.__name__}.{field.name}")
            if about is None and inner:
                about = (inner[0][0].__doc__ or "").strip()
            kind = _kind(hints[field.name])
            yield Key(
                path=path, owner=section.__name__, kind=kind, default=default, about=" ".join((about or "").split())
            )
        if section.__name__ in ("AllOf", "AnyOf", "Not"):
            continue
        many = "[]" if _is_many(hints[field.name]) else ""
        for one, told in inner:
            named = f"({told})" if len(inner) > 1 and told else ""
            yield from _keys(one, f"{path}{many}{named}.")


def _told(section: type[msgspec.Struct]) -> str:
    return str(section.__struct_config__.tag or "")


def _sections(hint: Any) -> list[type[msgspec.Struct]]:
    """Return the structs in a type."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [one for part in typing.get_args(hint) for one in _sections(part)]


def _is_many(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return origin in (tuple, dict) or any(typing.get_origin(part) in (tuple, dict) for part in typing.get_args(hint))


def _kind(hint: Any) -> str:
    """Return a type in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in (type(None), msgspec.UnsetType):
        return "none"
    if origin is typing.Literal:
        return " or ".join(f"`{part}`" if part else "empty" for part in parts)
    if origin is tuple:
        return f"list of {_kind(parts[0])}"
    if origin is dict:
        return f"object of {_kind(parts[1])}"
    if parts:
        return " or ".join(dict.fromkeys(_kind(part) for part in parts))
    words = {int: "number", float: "number", str: "text", bool: "true or false"}
    return (
        words.get(hint, _told(hint) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else "") or "section"
    )


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return json.dumps(msgspec.to_builtins(field.default_factory()))
    if field.default is msgspec.NODEFAULT:
        return "required"
    if field.default in (None, msgspec.UNSET):
        return "none"
    return json.dumps(msgspec.to_builtins(field.default), ensure_ascii=False)


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


@cache
def docstrings() -> Mapping[str, str]:
    """Return the lines below the keys in the code, by class and field."""
    return lines_below(policies, hooks)


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


OTHERS = tuple(name for name in PRESETS if name != "jettison")
