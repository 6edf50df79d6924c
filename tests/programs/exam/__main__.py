"""`make exam`: does somebody who sees nothing but a view know what an agent needs to go on?

Three runs of our own, each cut where the agent is about to act: `tests/data/exam/exam.json`. They are lived through
turn by turn under the default policy, without a model. Figures of strings are `make quality`; here a reader answers.

    python -m tests.programs.exam [views] --out FOLDER   views, question sheets, and what to do with them
    python -m tests.programs.exam table GRADES.json...   points by run and by kind of question
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from actors.core.extract import messages_text
from tests.programs.quality.lived import Json, tokens_of
from tests.score_adapter import Jettison

DATA = Path(__file__).resolve().parents[2] / "data"
OUT = Path("build/exam")
POINTS = (0, 0.5, 1)

TOLD = """Written to {out}: for each run NAME.view.txt (what the agent would be sent) and NAME.questions.json.

1. A reader, a person or a strong model, gets NAME.view.txt and NAME.questions.json of one run, and nothing else: not
   the run, no other view of it, no answers. Pointers cannot be followed. Who does not know says "unknown".
2. A grader gets questions, answers and notes (`tests/data/exam/exam.json`) and the reader's answers, and gives each
   1, 0.5 or 0 points by the note; a false statement is 0 and is worth a look. Another reader for each version.
3. The points go into a file, {{"NAME": [1, 0.5, ...], ...}} in the order of the questions, and
   `python -m tests.programs.exam table GRADES.json` adds up. Take the median of three readers.
"""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question; the answer and what it takes for how many points are the grader's alone."""

    kind: str
    q: str
    answer: str
    note: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded conversation up to message *cut*, the budget of its views, and what is asked."""

    file: str
    cut: int
    budget: int
    questions: tuple[Question, ...]

    @property
    def messages(self) -> list[Json]:
        """Return its messages up to the cut."""
        body = (DATA / self.file).read_bytes()
        plain = lzma.decompress(body) if self.file.endswith(".xz") else body
        found: list[Json] = json.loads(plain)["messages"]
        return found[: self.cut]


class Grades(msgspec.Struct, frozen=True, kw_only=True):
    """What readers reached, as shares of all points."""

    runs: dict[str, float]
    kinds: dict[str, float]
    all: float


def runs() -> dict[str, Run]:
    """Return the runs by name."""
    return msgspec.json.decode((DATA / "exam/exam.json").read_bytes(), type=dict[str, Run])


def view_of(run: Run) -> list[Json]:
    """Live through *run* as its agent did, and return the last view."""
    system, said = Jettison(run.budget), run.messages
    last = 0
    for place, message in enumerate(said):
        if message["role"] == "assistant":
            system.append(said[last:place])
            last = place
    system.append(said[last:])
    return system.view()


def shown(view: Sequence[Json]) -> str:
    """Return a view as a reader gets it."""
    return "\n".join(f"=== {message['role']} ===\n{messages_text(message)}" for message in view)


def written(out: Path) -> Iterator[str]:
    """Write views and sheets into *out*; yield a line for each run."""
    out.mkdir(parents=True, exist_ok=True)
    for name, run in runs().items():
        view = view_of(run)
        sheet = [{"id": number, "q": question.q} for number, question in enumerate(run.questions, 1)]
        (out / f"{name}.view.txt").write_text(shown(view), encoding="utf-8")
        text = json.dumps(sheet, ensure_ascii=False, indent=1)
        (out / f"{name}.questions.json").write_text(text, encoding="utf-8")
        size, full = tokens_of(view), tokens_of(run.messages)
        yield f"{name:8} {size:6,} of {run.budget:6,} tokens; the whole run has {full:7,}"


def graded(points: Sequence[dict[str, list[float]]]) -> Grades:
    """Add up what readers got. Raises `ValueError` where points do not fit their questions."""
    known = runs()
    by_run: dict[str, list[float]] = {}
    by_kind: dict[str, list[float]] = {}
    for one in points:
        for name, given in one.items():
            asked = known[name].questions if name in known else ()
            if len(given) != len(asked) or not set(given) <= set(POINTS):
                raise ValueError(f"{name}: {len(asked)} questions, each for 0, 0.5 or 1, and not {given}")
            by_run.setdefault(name, []).extend(given)
            for question, point in zip(asked, given, strict=True):
                by_kind.setdefault(question.kind, []).append(point)
    everything = [point for given in by_run.values() for point in given]
    if not everything:
        raise ValueError("no points")
    return Grades(
        runs={name: _mean(given) for name, given in by_run.items()},
        kinds={kind: _mean(given) for kind, given in sorted(by_kind.items())},
        all=_mean(everything),
    )


def _mean(given: Sequence[float]) -> float:
    return sum(given) / len(given)


def main() -> int:
    """Write views, or add up grades."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", nargs="?", choices=("views", "table"), default="views")
    parser.add_argument("grades", nargs="*", type=Path, help="of `table`: files of points")
    parser.add_argument("--out", type=Path, default=OUT, help=f"of `views`: a folder ({OUT})")
    wanted = parser.parse_args()
    if wanted.verb == "views":
        for line in written(wanted.out):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write(f"\n{TOLD.format(out=wanted.out)}")
        return 0
    try:
        found = graded([msgspec.json.decode(file.read_bytes(), type=dict[str, list[float]]) for file in wanted.grades])
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for name, share in {**found.runs, **{f"  {kind}": share for kind, share in found.kinds.items()}}.items():
        sys.stdout.write(f"{name:14}{share:7.1%}\n")
    sys.stdout.write(f"{'all':14}{found.all:7.1%}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
