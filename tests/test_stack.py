"""What tests are given to run their servers with."""

from __future__ import annotations

import subprocess
import sys

from tests.stack import ROOT, free_port

TAKES = """
import sys
from tests.stack import free_port
print(*(free_port() for _ in range(300)), flush=True)
sys.stdin.read()
"""
"""As many as a whole run takes: of so many that the kernel chooses, some are the same."""


def test_no_port_is_given_twice_while_who_has_it_lives() -> None:
    command = [sys.executable, "-c", TAKES]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    given: list[str] = []
    for one in both:
        assert one.stdout is not None
        given += one.stdout.readline().split()
    given.append(str(free_port()))
    for one in both:
        one.communicate(timeout=180)
    assert (len(given), len(set(given))) == (601, 601)
