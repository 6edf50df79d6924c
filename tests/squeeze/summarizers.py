"""Models by the script: a good one, and the kinds of bad ones that squeeze meets."""

from __future__ import annotations

import re
from collections.abc import Callable

from actors.squeeze.decide import WORDS_PER_TOKEN, Ask
from tests.builders import COUNT

_VALUE = re.compile(r"[\w.~/:@=#?&%+\-]*[\d/_@][\w.~/:@=#?&%+\-]*\w")
_PATH = re.compile(r"[\w.-]*/[\w./-]+\w")
_RULE = re.compile(
    r"[^.\n]*\b(?:must|never|always|only|decided|should|muss|nie)\b[^.\n]*(?:\.\S[^.\n]*)*\.?", re.IGNORECASE
)


def history_of(asked: Ask) -> str:
    """Return what stands between the fences."""
    _, _, rest = asked.user.partition(">\n")
    return rest.rpartition("\n</history")[0]


def extractive(asked: Ask) -> str:
    """Keep the rules and as many values of the input as there is room for, the newest first to be kept."""
    history = history_of(asked)
    kept = [" ".join(found.split()) for found in dict.fromkeys(_RULE.findall(history))]
    words = int(asked.system.rpartition("at most ")[2].split()[0])
    room = int(words / WORDS_PER_TOKEN) - COUNT("\n".join(kept))
    values: list[str] = []
    for value in reversed(dict.fromkeys(_VALUE.findall(history))):
        room -= COUNT(f" {value}") if len(value) > 3 else 0
        if room > 0 and len(value) > 3:
            values.insert(0, value)
    return "Summary.\n" + "\n".join(kept) + "\n" + " ".join(values)


def naming(asked: Ask) -> str:
    """Name the newer half of the paths in the input."""
    found = list(dict.fromkeys(_PATH.findall(history_of(asked))))
    return "The agent worked on these files: " + " ".join(found[len(found) // 2 :])


def lossy(asked: Ask) -> str:
    """Say little, and none of the values."""
    return "The user asked for several things, and the assistant worked on them with its tools."


def echoing(asked: Ask) -> str:
    """Say what was given."""
    return history_of(asked)


def half_echoing(asked: Ask) -> str:
    """Say the first half of what was given."""
    return history_of(asked)[: len(history_of(asked)) // 2]


def looping(asked: Ask) -> str:
    """Say the same line again and again."""
    return "The order is being looked at by the assistant now.\n" * 40


def instructed(asked: Ask) -> str:
    """Say the instructions."""
    return asked.system


def over_long(asked: Ask) -> str:
    """Say ten times as much as was asked for, all of it different."""
    return " ".join(f"note{number}" for number in range(asked.tokens_max * 10))


def thinking(asked: Ask) -> str:
    """Think, and say nothing."""
    return f"<think>{extractive(asked)}"


BAD: tuple[Callable[[Ask], str], ...] = (lossy, echoing, half_echoing, looping, instructed, over_long, thinking)
