"""Freed memory: kept for the next request, instead of given back to the system and asked for again."""

from __future__ import annotations

import ctypes
import sys

KEPT_BYTES = 64 * 2**20

BLOCK_BYTES = 32 * 2**20
"""Larger blocks go back at once; the C library takes no more here."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of glibc's `malloc.h`."""


def keep_freed_memory() -> bool:
    """Let this process keep `KEPT_BYTES` that it freed; false where its C library has no such setting.

    A request of a megabyte takes a few blocks of its size and frees them again. Where each goes back to the system, 550
    pages are asked for anew by the next request, which costs as much as all else that a bypass does (measured).
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another library than glibc
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_MMAP_THRESHOLD, BLOCK_BYTES))
