"""Presets: what other systems do, said in our policy. Each is a layer below all others.

Where a system's outcome is a defect, its preset does better; the tests of each preset name the defect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Preset = Literal[
    "jettison",
    "holmes",
    "digitorn",
    "digitorn-truncate",
    "llm4s",
    "docsgpt",
    "octopus-fifo",
    "octopus-window",
    "octopus-summarize",
]

_NO_CAP = 2**40
"""More than any part has."""

_OCTOPUS: dict[str, Any] = {
    "budget": {"window": 100_000, "reserve": 4096},
    "trigger": {"ratio": 1.0},
    "target": {"low_water": 1.0, "min_gain": 0.0},
    "spill": {
        "of_result": "texts",
        "share": 1.0,
        "tokens": 2000,
        "bytes": _NO_CAP,
        "batch": 1.0,
        "medium": 1.0,
        "preview": 1.0,
        "repeated": "keep",
        "users": "keep",
        "assistants": "keep",
    },
    "digest": {"mode": "off"},
    "cut": {
        "by": "blocks",
        "pins": ["system", "last_user"],
        "floor": {"blocks": 4, "mode": "hard", "calls": "leave"},
    },
}
"""History pruning of the Octopus documentation: oldest pairs first, never fewer than three turns.

Its turns are complete and stand beside the current message, which is a block too: one block more. A turn is a question
and its answer; a call leaves with its result, however new the turn is.
"""

_DIGITORN: dict[str, Any] = {
    "budget": {"reserve": 4096},
    "trigger": {"ratio": 0.75, "comparator": "at_least"},
    # nothing but the messages to be kept says where it stops
    "target": {"low_water": 0.0, "min_gain": 0.0},
    "cooldown": {"model_calls": 2, "seconds": 30.0},
    "spill": {
        "of_result": "texts",
        "share": 0.5,
        "tokens": _NO_CAP,
        "bytes": _NO_CAP,
        "batch": 1.0,
        "medium": 1.0,
        "preview": 1.0,
        "index": 0.0,
        "shown": "first",
        "repeated": "keep",
        "assistants": "keep",
    },
    "digest": {"keep_messages": 10, "told": 0.2},
    "cut": {"kept": "leave"},
    "emergency": {"keep_messages": 5, "down_to": 0.5, "part": 0.25},
    "reminder": {"mode": "auto"},
}
"""Digitorn's automatic compaction. Its turn is a call of the model; its emergency keeps half of what is kept, at least
4, and goes down to half the window. Tools are the agent's."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "jettison": {
        "budget": {"calibrate": "apart"},
        "trigger": {"ratio": 0.98},
        "target": {"low_water": 0.8},
        # what the agent has not answered yet is shown whole as far as the budget allows: it is shortened when old
        "spill": {
            "of_result": "texts",
            "share": 0.5,
            "tokens": 100_000,
            "bytes": 262_144,
            "batch": 0.6,
            "medium": 1.0,
            "index": 0.0,
            "preview": 0.45,
            "repeated": "near",
        },
        "digest": {"style": "account", "cap": 0.5, "records": "fields"},
        "squeeze": {"mode": "auto", "prompt_version": "v3", "cap": 0.25, "cap_tokens": 1_500, "offers": "looks"},
        "cut": {"kept": "leave"},
        "shape": {"overdue_seconds": 600.0},
    },
    "holmes": {
        "budget": {"reserve": 64_000, "reserve_share": 0.2},
        "trigger": {"ratio": 0.95, "of": "window", "expected": "reserve"},
        "target": {"low_water": 0.2},
        "spill": {
            "of_result": "all",
            "of": "window",
            "bytes": _NO_CAP,
            "batch": 1.0,
            "medium": 1.0,
            "preview": 0.5,
            "index": 0.0,
            "repeated": "keep",
            "on_store_error": "refuse",
            "assistants": "keep",
        },
        "digest": {"keep_tokens": 0, "cap": 0.1, "told": 0.2},
        "squeeze": {"mode": "summarize"},
        "cut": {"mode": "off"},
    },
    "digitorn": _DIGITORN | {"squeeze": {"mode": "summarize", "cap_tokens": 1024}},
    "digitorn-truncate": _DIGITORN
    | {"digest": {"keep_messages": 10, "cap": 0.05, "told": 0.2}, "squeeze": {"mode": "off"}},
    "llm4s": {
        "budget": {"headroom": 0.08},
        "trigger": {"ratio": 1.0},
        # where a run under one prompt stops, so that not each call digests anew; blocks stay by their number
        "target": {"low_water": 0.7, "min_gain": 0.0},
        "spill": {
            "of_result": "texts",
            "share": 1.0,
            "tokens": _NO_CAP,
            "bytes": 8192,
            "batch": 1.0,
            "medium": 1.0,
            "medium_bytes": 2048,
            "repeated": "point",
            "users": "keep",
            "assistants": "keep",
        },
        "digest": {"keep_blocks": 5, "cap": 1.0, "cap_tokens": 400, "told": 0.2},
        "squeeze": {"mode": "squeeze"},
        "cut": {"down_to": "usable", "kept": "leave"},
    },
    "docsgpt": {
        "budget": {"reserve_share": 0.2},
        "trigger": {"ratio": 0.8, "of": "window", "comparator": "at_least", "expected": 500},
        "spill": {
            "of_result": "texts",
            "share": 1.0,
            "tokens": 20_000,
            "bytes": _NO_CAP,
            "batch": 1.0,
            "medium": 1.0,
            "repeated": "keep",
            "assistants": "keep",
        },
        "digest": {"keep_tokens": 0, "told": 0.2},
        "squeeze": {"mode": "summarize", "cap": 1.0, "cap_tokens": 4000},
    },
    "octopus-fifo": _OCTOPUS,
    "octopus-window": _OCTOPUS | {"cut": _OCTOPUS["cut"] | {"window": 11}},
    "octopus-summarize": _OCTOPUS
    | {"digest": {"mode": "on", "keep_share": 0.7, "told": 0.2}, "squeeze": {"mode": "summarize"}},
}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return *base* with *over* over it, key by key."""
    out = dict(base)
    for key, value in over.items():
        below = out.get(key)
        out[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return out
