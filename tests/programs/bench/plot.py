"""The plot of the document: milliseconds of one turn by the size of its history, both axes logarithmic, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 250, 20, 50
COLORS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#ff7f0e")

Series = Mapping[str, Sequence[tuple[int, float]]]


def drawn(series: Series) -> str:
    """Return *series* as one SVG document; ours comes first and thick."""
    points = [point for line in series.values() for point in line]
    across = _Axis(min(size for size, _ in points), max(size for size, _ in points), LEFT, WIDTH - RIGHT)
    down = _Axis(
        10 ** math.floor(math.log10(min(ms for _, ms in points))), max(ms for _, ms in points), HEIGHT - BOTTOM, TOP
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"',
        '  font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_grid(down),
        *(
            _text(across(size), HEIGHT - BOTTOM + 18, _size(size), "middle")
            for size in sorted({one for one, _ in points})
        ),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "bytes of history", "middle"),
        _text(12, TOP + 4, "ms", "start"),
    ]
    ends = sorted(((down(line[-1][1]), name) for name, line in series.items()), key=lambda one: one[0])
    heights = _apart([height for height, _ in ends])
    labels = {name: height for (_, name), height in zip(ends, heights, strict=True)}
    for index, (name, line) in enumerate(series.items()):
        color, thick = COLORS[index % len(COLORS)], 3 if index == 0 else 1.5
        path = " ".join(f"{across(size):.1f},{down(ms):.1f}" for size, ms in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{thick}"/>')
        parts.append(_text(WIDTH - RIGHT + 10, labels[name] + 4, f"{name}: {line[-1][1]:,.3g} ms", "start", color))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """A logarithmic axis from *low* at *start* to *high* at *end*."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / max(1e-9, math.log(self.high / self.low))
        return self._start + (self._end - self._start) * share


def _grid(down: _Axis) -> list[str]:
    out = []
    power = math.floor(math.log10(down.low))
    while (value := 10.0**power) <= down.high:
        height = down(value)
        out.append(f'<line x1="{LEFT}" y1="{height:.1f}" x2="{WIDTH - RIGHT}" y2="{height:.1f}" stroke="#ddd"/>')
        out.append(_text(LEFT - 8, height + 4, f"{value:,g}", "end"))
        power += 1
    return out


def _apart(heights: list[float]) -> list[float]:
    """Return *heights*, in order, moved down where two labels would lie on each other."""
    out: list[float] = []
    for height in heights:
        out.append(max(height, out[-1] + 14) if out else height)
    return out


def _text(across: float, down: float, text: str, anchor: str, color: str = "#333") -> str:
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}" fill="{color}">{text}</text>'


def _size(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1_000} KB"
