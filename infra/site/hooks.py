"""What the site has beside the pages of `infra/docs`: README, the promises, and each file that a page links to.

Links that lead out of `infra/docs` are turned so that they stay inside the site. Nothing is read from a network.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ELSEWHERE = {"index.md": "README.md", "promises.md": "tests/promises/README.md"}
"""Pages that stand outside of `infra/docs`, by their name in the site."""
BY_BENCH = ("performance.jsonl", "performance-trend.svg")
"""What `make bench` writes beside its page; the first run begins them."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
NAMED = re.compile(r"`(?:infra/docs/)?([a-z-]+)\.md`")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
DRAWING = '<pre class="mermaid">'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages need and `infra/docs` has not."""
    for name, path in ELSEWHERE.items():
        files.append(File.generated(config, name, content=_text(path)))
    static = ROOT / "actors" / "page" / "static"
    files.append(File.generated(config, "assets/jettison.svg", content=(static / "jettison.svg").read_bytes()))
    for name, path in {"site.css": HERE / "site.css", "iframe-worker.js": HERE / "iframe-worker-1.0.4.js"}.items():
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(path)))
    files.append(File.generated(config, "assets/mermaid.js", abs_src_path=str(_mermaid())))
    for name in BY_BENCH:
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=""))
    for path in sorted(_linked_sources(files)):
        files.append(File.generated(config, f"source/{path}.md", content=_as_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links out of `infra/docs` into links within the site, and named pages into links."""
    here = page.file.src_uri
    if here.startswith("source/"):
        return markdown
    parts = FENCED.split(markdown)
    return "".join(part if number % 2 else _turned(part, here, files) for number, part in enumerate(parts))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Add what draws, 3.5 MB, to the pages with drawings alone; the theme would fetch it from a network."""
    if DRAWING not in output:
        return output
    up = "../" * page.file.dest_uri.count("/")
    return output.replace("</body>", f'<script src="{up}assets/mermaid.js"></script></body>', 1)


def _turned(text: str, here: str, files: Files) -> str:
    def link(found: re.Match[str]) -> str:
        said, target, anchor = found[1], found[2], found[3] or ""
        if ":" in target:
            return found[0]
        return f"[{said}]({_relative(_in_site(_in_repository(here, target)), here)}{anchor})"

    def name(found: re.Match[str]) -> str:
        wanted = f"{found[1]}.md"
        if files.get_file_from_path(wanted) is None or wanted == here:
            return found[0]
        return f"[{found[0]}]({_relative(wanted, here)})"

    # names first, and only those that are not the words of a link already
    text = re.sub(rf"(?<!\[){NAMED.pattern}(?!\])", name, text)
    return LINK.sub(link, text)


def _in_repository(here: str, target: str) -> str:
    """Return the path below the repository that *target* of the page *here* means."""
    written_in = ELSEWHERE.get(here, f"infra/docs/{here}")
    return os.path.normpath(os.path.join(os.path.dirname(written_in), target))


def _in_site(path: str) -> str:
    for name, elsewhere in ELSEWHERE.items():
        if path == elsewhere:
            return name
    if path.startswith("infra/docs/"):
        return path.removeprefix("infra/docs/")
    return f"source/{path}.md"


def _relative(target: str, here: str) -> str:
    return os.path.relpath(target, os.path.dirname(here) or ".")


def _linked_sources(files: Files) -> set[str]:
    """Return the files outside of `infra/docs` that a page links to."""
    found = set()
    for file in files.documentation_pages():
        for _, target, _ in LINK.findall(FENCED.sub("", file.content_string)):
            path = _in_repository(file.src_uri, target) if ":" not in target else ""
            if path and _in_site(path).startswith("source/") and (ROOT / path).is_file():
                found.add(path)
    return found


def _as_page(path: str) -> str:
    kind = {".py": "python", ".mjs": "javascript", ".toml": "toml", ".yaml": "yaml"}.get(Path(path).suffix, "text")
    return f"# `{path}`\n\n`````{kind}\n{_text(path)}\n`````\n"


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _mermaid() -> Path:
    package = find_spec("mermaidx")
    assert package is not None, "run `make docs`"
    assert package.origin is not None
    return Path(package.origin).parent / "assets" / "mermaid.js"
