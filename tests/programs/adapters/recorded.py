"""A recorded run as the model and the tools of any framework: what was answered is answered again."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]

RETOLD_CHARS = 4_000
LINE_CHARS = 100


class Recorded:
    """A model that follows a recording and keeps each view; a stand-in writes what a model would summarize."""

    def __init__(self, said: Sequence[Json]) -> None:
        self.instructions = "\n".join(one["content"] for one in said if one["role"] == "system")
        self.questions = [one["content"] for one in said if one["role"] == "user"]
        self.views: list[list[Json]] = []
        self.asked: list[str] = []
        self._answers = [one for one in said if one["role"] == "assistant"]
        self._results: dict[str, list[str]] = {}
        texts = {one["tool_call_id"]: one["content"] for one in said if one["role"] == "tool"}
        for call in (call for one in self._answers for call in one.get("tool_calls") or ()):
            self._results.setdefault(_key(*_called(call)), []).append(texts[call["id"]])

    @property
    def tools(self) -> list[str]:
        """Return the names of the tools that are called."""
        return sorted({call["function"]["name"] for one in self._answers for call in one.get("tool_calls") or ()})

    def answer(self, view: list[Json]) -> Json:
        """Return the next answer of the recording: `content` and `calls` (id, name, args)."""
        one = self._answers[len(self.views)]
        self.views.append(json.loads(json.dumps(view)))
        calls = [(call["id"], *_called(call)) for call in one.get("tool_calls") or ()]
        return {
            "content": one.get("content") or "",
            "calls": [{"id": ident, "name": name, "args": args} for ident, name, args in calls],
        }

    def result(self, name: str, args: Mapping[str, Any]) -> str:
        """Return what the tool *name* answered when it was called so."""
        left = self._results[_key(name, args)]
        return left.pop(0) if len(left) > 1 else left[0]

    def retold(self, prompt: str) -> str:
        """Return a summary: the newest of what is to be summarized, each line by its beginning."""
        self.asked.append(prompt)
        return "\n".join(line[:LINE_CHARS] for line in prompt.splitlines() if line.strip())[-RETOLD_CHARS:]


def main(run: Callable[[str, Recorded, Json], Coroutine[Any, Any, None]]) -> None:
    """Read the job in the file that is named, have *run* live through it with each system, and write the views."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    job = json.loads(file.read_text())
    left = {}
    for system in job["systems"]:
        recorded = Recorded(job["said"])
        asyncio.run(run(system, recorded, job))
        left[system] = {"views": recorded.views, "asked": recorded.asked}
    file.write_text(json.dumps(left))


def _called(call: Json) -> tuple[str, Json]:
    return call["function"]["name"], json.loads(call["function"]["arguments"])


def _key(name: str, args: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(args, sort_keys=True)}"
