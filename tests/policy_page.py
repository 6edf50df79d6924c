"""The page of the policy: every key with its type, default, presets and meaning, written from the code."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from actors.cli.policy_keys import lines_below, meaning_of, sections_in
from protocol import context, service_messages
from protocol import policy as policies
from protocol.context import Context
from protocol.policy import Policy
from protocol.presets import PRESETS
from protocol.service_messages import Expanded, PolicyChanged, Ready, Rewound

EXAMPLES = {
    "budget": "budget = { window = 200_000, reserve = 8_000 }",
    "trigger": "trigger = { ratio = 0.8, buffer = 2_000 }",
    "target": "target = { low_water = 0.4 }",
    "cooldown": "cooldown = { turns = 3, growth = 2_000 }",
    "economy": 'economy = { mode = "on", cached_price = 0.1 }',
    "spill": 'spill = { tokens = 8_000, per_tool = { "grep*" = { tokens = 2_000 } } }',
    "digest": "digest = { keep_blocks = 3 }",
    "squeeze": 'squeeze = { mode = "summarize", model = "gpt-4o-mini" }',
    "cut": 'cut = { pins = ["first_user", "last_user"], floor = { blocks = 2 } }',
    "emergency": "emergency = { keep_units = 6 }",
    "hooks": 'hooks = [{ id = "half", when = { kind = "pressure", at_least = 0.5 }, do = { kind = "log" } }]',
    "reminder": 'reminder = { mode = "tools", tools = [{ name = "grep", about = "searches files" }] }',
    "shape": 'shape = { profile = "anthropic-messages" }',
    "retention": 'retention = { archive_after = "30d", erase_after = "365d" }',
}
"""One line of TOML for each section; a test resolves them."""


ANSWERS: dict[str, type[msgspec.Struct]] = {
    "context()": Context, "expand(...)": Expanded, "rewind(...)": Rewound, "set_policy(...)": PolicyChanged,
    "async for … in ready()": Ready,
}  # fmt: skip
"""What a call of a conversation returns, or yields."""


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


OTHERS = tuple(name for name in PRESETS if name != "jettison")


def values_in(preset: str, path: str) -> str:
    """Return the value of a key in a preset, as JSON; empty where it is that of `jettison`, or no single one."""
    own, usual = (_at(_resolved(name), path) for name in (preset, "jettison"))
    return "" if own == usual and preset != "jettison" else json.dumps(own, ensure_ascii=False)


def _keys(section: type[msgspec.Struct], under: str) -> Iterator[Key]:
    hints = typing.get_type_hints(section)
    for field in msgspec.structs.fields(section):
        path = f"{under}{field.name}"
        inner = [(one, _tag(one)) for one in sections_in(hints[field.name])]
        default = _written_default(field)
        simple = len(inner) == 1 and default not in ("none", "required") and not _is_many(hints[field.name])
        if not (simple and section is Policy):
            about = meaning_of(section, field.name)
            kind = _value(hints[field.name])
            yield Key(path=path, owner=section.__name__, kind=kind, default=default, about=about)
        if section.__name__ in ("AllOf", "AnyOf", "Not"):
            continue
        many = "[]" if _is_many(hints[field.name]) else ""
        for one, told in inner:
            named = f"({told})" if len(inner) > 1 and told else ""
            yield from _keys(one, f"{path}{many}{named}.")


def _tag(section: type[msgspec.Struct]) -> str:
    return str(section.__struct_config__.tag or "")


def _is_many(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return origin in (tuple, dict) or any(typing.get_origin(part) in (tuple, dict) for part in typing.get_args(hint))


def _value(hint: Any) -> str:
    """Return a type in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in (type(None), msgspec.UnsetType):
        return "none"
    if origin is typing.Literal:
        return " or ".join(f"`{part}`" if part else "empty" for part in parts)
    if origin is tuple:
        return f"list of {_value(parts[0])}"
    if origin is dict:
        return f"object of {_value(parts[1])}"
    if parts:
        return " or ".join(dict.fromkeys(_value(part) for part in parts))
    words = {int: "number", float: "number", str: "text", bool: "true or false"}
    return (
        words.get(hint, _tag(hint) if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else "") or "section"
    )


def _written_default(field: msgspec.structs.FieldInfo) -> str:
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


def answers_page() -> str:
    """Return a table for each answer: its fields, in the order of the code."""
    told = lines_below(context, service_messages)
    out = []
    for call, answer in ANSWERS.items():
        owners = [one.__name__ for one in answer.__mro__]
        out.append(f"\n### `{call}`\n\n| field | value | what it says |\n|---|---|---|")
        for field in msgspec.structs.fields(answer):
            about = next(told[f"{owner}.{field.name}"] for owner in owners if f"{owner}.{field.name}" in told)
            kind = _kind(field.type)
            out.append(f"| `{field.name}` | {_cell(kind)} | {_cell(' '.join(about.split()))} |")
    return "\n".join(out)


def _kind(hint: Any) -> str:
    """Return the type of a field in words."""
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f"`{part}`" for part in typing.get_args(hint))
    if typing.get_origin(hint) in (list, tuple):
        return f"list of {_kind(typing.get_args(hint)[0])}"
    if parts := typing.get_args(hint):
        return "object" if typing.get_origin(hint) is dict else " or ".join(map(_kind, parts))
    return {int: "number", float: "number", str: "text", bool: "true or false"}.get(hint, "object")


def policy_page() -> str:
    """Return the tables, a section each."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    section = ""
    for key in keys():
        name = key.path.partition(".")[0].partition("[")[0]
        if name != section:
            section = name
            yield from _head(section, key)
        yield f"| `{key.path}` | {_cell(key.kind)} | {_default(key)} | {_cell(key.about)}{_presets(key)} |"


def _head(section: str, first: Key) -> Iterator[str]:
    owner = {"preset": "", "hooks": "Hook"}.get(section, first.owner)
    about = getattr(policies, owner).__doc__.strip() if owner else "The rest of a layer lies over it."
    yield f"\n## {section}\n\n{about}\n"
    if section in EXAMPLES:
        yield f"```toml\n{EXAMPLES[section]}\n```\n"
    yield "| key | value | default | what it does |\n|---|---|---|---|"


def _default(key: Key) -> str:
    own = _in("jettison", key)
    return f"`{own}`" if own else f"`{key.default}`" if key.default != "required" else "required"


def _in(preset: str, key: Key) -> str:
    value = values_in(preset, key.path)
    return "" if value in ("", "null") else value


def _presets(key: Key) -> str:
    if "[]" in key.path or key.path == "preset":
        return ""
    told = [f"`{name}` {value}" for name in OTHERS if (value := _in(name, key)) and len(value) < 80]
    return f" Presets: {_cell(', '.join(told))}." if told else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
