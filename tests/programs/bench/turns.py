"""The turn's own cost beside the peers' calls: CPU time, alternating in one process.

Our turn is everything but the wire: the messages as JSON, the envelope written and read, the fold, all rules
until the view is ready, the commits sealed, and the view rendered and hashed. A peer's turn is one call on
the whole history, which is what its agent makes before each request.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actors.core.state import State
from actors.core.text.count import Count
from actors.model_info.tokens import TokenCounter
from protocol import policy as policies
from tests.programs.bench.figures import Figure, Skipped, median, number, spread
from tests.programs.bench.forgetful import Forgetful
from tests.programs.bench.histories import BUDGET_TOKENS, NARROW_TOKENS, SIZES, history, turns
from tests.programs.bench.peers import PEERS, quieted

Json = dict[str, Any]

ROUNDS = {"50 KB": 9, "1 MB": 7, "20 MB": 3}
"""Calls of a peer at each size; ours runs `TURNS_PER_ROUND` between two of them."""

TURNS_PER_ROUND = 8
GROWTH_BUDGET_TOKENS = 8_000
GROWTH_TURNS = (50, 100, 200, 400, 800)
GROWTH_RESULT_BYTES = 3_400
ENVELOPE_MESSAGES = 40
LONG_TURNS = 5_000
LONG_LOOK_TURNS = 37
CROWD_SEEDS = range(11, 15)
"""Of conversations of 1 MB that fill all caches of the process before memory is measured."""


class Ours:
    """One conversation of ours, turn by turn."""

    def __init__(self, budget_tokens: int, *, count: Count | None = None, **sections: Any) -> None:
        wanted = policies.resolve([{"budget": {"window": budget_tokens, "reserve": 0}}, sections])
        self.talk = Forgetful(wanted, count=count or TokenCounter("o200k_base"))
        self.compactions = 0

    def turn(self, new: Iterable[Json]) -> int:
        """Append *new*, come to rest, render the view; return its tokens."""
        before = self.talk.compacted
        self.talk.append(*new)
        self.talk.settle()
        seen = self.talk.view()
        assert len(seen.hash) == 64
        self.compactions += self.talk.compacted > before
        return seen.tokens

    def load(self, said: Sequence[Json]) -> None:
        """Append a whole history, as a client sends it: many messages to an envelope."""
        for start in range(0, len(said), ENVELOPE_MESSAGES):
            self.talk.append(*said[start : start + ENVELOPE_MESSAGES])
            self.talk.settle()


def cpu_ms(call: Callable[[], object]) -> float:
    """Return the CPU milliseconds of this process that *call* takes."""
    started = time.process_time_ns()
    call()
    return (time.process_time_ns() - started) / 1e6


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """What one size of history gave, CPU milliseconds."""

    turns: list[float]
    narrow: list[float]
    compacting: list[float]
    cold: list[float]
    peers: dict[str, list[float]]


def sized(size: str, names: Sequence[str]) -> Sized:
    """Measure our turn and the peers' calls at one size, by turns."""
    said = history(SIZES[size])
    ours, narrow = Ours(BUDGET_TOKENS), Ours(NARROW_TOKENS)
    cold = [cpu_ms(lambda: ours.load(said))]
    narrow.load(said)
    calls = {name: PEERS[name](said, BUDGET_TOKENS) for name in names}
    upcoming = turns(ROUNDS[size] * TURNS_PER_ROUND * max(1, len(names)) + 4, result_bytes=7_800)
    for new in (next(upcoming) for _ in range(4)):
        ours.turn(new)
        narrow.turn(new)
    found = Sized(turns=[], narrow=[], compacting=[], cold=cold, peers={name: [] for name in names})
    for call in calls.values():
        if size != "20 MB":
            call()  # lazy imports and first tables are not its turn
    gc.collect()
    gc.freeze()
    for _ in range(ROUNDS[size]):
        for name in names or ("nobody",):
            for new in (next(upcoming) for _ in range(TURNS_PER_ROUND)):
                before = ours.compactions
                found.turns.append(cpu_ms(lambda new=new: ours.turn(new)))  # type: ignore[misc]
                if ours.compactions > before:
                    found.compacting.append(found.turns[-1])
                found.narrow.append(cpu_ms(lambda new=new: narrow.turn(new)))  # type: ignore[misc]
            if name in calls:
                found.peers[name].append(cpu_ms(calls[name]))
    gc.unfreeze()
    for _ in range(1 if size == "20 MB" else 4):
        cold.append(cpu_ms(lambda: Ours(BUDGET_TOKENS).load(said)))
    return found


