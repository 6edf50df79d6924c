"""Calibrating: what a provider counts beside a view (instructions, tools) is learned apart from how it counts texts."""

from __future__ import annotations

from msgspec.structs import replace

from .state_parts import Calibration, Counted

SLOPE_MIN, SLOPE_MAX = 0.5, 2.0
"""What tokenizers differ by; a jump beyond is a change of the instructions or the tools, and no ratio."""

FAR_TOKENS_MIN, FAR_SHARE = 256, 0.25
"""How far apart two views are that a ratio is taken from: below, the frames of single messages are most of it."""

STEPS = 256
"""Parts of a window that the overhead is rounded up to, so that a budget is the same from call to call."""


def learned(known: Calibration, counted: Counted) -> Calibration:
    """Return the calibration after a provider counted `told` tokens of a view that has `ours`.

    A first count says how much stands beside the view; the ratio is taken from two views of different sizes.
    """
    ours, told, ratio = counted.ours, counted.told, known.ratio
    if not known.at_ours:
        known = replace(known, at_ours=ours, at_told=told)
    elif abs(ours - known.at_ours) >= max(FAR_TOKENS_MIN, FAR_SHARE * max(ours, known.at_ours)):
        slope = (told - known.at_told) / (ours - known.at_ours)
        if SLOPE_MIN <= slope <= SLOPE_MAX:
            ratio = (ratio + slope) / 2 if ratio else slope
        known = replace(known, at_ours=ours, at_told=told)
    return replace(known, ratio=ratio, overhead=max(0.0, told - (ratio or 1.0) * ours))


def overhead_in(usable: int, known: Calibration) -> int:
    """Return the tokens of *usable* that are taken by what stands beside a view: at most half of them."""
    if not known.overhead:
        return 0
    step = max(1, usable // STEPS)
    return min(usable // 2, -int(-known.overhead // step) * step)
