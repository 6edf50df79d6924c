"""Summary: what a run came to, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tests.programs.chaos.watch import Growth

VIOLATIONS_SHOWN = 50


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """How long calls took, in milliseconds."""

    calls: int
    p50: float = 0.0
    mean: float = 0.0
    p99: float = 0.0

    def __str__(self) -> str:
        """Return it for people."""
        return f"p50 {self.p50:.0f} ms, mean {self.mean:.0f} ms, p99 {self.p99:.0f} ms" if self.calls else "never"


def spent(seconds: Sequence[float]) -> Spent:
    """Return how long calls took that took *seconds*."""
    if not seconds:
        return Spent(calls=0)
    ordered = sorted(one * 1000 for one in seconds)
    return Spent(
        calls=len(ordered),
        p50=ordered[len(ordered) // 2],
        mean=sum(ordered) / len(ordered),
        p99=ordered[len(ordered) * 99 // 100],
    )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    seed: int
    seconds: int
    turns: int
    """Each with a view that was checked when it came."""
    conversations: int
    """Each followed along its chain and decided again at its end."""
    contexts_rebuilt: int
    """Byte for byte from the log: every `ContextServed` of every conversation."""
    commits: int
    messages: int
    retired: int
    """Conversations that were removed from the servers after that."""
    thieves: int
    """One in the account of each tenant; what one has of another tenant is a violation."""
    thieves_heard: int
    thieves_asked: int
    faults: dict[str, int]
    put_back: dict[str, int]
    """Streams that a killed server did not know any more, which the operator put back (`operations.md`)."""
    appending: Spent
    asking: Spent
    levels: dict[str, int]
    pointers_read: int
    retries: dict[str, int]
    model_requests: int
    largest_mb: dict[str, float]
    growths: list[Growth]
    violations: list[str]

    def table(self) -> str:
        """Return it for people."""
        heard = f"{self.thieves_heard:,} of their own tenants, and {self.thieves_asked:,} questions in vain"
        rows = {
            "seed": self.seed,
            "turns, each with a checked view": f"{self.turns:,}",
            "conversations, each replayed": self.conversations,
            "contexts rebuilt byte for byte": f"{self.contexts_rebuilt:,}",
            "commits of unbroken chains": f"{self.commits:,}",
            "messages acknowledged": f"{self.messages:,}",
            "time": f"{self.seconds // 60:02}:{self.seconds % 60:02}",
            "faults": _counts(self.faults),
            "lost streams put back": _counts(self.put_back),
            "appending": self.appending,
            "asking for a view": self.asking,
            "levels of the views": _counts(self.levels),
            "pointers read back": self.pointers_read,
            "calls made again": _counts(self.retries),
            "requests to the model": self.model_requests,
            "conversations retired": self.retired,
            "heard by thieves": heard,
            "most memory, MB": _counts({name: round(mb) for name, mb in self.largest_mb.items()}),
            "violations": len(self.violations),
        }
        lines = [f"{name:32} {value}" for name, value in rows.items()]
        lines += ["", "with full caches, after a fifth of its life, and at the end:"] if self.growths else []
        lines += [growth.line() for growth in self.growths]
        return "\n".join((*lines, *self.violations[:VIOLATIONS_SHOWN]))


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(found.items())) or "none"
