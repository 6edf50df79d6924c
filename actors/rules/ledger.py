"""Ledger: what must outlive every summary, kept outside of it; bounded, and ranked by use and recency."""

from __future__ import annotations

from protocol.facts import DigestItem

from .extract import score

LEDGER_ITEMS_MAX = 1000


def remembered(ledger: tuple[DigestItem, ...], changes: tuple[DigestItem, ...]) -> tuple[DigestItem, ...]:
    """Return *ledger* after *changes*, the newer in place of the older; over the bound the least worthy go."""
    found = {(item.category, item.value): item for item in ledger}
    for item in changes:
        found.pop((item.category, item.value), None)
        if not item.gone:
            found[item.category, item.value] = item
    if len(found) <= LEDGER_ITEMS_MAX:
        return tuple(found.values())
    newest = max(item.number for item in found.values())
    ranked = sorted(found.values(), key=lambda item: (-score(item, newest), -item.number, item.category, item.value))
    kept = {(item.category, item.value) for item in ranked[:LEDGER_ITEMS_MAX]}
    return tuple(item for key, item in found.items() if key in kept)