def turn_figures(found: Mapping[str, Sized], names: Sequence[str]) -> list[Figure]:
    """Return P1, P2, P3, P5, P6, P7 and the issue's own ratios."""
    out: list[Figure] = []
    wanted = {
        ("1 MB", "langchain trim, tiktoken"): ("P1", 50.0),
        ("1 MB", "headroom"): ("P1", 40.0),
        ("1 MB", "langchain trigger, approximate"): ("P1", 1.2),
        ("1 MB", "langchain trim, approximate"): ("P1", 1.0),
        ("20 MB", "langchain trim, tiktoken"): ("P2", 1000.0),
        ("20 MB", "headroom"): ("P2", 2500.0),
        ("20 MB", "langchain trigger, approximate"): ("P2", 10.0),
    }
    for size, one in found.items():
        ours = median(one.turns)
        for name in names:
            goal, bound = wanted.get((size, name), ("", None))
            out.append(
                Figure(
                    goal=goal,
                    what=f"turn at {size}: {name} / ours",
                    value=median(one.peers[name]) / ours,
                    bound=bound,
                    least=True,
                    detail=f"{spread(one.peers[name], unit=' ms')} / {spread(one.turns, unit=' ms')}",
                )
            )
        # a median hides that every so often a turn pays for all that leaves
        out.append(
            Figure(
                goal="",
                what=f"turn at {size}: mean with its compactions / median",
                value=sum(one.turns) / len(one.turns) / ours,
                bound=None,
                detail=f"mean {number(sum(one.turns) / len(one.turns))} ms, {len(one.compacting)} of "
                f"{len(one.turns)} turns compacted",
            )
        )
    first, last = found["50 KB"], found["20 MB"]
    narrow = f" in a window of {NARROW_TOKENS:,}"
    for what, small, large in (("", first.turns, last.turns), (narrow, first.narrow, last.narrow)):
        out.append(
            Figure(
                goal="P3",
                what=f"turn at 20 MB / turn at 50 KB{what}",
                value=median(large) / median(small),
                bound=1.2,
                detail=f"{spread(large, unit=' ms')} / {spread(small, unit=' ms')}",
            )
        )
    return out + _compactions(found)


def series_of(found: Mapping[str, Sized]) -> dict[str, list[tuple[int, float]]]:
    """Return the median milliseconds of a turn by who and by the bytes of history, for the plot."""
    out = {
        "jettison": [(SIZES[size], median(one.turns)) for size, one in found.items()],
        "jettison, 32k window": [(SIZES[size], median(one.narrow)) for size, one in found.items()],
    }
    for size, one in found.items():
        for name, spent in one.peers.items():
            out.setdefault(name, []).append((SIZES[size], median(spent)))
    return out


def _compactions(found: Mapping[str, Sized]) -> list[Figure]:
    out = []
    for size, goal, bounds in (("1 MB", "P5", (1.0, 0.45, 0.9)), ("20 MB", "P6", (0.9, 0.45, 0.2))):
        one = found[size]
        for name, bound in zip(("naive recount", "langchain trim, tiktoken", "headroom"), bounds, strict=True):
            if name in one.peers:
                out.append(
                    Figure(
                        goal=goal,
                        what=f"cold {size}, everything folded and compacted / {name}",
                        value=median(one.cold) / median(one.peers[name]),
                        bound=bound,
                        detail=f"{spread(one.cold, unit=' ms')} / {spread(one.peers[name], unit=' ms')}",
                    )
                )
    for size in ("1 MB", "20 MB"):
        one = found[size]
        for name, bound in (("langchain trim, tiktoken", 0.01), ("langchain summarization", 0.2)):
            if name in one.peers and one.compacting:
                out.append(
                    Figure(
                        goal="P7",
                        what=f"warm turn with a compaction at {size} / {name}",
                        value=median(one.compacting) / median(one.peers[name]),
                        bound=bound,
                        detail=spread(one.compacting, unit=" ms"),
                    )
                )
    return out


def visible_figures() -> list[Figure]:
    """Measure P4: a turn with a 4 KB result that stays as it is, in a wide window."""
    ours = Ours(NARROW_TOKENS, spill={"medium": 1.0})
    spent = [cpu_ms(lambda new=new: ours.turn(new)) for new in turns(240, result_bytes=3_600)]  # type: ignore[misc]
    # beside the mean of all, the turns in which no compaction fell: most of them
    late = sorted(spent[40:])[: int(0.9 * len(spent[40:]))]
    return [
        Figure(
            goal="P4",
            what="turn with a 4 KB result that stays as it is, nothing compacted",
            value=median(late),
            bound=0.25,
            unit="ms",
            detail=spread(late, unit=" ms"),
        )
    ]


