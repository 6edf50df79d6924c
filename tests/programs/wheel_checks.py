"""The finished wheel: twine, check-wheel-contents, pyright, and an install on each Python from 3.11 to 3.13.

    .venv-checks/bin/python -m tests.programs.wheel_checks [PYTHON …]

Needs nothing but the environment `.venv-checks`, and an index for the four packages that the wheel asks for.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("python3.11", "python3.12", "python3.13")
IMPORT_SECONDS_MAX = 0.25
IMPORTS = 5
"""Of which the fastest counts: others use the machine too."""
WANTED = {"cryptography", "jettison-client", "msgspec", "nats-py", "opentelemetry-api"}
BROUGHT = {"cffi", "pycparser", "pip", "setuptools", "typing-extensions", "importlib-metadata", "zipp"}
"""What these ask for themselves."""
ADAPTERS = [
    "**/adapters",
    *(f"**/{one.name}" for one in (ROOT / "protocol").glob("*.py") if "Unpack[Options]" in one.read_text()),
]
"""Whose frameworks are not there; mypy looks at them where they are."""
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FACE = "import jettison_client.sync; from jettison_client import Client, FolderKeys, Rejected, Unavailable"


def run(*command: str | Path, quiet: bool = True) -> str:
    """Return what *command* prints; end with what it says where it fails."""
    ran = subprocess.run([str(one) for one in command], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def installed(python: str, wheel: Path, folder: Path) -> Path:
    """Install the wheel into a fresh environment of *python*; return that one's Python."""
    run(python, "-m", "venv", folder)
    ours = folder / "bin" / "python"
    run(ours, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel)
    run(ours, "-m", "pip", "--disable-pip-version-check", "check")
    listed = json.loads(
        run(ours, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json").partition("\n")[0]
    )
    names = {one["name"].lower().replace("_", "-") for one in listed}
    assert names >= WANTED, names
    assert names <= WANTED | BROUGHT, names - WANTED - BROUGHT
    seconds = min(imported(ours) for _ in range(IMPORTS))
    assert seconds < IMPORT_SECONDS_MAX, f"the import takes {seconds:.3f} s"
    version = run(ours, "--version").strip()
    print(f"{version}: installed with {len(names & BROUGHT)} packages of others, imported in {seconds:.3f} s")
    return ours


def imported(python: Path) -> float:
    """Return the seconds of CPU that an import of the face takes, beside those of an empty program."""
    timed = "import time; begun = time.process_time(); {}; print(time.process_time() - begun)"
    return float(run(python, "-c", timed.format(FACE)))


def typed(python: Path, folder: Path) -> None:
    """Have pyright look at the package, and, in its strict mode, at the examples of the page."""
    text = (ROOT / "infra" / "docs" / "client.md").read_text(encoding="utf-8")
    body = "\n".join(EXAMPLE.findall(text)).replace("\n", "\n    ")
    (folder / "examples.py").write_text(f"async def main() -> None:\n    {body}\n", encoding="utf-8")
    (package,) = python.parents[1].glob("lib/python*/site-packages/jettison_client")
    for include, mode in ((package, "standard"), (folder / "examples.py", "strict")):
        config = folder / "pyrightconfig.json"
        where = {"venvPath": str(folder), "venv": python.parents[1].name}
        # an example shows what a call returns, and need not use it
        strict = {"typeCheckingMode": mode, "pythonVersion": "3.11", "reportUnusedVariable": False}
        looked = {"include": [str(include)], "exclude": ADAPTERS, "ignore": []}
        config.write_text(json.dumps({**looked, **where, **strict}))
        said = run(Path(sys.executable).with_name("basedpyright"), "-p", config, "--level", "error")
        print(f"pyright, {mode}, {include.name}: {said.strip().splitlines()[-1]}")


def main(pythons: list[str]) -> None:
    """Check all of it; print what was seen."""
    (wheel,) = (ROOT / "dist").glob("jettison_client-*.whl")
    beside = Path(sys.executable).parent
    run(beside / "twine", "check", "--strict", *(ROOT / "dist").glob("jettison_client-*"))
    run(beside / "check-wheel-contents", wheel)
    print(f"{wheel.name}: twine and check-wheel-contents find no fault")
    with tempfile.TemporaryDirectory() as temporary:
        folder, tried = Path(temporary), list[Path]()
        for number, python in enumerate(pythons):
            found = shutil.which(python)
            if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
                print(f"{python}: is not here, and was not tried")
                continue
            tried.append(installed(found, wheel, folder / f"env{number}"))
        assert tried, "no Python was tried"
        typed(tried[0], folder)


if __name__ == "__main__":
    main(sys.argv[1:] or [*PYTHONS])
