"""Which files a command line writes."""

from __future__ import annotations

import pytest

from actors.digest.written_files import FILES_MAX, files_written, shell_of, without_way


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
        ("cat > /tmp/fix.sed <<'E'\ns/a/b/\nE", []),
        ("cat > \"src/app.py\" <<'E'\nx\nE\npython src/app.py", ["src/app.py"]),
        ("cat > src/save.py <<'E'\nopen('prod.json', 'w')\nE", ["src/save.py"]),
        ('echo hi > "$OUT"\npytest -q', []),
        ("echo hi > logs/run_$i.log", []),
        ("sed -i -E 's/a/b/' src/app.py", ["src/app.py"]),
        ("sed -i s/foo/bar/g src/app.py", ["src/app.py"]),
        ("sed -i '' -e 's/a/b/' src/app.py", ["src/app.py"]),
        ("sed -n 's/a/b/p' src/app.py", []),
        ("perl -pi -e 's/a/b/' src/app.py", ["src/app.py"]),
        ("perl -i -pe 's/a/b/' src/app.py", ["src/app.py"]),
        ("make &> build.log; echo hi>out.txt", ["build.log", "out.txt"]),
        ('bc <<< "3"\necho x > b.txt', ["b.txt"]),
        ("cat > e.txt <<EOF\nEOF\necho x > b.txt", ["e.txt", "b.txt"]),
        ("cat > a.sh <<'END-OF-FILE'\nfoo > bar.log\nEND-OF-FILE", ["a.sh"]),
        ("apply_patch <<'E'\n*** Begin Patch\n*** Update File: src/a.py\n*** End Patch\nE", ["src/a.py"]),
        ("bash -lc 'cd app && cat > src/a.py <<E\nx\nE'", ["src/a.py"]),
        ("grep -rn \"open('data.csv', 'w')\" src", []),
        ('psql -c "DELETE FROM t WHERE total > price"', []),
        ("p='a.txt'; python - <<'E'\np='a.txt'; s=open(p).read(); p='b.txt'\nopen(p,'w')\nE", ["b.txt"]),
        ("echo it's > a.txt", []),
        ("cat a.txt > /dev/null > /tmp/x", []),
        ("type a.txt > nul & dir > NUL", []),
        ("sbatch -p <GROUP> -J beam run.sh", []),
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


HOSTILE = ["<<A", "<<'A'\n", "'\"", "open(a,'w'", "a.write_text(", "sed -i a ", "> a", '"\\', "bash -c ", "> a;", "\\"]
HOSTILE += ["sed -" + "i" * 99, "cat <<A\n", "python -c 'open(a,", "$(", "((", "<<"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_commands_are_read_in_time(hostile: str) -> None:
    files_written(hostile * 10_000)


@pytest.mark.parametrize(
    ("command", "kept", "gone"),
    [
        ("bash -lc 'rm -rf build && mv a b'", "rm -rf build", "''"),
        ("ssh host 'sudo systemctl restart nginx'", "restart", "''"),
        ("psql db <<'SQL'\nDELETE FROM users;\nSQL", "DELETE FROM users", "SQL;"),
        ("git commit -m 'set the lamp'", "commit", "lamp"),
        ("python3 - <<'E'\nrows.update(add=1)\nE", "python3", "update"),
        ("echo it's", "echo it's", ""),
    ],
)
def test_a_shell_reads_no_texts_but_those_that_are_commands(command: str, kept: str, gone: str) -> None:
    words = shell_of(command)
    assert kept in words
    assert not gone or gone not in words


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("cd /srv/data/projects/welpy && grep -n focus", "cd …/welpy && grep -n focus"),
        ('cd "D:\\One Drive - x\\agente-rag" && pytest -x', "cd …/agente-rag && pytest -x"),
        ("cd '/srv/data/projects/my plant/'; make", "cd …/my plant ; make"),
        ("cd ~/projects/plant/front && npm test", "cd …/front && npm test"),
        ("cd /srv/plant && make", "cd /srv/plant && make"),
        ("cd front && npm test", "cd front && npm test"),
        ("cd /srv/plant", "cd /srv/plant"),
        ("make && cd /srv/plant && make", "make && cd /srv/plant && make"),
        ("cd", "cd"),
    ],
)
def test_of_the_way_to_a_folder_its_last_name_is_told(line: str, short: str) -> None:
    assert without_way(line) == short


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["/", "a/", " ", "\\", "a ", "'", '"'])
def test_a_long_way_is_read_in_time(piece: str) -> None:
    without_way(f"cd {piece * 100_000}")
    without_way(f'cd "{piece * 100_000}')
