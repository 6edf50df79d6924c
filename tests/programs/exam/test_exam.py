"""The exam's own parts: runs, sheets without answers, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.formats.validate import problems
from tests.programs.exam.__main__ import graded, runs, written
from tests.programs.quality.lived import tokens_of

KINDS = {"task", "constraint", "state", "value", "cause", "failure", "decision", "next"}


def test_each_run_is_a_whole_conversation_with_ten_questions() -> None:
    for name, run in runs().items():
        said = run.messages
        assert said[-1]["role"] == "user", name
        assert problems(said) == [], name
        assert tokens_of(said) > 1.5 * run.budget, name
        assert len(run.questions) == 10
        assert {question.kind for question in run.questions} >= KINDS


def test_a_reader_gets_a_view_within_its_budget_and_no_answer(tmp_path: Path) -> None:
    lines = list(written(tmp_path))
    assert len(lines) == len(runs())
    for name, run in runs().items():
        sheet = json.loads((tmp_path / f"{name}.questions.json").read_text())
        assert [sorted(one) for one in sheet] == [["id", "q"]] * 10
        view = (tmp_path / f"{name}.view.txt").read_text()
        assert run.messages[-1]["content"] in view
        assert not any(question.answer in view for question in run.questions)


def test_points_are_added_up_by_run_and_by_kind() -> None:
    found = graded([{"tally": [1] * 10}, {"fest": [0, 0.5] * 5}])
    assert (found.runs["tally"], found.runs["fest"], found.all) == (1.0, 0.25, 0.625)
    assert set(found.kinds) == KINDS
    wrongs: list[dict[str, list[float]]] = [{"tally": [1] * 9}, {"tally": [2] * 10}, {"nobody": [1]}, {}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"questions|no points"):
            graded([wrong])
