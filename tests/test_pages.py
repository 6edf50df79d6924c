"""What a reader copies or follows is there: links, commands with their options, Python that compiles."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer.main

from actors.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "tests" / "promises" / "README.md", *(ROOT / "infra" / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s:]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|\A)((?: {4}[^\n]*\n|\n)+)")
NAMED = re.compile(r"`(?:infra/docs/)?([a-z-]+\.md)`")

PIPED_TO = {"grep", "head", "jq", "less", "tail"}
BY_BENCH = {"performance.jsonl", "performance-trend.svg"}
"""What `make bench` writes beside the page; the first run of a machine begins them."""


def anchors(page: Path) -> set[str]:
    """Return what a link may name behind `#`."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def typed(page: Path) -> list[str]:
    """Return the lines of commands that stand in code blocks of *page*, without their remarks."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for _, kind, body in FENCE.findall(text) if kind in ("", "sh", "shell", "console")]
    blocks += INDENTED.findall(FENCE.sub("", text))
    lines = (line.strip().removeprefix("$ ") for block in blocks for line in block.replace("\\\n", " ").splitlines())
    return [re.split(r"  +#| # ", line)[0].strip() for line in lines]


def flags_of(command: Any) -> set[str]:
    """Return the options that *command* takes."""
    return {"--help", *(flag for one in command.params for flag in (*one.opts, *one.secondary_opts))}


def unknown_in(line: str) -> list[str]:
    """Return the commands and options of a *line* that there are not; `a|b` and ` | ` part what may be typed."""
    wrong = []
    for part in re.split(r" \| (?=[a-z])| && ", line):
        if part.split()[0] in PIPED_TO:
            continue
        words = part.removeprefix(".venv/bin/").removeprefix("jettison ").split(" -- ")[0].split()
        command: Any = typer.main.get_command(app)
        while words and hasattr(command, "commands") and not words[0].startswith("-"):
            names = words.pop(0).split("|")
            wrong += [f"{part}: {name}" for name in names if name not in command.commands]
            command = command.commands.get(names[0], command)
        flags = re.findall(r"(?<![\w-])--[a-z0-9-]+", " ".join(words))
        wrong += [f"{part}: {flag}" for flag in flags if flag not in flags_of(command)]
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = []
    for target, anchor in LINK.findall(re.sub(r"`[^`]*`", "", text)):
        there = (page.parent / target).resolve() if target else page
        if there.name in BY_BENCH:
            continue
        if not there.exists() or (anchor and there.suffix == ".md" and anchor[1:] not in anchors(there)):
            missing.append(f"{target}{anchor}")
    missing += [name for name in NAMED.findall(text) if not (ROOT / "infra" / "docs" / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_there_with_their_options(page: Path) -> None:
    ours = [line for line in typed(page) if line.startswith(("jettison ", ".venv/bin/jettison "))]
    assert [wrong for line in ours for wrong in unknown_in(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_compiles(page: Path) -> None:
    for _, kind, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            compile(textwrap.dedent(body), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            assert inspect.cleandoc(body)


def test_the_site_has_a_place_for_every_page() -> None:
    nav = (ROOT / "infra" / "site" / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = {page.name for page in PAGES if page.parent == ROOT / "infra" / "docs"}
    assert {name for name in pages if f": {name}\n" not in nav} == set()
