"""Names the sources of the client to hatchling: in the repository they lie elsewhere, in an sdist they are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "jettison_client"


class Sources(BuildHookInterface[Any]):
    """What is put into the wheel and the sdist under the package's name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the sources and the licence in."""
        here = Path(self.root)
        if not (here / PACKAGE).is_dir():
            sources = {"../../protocol": PACKAGE, "../LICENSE": f"{PACKAGE}/LICENSE"}
            build_data["force_include"] |= {str(here / source): place for source, place in sources.items()}
