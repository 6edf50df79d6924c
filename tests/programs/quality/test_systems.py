"""The environment of the peers has what they need, and of ours little more than how tokens are counted."""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

from tests.stack import ROOT

LOCK = ROOT / "infra" / "lock" / "bench.txt"


def test_the_peers_are_measured_where_little_of_ours_is_installed() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    there = {canonical(found[1]) for found in re.finditer(r"^([\w.-]+)==", lock, re.MULTILINE)}
    elsewhere = [
        name
        for name, owners in packages_distributions().items()
        if there.isdisjoint(map(canonical, owners)) and name not in ("actors", "protocol", "storage", "tests")
    ]
    assert {"hypothesis", "pytest"} <= set(elsewhere)
    without = f"import sys; sys.modules.update(dict.fromkeys({elsewhere!r}))"
    modules = "tests.programs.quality.__main__, tests.programs.bench.peers, tests.programs.bench.turns"
    subprocess.run([sys.executable, "-c", f"{without}; import {modules}"], cwd=ROOT, check=True)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
