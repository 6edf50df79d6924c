"""What is shown of a result: the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys

WORTHS = """
from actors.core.text.excerpt import line_worths
words = [f"word{number}" for number in range(40)]
lines = [" ".join(words[start:]) for start in range(0, 30, 3)]
print([repr(worth) for worth in line_worths(lines, lambda word: 0.1 * len(word) + 0.01 * int(word[4:]))])
"""


def test_lines_weigh_the_same_whatever_the_hash_seed_is() -> None:
    """Fractions that are added in another order give another sum, and so another line of two that are as good."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", WORTHS],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            timeout=60,
        ).stdout
        for seed in range(3)
    }
    assert len(printed) == 1
