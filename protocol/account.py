"""The account of a run: what a digest of form 2 or 3 holds. A step once written only becomes coarser."""

from __future__ import annotations

import msgspec


class Trim(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A part that was shortened in place, and the text that stands there now."""

    number: int
    pointer: str
    text: str
    tokens: int


class AccountAct(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One tool call of a step: what was called, and what came of it, both shortened for people."""

    call: str
    outcome: str = ""
    changes: bool = False
    """It changed something: a file, a record, a setting."""
    failed: bool = False
    used: int = 0
    """Words of the outcome that the assistant used afterwards."""
    target: str = ""
    """What it was about: a path, else the beginning of a command or of the first argument."""
    times: int = 1
    """Calls that it stands for."""
    instructs: bool = False
    """Its outcome is from a file that tells agents what to do, or the report of another agent."""


class AccountStep(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the assistant said and did in the messages *first* to *last*."""

    first: int
    last: int
    said: str = ""
    acts: tuple[AccountAct, ...] = ()
    level: int = 0
    """How coarse it is; 0 is the finest, and it never becomes finer."""
    speaker: str = ""
    """The name of the assistant, where several speak."""


class AccountRequest(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What a user said in message *number*."""

    number: int
    text: str
    speaker: str = ""
    """The user's name, where one is given."""
    again: int = 0
    """How often it was said again, word for word."""
    again_last: int = 0
    """The newest message that said it again."""


class AccountValue(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A value that message *number* had, and the *text* that it stood in there."""

    number: int
    value: str
    text: str


class Account(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A digest of form 2 or 3: what was asked and what was done, in order, and values that no step tells."""

    requests: tuple[AccountRequest, ...] = ()
    steps: tuple[AccountStep, ...] = ()
    requests_left_out: int = 0
    """How many of what the user said there was no room for."""
    left_out_through: int = 0
    """The newest of them."""
    values: tuple[AccountValue, ...] = ()
    """Those that stand nowhere else in the account."""
