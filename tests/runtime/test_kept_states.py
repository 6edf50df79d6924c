"""The shape of what a snapshot holds is held to `STATE_SCHEMA`: a field that got another name would be read as empty.

A change that is meant raises `STATE_SCHEMA` first; then
`TESTS_GOLDEN=write .venv/bin/python -m pytest tests/runtime/test_kept_states.py` writes the new shape, and the file
of the old number is deleted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from actors.core.state import State
from actors.runtime.kept_states import STATE_SCHEMA

SHAPE = Path(__file__).parent.parent / "data" / "shapes" / f"state-{STATE_SCHEMA}.json"


def without_texts(schema: Any) -> Any:
    """Return *schema* without docstrings, which change nothing that is stored."""
    if isinstance(schema, dict):
        spoken = {name for name in ("description", "title") if isinstance(schema.get(name), str)}
        return {name: without_texts(value) for name, value in schema.items() if name not in spoken}
    return [without_texts(value) for value in schema] if isinstance(schema, list) else schema


def test_no_snapshot_of_this_schema_has_another_shape() -> None:
    """It failed when `State.tally` became `counters`: kept states were read with all counters at 0."""
    structs = without_texts(msgspec.json.schema(State))["$defs"]
    shape = {name: json.loads(json.dumps(struct)) for name, struct in structs.items()}
    if os.environ.get("TESTS_GOLDEN") == "write":
        lines = (f"{json.dumps(name)}: {json.dumps(struct)}" for name, struct in shape.items())
        SHAPE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert SHAPE.exists(), f"no shape of schema {STATE_SCHEMA} is kept: see the top of this file"
    assert shape == json.loads(SHAPE.read_text()), "another shape: raise STATE_SCHEMA (see the top of this file)"
