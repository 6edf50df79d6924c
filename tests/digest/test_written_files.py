"""Which files a command line writes."""

from __future__ import annotations

import pytest

from actors.digest.written_files import FILES_MAX, files_written


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cat > plan/move.py <<'PY'\nif a > b: print('x > y')\nPY\npython3 plan/move.py", ["plan/move.py"]),
        ("cat <<EOF >> notes.md\none > two\nEOF", ["notes.md"]),
        ("mkdir -p out && sha256sum *.csv | tee out/sums.txt", ["out/sums.txt"]),
        ("sed -i 's/a > b/c/' src/app.py src/b.py && git diff", ["src/app.py", "src/b.py"]),
        ("make 2>/dev/null >build.log 2>&1", ["build.log"]),
        ("python3 - <<'P'\np='out/report.py'; s=open(p).read()\nopen(p,'w').write(s)\nP", ["out/report.py"]),
        ("python3 -c \"open('a.txt', 'w').write('x')\"", ["a.txt"]),
        ("python3 - <<'P'\nfrom pathlib import Path\nq = Path('b.txt')\nq.write_text('x')\nP", ["b.txt"]),
        ("python3 - <<'P'\nPath('c.txt').write_text('x')\nopen('d.txt').read()\nP", ["c.txt"]),
        ("cat > /tmp/fix.py <<'E'\nopen('a.ts', 'w')\nE\npython /tmp/fix.py", ["a.ts"]),
        ("cat > /tmp/fix.sed <<'E'\ns/a/b/\nE", ["/tmp/fix.sed"]),
        ("awk '$4 > 500' nginx.log | sort -n | head -5", []),
        ("grep -n 'x->y' a.c; test 3 -gt 2 && echo yes", []),
        ("ls -la 2>/dev/null; cat a.txt", []),
        ("git commit -m 'a -> b'", []),
        ("python3 - <<'P'\nopen(name, 'w')\nP", []),
        ("", []),
    ],
)
def test_the_files_that_a_command_writes_are_named(command: str, files: list[str]) -> None:
    assert files_written(command) == files


def test_of_many_files_a_few_are_named() -> None:
    assert len(files_written("; ".join(f"echo {at} > f{at}.txt" for at in range(20)))) == FILES_MAX


@pytest.mark.parametrize("hostile", ["<<A", "<<'A'\n", "'\"", "open(a,'w'", "a.write_text(", "sed -i a ", "> a", '"\\'])
def test_hostile_commands_are_read_in_time(hostile: str) -> None:
    files_written(hostile * 10_000)
