"""Verdicts: the lines in which a build or a run of tests says how it came out."""

from __future__ import annotations

import re
from collections.abc import Sequence

LAST_LINES = 60
"""Looked at: a run says at its end how it came out."""

VERDICTS_MAX = 3

_VERDICT = re.compile(
    r"\bBUILD (?:SUCCESS(?:FUL)?|FAIL(?:ED|URE))\b"  # Maven, Gradle, Xcode
    r"|\btest result: (?:ok|FAILED)\b"  # Cargo
    r"|^=+ .*\b\d+ (?:passed|failed|errors?|skipped)\b|^\d+ (?:passed|failed)\b.* in [\d.]+s"  # pytest
    r"|^ *Tests?(?: Suites| Files)?:? .*\b\d+ (?:passed|failed|total)\b"  # Jest, Vitest
    r"|^(?:OK|FAILED)(?: \([^()]*\))?(?: …)?$|^Ran \d+ tests? in "  # unittest
    r"|^ *\d+ (?:passing|failing)\b"  # Mocha
    r"|\bTests run: \d+, Failures: \d+, Errors: \d+(?:, Skipped: \d+)?(?: …)?$"  # JUnit
    r"|^(?:ok|FAIL) +\t?\S+[ \t]+[\d.]+s(?: …)?$"  # Go
    r"|^\d+ examples?, \d+ failures?"  # RSpec
    r"|^(?:Passed!|Failed!) +- Failed: +\d+"  # .NET
    r"|^ *(?:Successfully (?:built|installed|tagged) |Compiled successfully|✓ built in |Finished .*target\(s\) in )"
)


def verdicts(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the last lines that say how a build or a run of tests came out."""
    first = max(0, len(lines) - LAST_LINES)
    found = [number for number, line in enumerate(lines[first:], first) if _VERDICT.search(line[:200])]
    return found[-VERDICTS_MAX:]
