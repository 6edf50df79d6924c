"""`jettison demo`: a recorded agent run, turn by turn, through the real path; then the same from the log alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from protocol.errors import NotFound

from .session import run, settings_of

BUDGET = 12_000
SAMPLE = Path(__file__).parents[2] / "tests" / "data" / "sample.json"
SHOWN_CHARS = 100
POLICY = {"squeeze": {"deadline_seconds": 20.0, "attempts": 1}}


def demo(*, data: Path | None, sample: Path | None) -> int:
    """Play the sample; see `jettison demo --help`."""
    path = sample or SAMPLE
    if not path.exists():
        raise NotFound(f"there is no transcript at {path}", path=str(path))
    folder = data or Path(tempfile.mkdtemp(prefix="jettison-demo-"))
    settings = settings_of(config=None, data=folder)
    return run(_demo(settings, path), service="demo", settings=settings)
