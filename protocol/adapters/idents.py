"""Idents: which call a result answers, where a framework leaves ids out."""

from __future__ import annotations


class Idents:
    """The calls of one list in order: one without an id is told by its number, a result without one by its name."""

    def __init__(self) -> None:
        self._open: list[tuple[str, str]] = []
        self._number = 0

    def called(self, ident: str | None, name: str) -> str:
        """Return the id of a call of the tool *name*."""
        self._number += 1
        told = ident or f"call-{self._number}"
        self._open.append((told, name))
        return told

    def answered(self, ident: str | None, name: str) -> str:
        """Return the id of the call that a result answers, and close it; `none` where there is none."""
        same = [one for one in self._open if one[0] == ident] if ident else []
        found = same or [one for one in self._open if one[1] == name and not ident]
        if not found:
            return ident or "none"
        self._open.remove(found[0])
        return found[0][0]
