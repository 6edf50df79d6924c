"""Documents that repeat the code are compared with it; `python -m tests.test_docs` writes them anew."""

from __future__ import annotations

from pathlib import Path

from actors.core.flow import mermaid

README = Path(__file__).parents[1] / "README.md"
OPENS = "<!-- flow: written by `python -m tests.test_docs`, compared by a test -->"
CLOSES = "<!-- /flow -->"


def with_flow(text: str) -> str:
    """Return the README with the diagram that the table gives."""
    before, _, rest = text.partition(OPENS)
    _, _, after = rest.partition(CLOSES)
    return f"{before}{OPENS}\n```mermaid\n{mermaid()}\n```\n{CLOSES}{after}"


def test_the_diagram_in_the_readme_is_the_flow_table() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_flow(text), "run `python -m tests.test_docs`"


if __name__ == "__main__":
    README.write_text(with_flow(README.read_text(encoding="utf-8")), encoding="utf-8")