def growth_figures(names: Sequence[str], *, most: int) -> list[Figure]:
    """Measure P8 and P9: the summed cost over many turns from nothing."""
    sums: dict[int, float] = {}
    ours, total = Ours(GROWTH_BUDGET_TOKENS), 0.0
    for index, new in enumerate(turns(max(GROWTH_TURNS), result_bytes=GROWTH_RESULT_BYTES), 1):
        total += cpu_ms(lambda new=new: ours.turn(new))  # type: ignore[misc]
        if index in GROWTH_TURNS:
            sums[index] = total
    first, last = GROWTH_TURNS[0], GROWTH_TURNS[-1]
    shown = ", ".join(f"{count}: {number(spent)} ms" for count, spent in sums.items())
    exponent = math.log(sums[last] / sums[first]) / math.log(last / first)
    out = [
        Figure(
            goal="P8",
            what=f"exponent of the summed cost, {first} to {last} turns",
            value=exponent,
            bound=1.15,
            unit="",
            detail=shown,
        ),
        Figure(goal="P8", what="last doubling of the turns", value=sums[last] / sums[last // 2], bound=2.3),
    ]
    for name in [one for one in ("langchain trim, tiktoken", "headroom") if one in names]:
        said: list[Json] = []
        spent = 0.0
        for new in turns(most, result_bytes=GROWTH_RESULT_BYTES):
            said += new
            spent += cpu_ms(PEERS[name](said, GROWTH_BUDGET_TOKENS))
        goal = "P9" if most in sums and most >= 400 else ""
        out.append(
            Figure(
                goal=goal,
                what=f"{most} turns in all: {name} / ours",
                value=spent / sums[most],
                bound=200.0 if goal else None,
                least=True,
                detail=f"{number(spent / 1000)} s / {number(sums[most] / 1000)} s",
            )
        )
    return out


def memory_figures() -> list[Figure]:
    """Measure P13: what a conversation keeps, what the process keeps beside it, and the most on the way.

    Tables and caches belong to the process, are bounded, and serve all its conversations: others fill them before.
    A state is measured as a worker has it: read from a snapshot, with what a view and a snapshot have left on it.
    """
    count = TokenCounter("o200k_base")
    tracemalloc.start()
    for seed in CROWD_SEEDS:
        Ours(BUDGET_TOKENS, count=count).load(history(SIZES["1 MB"], seed=seed))
    out = []
    for size, peak_max in (("1 MB", 2.0), ("20 MB", 30.0)):
        said = history(SIZES[size])
        before = _held_mb()
        tracemalloc.reset_peak()
        ours = Ours(BUDGET_TOKENS, count=count)
        ours.load(said)
        peak = tracemalloc.get_traced_memory()[1] / 1e6 - before
        kept = _state_mb(ours)
        out += [
            Figure(goal="P13", what=f"peak above a source of {size}", value=peak, bound=peak_max, unit="MB"),
            Figure(
                goal="P13",
                what=f"what a conversation keeps / source of {size}",
                value=kept / (SIZES[size] / 1e6),
                bound=0.8,
                detail=f"{number(kept)} MB; {ours.talk.state.live_tokens:,} tokens in the view",
            ),
        ]
        del said, ours
    out.append(
        Figure(
            goal="",
            what="what the process keeps for all its conversations: what was found, looked into, counted",
            value=_held_mb(),
            bound=None,
            unit="MB",
        )
    )
    tracemalloc.stop()
    return out


def _held_mb() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1e6


def _state_mb(ours: Ours) -> float:
    """Return what the state of a conversation takes."""
    kept = ours.talk.state
    raw = msgspec.msgpack.encode(kept)
    before = _held_mb()
    ours.talk.state = msgspec.msgpack.decode(raw, type=State)
    assert ours.talk.view().hash
    msgspec.msgpack.encode(ours.talk.state)
    taken = _held_mb() - before
    ours.talk.state = kept
    return taken


def long_memory_figures() -> list[Figure]:
    """Measure how a conversation's memory moves over many turns: the most of the last tenth beside the first's."""
    count = TokenCounter("o200k_base")
    tracemalloc.start()
    ours, seen = Ours(GROWTH_BUDGET_TOKENS, count=count), list[list[float]]()
    for index, new in enumerate(turns(LONG_TURNS, result_bytes=600)):
        if index % (LONG_TURNS // 10) == 0:
            seen.append([])
        ours.turn(new)
        # between two compactions it rises and falls
        if index % LONG_LOOK_TURNS == 0:
            seen[-1].append(_state_mb(ours))
    moved = Figure(
        goal="P13",
        what=f"memory in the last of {LONG_TURNS:,} turns / in the first {LONG_TURNS // 10:,}",
        value=max(seen[-1]) / max(seen[0]),
        bound=1.05,
        detail=", ".join(number(max(one)) for one in seen) + f" MB; with the process's caches {number(_held_mb())}",
    )
    tracemalloc.stop()
    return [moved]


def main() -> int:
    """Measure and print one JSON document: figures, and what could not be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["turns", "visible", "growth", "memory", "memory-long"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), help="which of the peers")
    parser.add_argument("--growth", type=int, default=400, help="turns of the peers in the sum")
    wanted = parser.parse_args()
    quieted()
    names, skipped = [], []
    for name in wanted.peers:
        try:
            PEERS[name](history(2_000), BUDGET_TOKENS)()
            names.append(name)
        except ImportError as error:
            skipped.append(Skipped(part=name, reason=f"{error}"))
    series: dict[str, list[tuple[int, float]]] = {}
    figures: list[Figure] = []
    for part in wanted.parts:
        if part == "turns":
            found = {size: sized(size, names) for size in SIZES}
            figures += turn_figures(found, names)
            series = series_of(found)
        else:
            figures += {
                "visible": visible_figures,
                "growth": lambda: growth_figures(names, most=wanted.growth),
                "memory": memory_figures,
                "memory-long": long_memory_figures,
            }[part]()
    found_all = {"figures": figures, "skipped": skipped, "series": series}
    sys.stdout.write(msgspec.json.encode(found_all).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
