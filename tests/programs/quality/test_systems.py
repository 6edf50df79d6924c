"""The environment of the peers has what they need, and of ours little more than how tokens are counted."""

import subprocess
import sys

from tests.stack import ROOT

OURS_ALONE = ("boto3", "cachetools", "hypothesis", "nats", "pytest", "stamina")


def test_the_peers_are_measured_where_little_of_ours_is_installed() -> None:
    without = f"import sys; sys.modules.update(dict.fromkeys({OURS_ALONE!r}))"
    modules = "tests.programs.quality.__main__, tests.programs.bench.peers"
    subprocess.run([sys.executable, "-c", f"{without}; import {modules}"], cwd=ROOT, check=True)
