"""Documents that repeat the code are compared with it; `.venv/bin/python -m tests.test_docs` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actors.core.flow import mermaid
from tests.walkthrough import walkthrough

ROOT = Path(__file__).parents[1]
WRITTEN: dict[str, tuple[str, Callable[[], str]]] = {
    "flow": ("README.md", lambda: f"```mermaid\n{mermaid()}\n```"),
    "walkthrough": ("infra/docs/architecture.md", walkthrough),
}
"""By name: the document, and what stands in it between the comments of that name."""


def anew(text: str, name: str, wanted: str) -> str:
    """Return a document with what the code says today."""
    opens = f"<!-- {name}: written by `.venv/bin/python -m tests.test_docs`, compared by a test -->"
    closes = f"<!-- /{name} -->"
    before, found, rest = text.partition(opens)
    _, ended, after = rest.partition(closes)
    assert found, f"the comment {opens} is gone"
    assert ended, f"the comment {closes} is gone"
    return f"{before}{opens}\n{wanted}\n{closes}{after}"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_document_repeats_is_what_the_code_says(name: str) -> None:
    file, wanted = WRITTEN[name]
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text == anew(text, name, wanted()), "run `.venv/bin/python -m tests.test_docs`"


if __name__ == "__main__":
    for name, (file, wanted) in WRITTEN.items():
        path = ROOT / file
        path.write_text(anew(path.read_text(encoding="utf-8"), name, wanted()), encoding="utf-8")
