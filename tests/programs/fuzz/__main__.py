"""Fuzz for a while: `python -m tests.programs.fuzz [TARGET...] --seconds 600`; exits 1 where something failed.

Each round has a seed of its own, which is printed with what failed; hypothesis makes the failing bytes small.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback

from hypothesis import HealthCheck, Phase, given, seed, settings

from .mutation import mutated
from .targets import TARGETS

ROUND = 500
SLOW_SECONDS = 1.0


def main() -> int:
    """Run the named targets one after the other, each as long as asked."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=600.0, help="For each target.")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)  # the page and the service log what strangers ask
    failed = [name for name in asked.targets or list(TARGETS) if not _fuzzed(name, asked.seconds, asked.seed)]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "nothing failed\n")
    return 1 if failed else 0


def _fuzzed(name: str, seconds: float, first: int) -> bool:
    target, tried, slowest, round_ = TARGETS[name], 0, (0.0, b""), first
    seeds = target.seeds()
    started = time.monotonic()

    def one(data: bytes) -> None:
        nonlocal tried, slowest
        began = time.monotonic()
        target.check(data)
        tried, slowest = tried + 1, max(slowest, (time.monotonic() - began, data))

    sound = True
    while sound and time.monotonic() - started < seconds:
        rounds = settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(round_)(rounds(given(mutated(seeds))(one)))()
        except Exception:
            sound = False
            sys.stdout.write(f"{name}: FAILED in the round with --seed {round_}\n{traceback.format_exc()[-3000:]}\n")
        round_ += 1
    spent = time.monotonic() - started
    sys.stdout.write(f"{name}: {tried:,} inputs in {spent:.0f} s, the slowest took {slowest[0]:.2f} s\n")
    if slowest[0] > SLOW_SECONDS:
        sys.stdout.write(f"{name}: the slowest was {slowest[1][:400]!r}\n")
    sys.stdout.flush()
    return sound


if __name__ == "__main__":
    sys.exit(main())
