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

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "jettison": {},
    "holmes": {},
    "digitorn": {},
    "digitorn-truncate": {},
    "llm4s": {},
    "docsgpt": {},
    "octopus-fifo": {},
    "octopus-window": {},
    "octopus-summarize": {},
}
