"""Make what `compose.yaml` mounts: passwords, keys, the files of NATS, and folders for data, below `made/`.

python3 infra/compose/prepare.py [FOLDER]: no secret that is there is changed. As root, all of it belongs to 65532, the
user of the image.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATS = HERE.parent / "nats"
USERS = ("spill", "digest", "squeeze", "cut", "auditor", "operator", "gateway")
DATA = ("n1", "n2", "n3", "s3", "spans", "prometheus", "grafana")
NOBODY = 65532
TENANT = 'include "tenant.conf"'


def prepare(made: Path) -> None:
    """Fill the folder *made*; of what it has, nothing is changed."""
    for folder in ("secrets", "keys", "nats", *(f"data/{name}" for name in DATA)):
        (made / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    passwords = {name: _secret(made / "secrets" / name) for name in (*USERS, "agent", "s3_access_key", "s3_secret_key")}
    _secret(made / "keys" / "default.key")
    for name in ("prod.conf", "rights.conf", "tenant.conf", "gateway.conf"):
        shutil.copy(NATS / name, made / "nats" / name)
    rights = (NATS / "rights.conf").read_text()
    assert rights.count(TENANT) == 1
    (made / "nats" / "rights.conf").write_text(rights.replace(TENANT, f'{TENANT}\n  include "gateway.conf"'))
    _private(made / "nats.env", "".join(f"{name.upper()}_PASSWORD={passwords[name]}\n" for name in USERS))
    with (made / "nats.env").open("a") as file:
        file.write(f"AGENT_PASSWORD_default={passwords['agent']}\n")
    pair = {"AWS_ACCESS_KEY_ID": passwords["s3_access_key"], "AWS_SECRET_ACCESS_KEY": passwords["s3_secret_key"]}
    _private(made / "s3.env", "".join(f"{name}={value}\n" for name, value in pair.items()))
    _private(made / "grafana.env", f"GF_SECURITY_ADMIN_PASSWORD={_secret(made / 'secrets' / 'grafana')}\n")
    owner = os.getuid() or NOBODY
    _private(HERE / ".env" if made == HERE / "made" else made / ".env", f"OWNER={owner}:{os.getgid() or NOBODY}\n")
    if os.getuid() == 0:
        for path in (made, *made.rglob("*")):
            os.chown(path, owner, owner)


def _secret(file: Path) -> str:
    """Return what *file* holds, made if it is not there."""
    if not file.exists():
        _private(file, secrets.token_hex(32) + "\n")
    return file.read_text().strip()


def _private(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE / "made")
