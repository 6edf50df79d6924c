"""`python -m tests.programs.advisories`: what is known against the locked dependencies, by the advisories of OSV.

Exit code 0: nothing is known; 1: something is; 4: no database answered, so nothing is known of anything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "infra" / "lock"
AUDITOR = ROOT / ".venv-audit" / "bin" / "pip-audit"
SECONDS = 300.0
UNREACHED = 4


def main() -> int:
    """Look at each lock file."""
    codes = [_looked_at(lock) for lock in sorted(LOCKS.glob("*.txt"))]
    return UNREACHED if UNREACHED in codes else max(codes)


def _looked_at(lock: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [str(AUDITOR), "--requirement", str(lock), "--require-hashes", "--disable-pip"]
        command += ["--vulnerability-service", "osv", "--progress-spinner", "off"]
        command += ["--format", "json", "--output", str(found)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return _told(lock, f"NOT AUDITED: no database of advisories answered in {SECONDS:.0f} s", UNREACHED)
        if not found.exists():
            why = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            return _told(lock, f"NOT AUDITED: no database of advisories was reached ({why[:200]})", UNREACHED)
        packages = json.loads(found.read_bytes())["dependencies"]
    known = [(one, each) for one in packages for each in one.get("vulns", ())]
    for one, each in known:
        fixed = ", ".join(each["fix_versions"]) or "no version"
        _told(lock, f"{one['name']} {one['version']}: {each['id']}, mended in {fixed}", 1)
    return _told(lock, f"{len(packages)} packages, {len(known)} advisories", 1 if known else 0)


def _told(lock: Path, text: str, code: int) -> int:
    sys.stdout.write(f"{lock.relative_to(ROOT)}: {text}\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
