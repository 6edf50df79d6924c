"""`make image`: what has to be true of the image, asked of it as it runs: no rights, nothing to write to, no shell.

Then `jettison doctor`, and one conversation by four workers, each in a container of its own, before real servers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from actors.cli.session import started_stack
from actors.host.settings import PREFIX, Settings
from protocol.client import Client
from protocol.ids import fresh_id
from protocol.login import LoginArguments
from protocol.subjects import ACTORS
from tests.promises.harness import environment

IMAGE_BYTES_MAX = 350 * 10**6
WORKS_SECONDS = 120.0
SHELLS = ("/bin/sh", "/bin/bash")

WHO = """
import json, os
def written(path):
    try:
        open(path, "w").close()
        return True
    except OSError:
        return False
def shell():
    try:
        return os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "exit 0"]) == 0
    except OSError:
        return False
places = ("/x", "/opt/jettison/x", "/usr/x", "/etc/x", "/var/x", "/tmp/x")
found = [place for place in places if written(place)]
print(json.dumps({"user": os.getuid(), "group": os.getgid(), "written": found, "shell": shell()}))
"""
"""Run by the image's own Python, where shells are hidden."""

PARTS = """
import json, re
told = json.load(open("/opt/jettison/share/sbom.cdx.json"))
print(json.dumps([re.sub("[-_.]+", "-", one["name"]).lower() + "==" + one["version"] for one in told["components"]]))
"""


class Wrong(Exception):
    """Something is not true of the image."""


class Image:
    """The image, run by an engine whose command line is podman's or docker's."""

    def __init__(self, name: str, engine: str, more: str) -> None:
        self.name, self.engine, self.more = name, shlex.split(engine), shlex.split(more)

    def command(
        self, *arguments: str, options: Sequence[str] = (), given: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the command that runs the image with *arguments*, as nobody, with a root that only reads."""
        hidden = [f"--volume=/dev/null:{shell}:ro" for shell in SHELLS]
        settings = [f"--env={name}={value}" for name, value in (given or {}).items()]
        run = ["run", "--rm", "--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=all", *hidden, *self.more]
        return [*self.engine, *run, *settings, *options, self.name, *arguments]

    def printed(self, *arguments: str, options: Sequence[str] = (), given: Mapping[str, str] | None = None) -> str:
        """Return what it prints. Raises `Wrong` where it ends with an error."""
        command = self.command(*arguments, options=options, given=given)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Wrong(f"{' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def by_python(self, code: str) -> str:
        """Return what *code* prints there."""
        return self.printed("-c", code, options=("--entrypoint=/opt/jettison/bin/python3",))

    def size(self) -> int:
        """Return its bytes, unpacked."""
        command = [*self.engine, "image", "inspect", "--format", "{{.Size}}", self.name]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def checked(image: Image) -> None:
    """Check what is true of it without any server. Raises `Wrong`."""
    size = image.size()
    print(f"{image.name}: {size / 10**6:.0f} MB, {image.printed('--version').strip()}")
    if size > IMAGE_BYTES_MAX:
        raise Wrong(f"it has {size:,} bytes, more than {IMAGE_BYTES_MAX:,}")
    who = json.loads(image.by_python(WHO))
    if who != {"user": 65532, "group": 65532, "written": ["/tmp/x"], "shell": False}:
        raise Wrong(f"not nobody, or not read-only, or with a shell: {who}")
    print("nobody (65532), nothing but /tmp can be written, and no shell is there to be run")
    parts = set(json.loads(image.by_python(PARTS)))
    if missing := [one for one in locked() if one not in parts]:
        raise Wrong(f"the list of what is in it lacks {', '.join(missing)}")
    print(f"/opt/jettison/share/sbom.cdx.json names {len(parts)} packages, all of infra/lock/image.txt among them")


def locked() -> list[str]:
    """Return the packages of the lock that this platform has, with their versions."""
    lines = Path("infra/lock/image.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if "==" in line and line[0].isalnum() and ";" not in line]


async def worked(image: Image) -> None:
    """Have four containers work on one conversation, and ask doctor. Raises `Wrong`."""
    with tempfile.TemporaryDirectory(prefix="jettison-image-") as folder:
        keys = Path(folder) / "keys"
        async with started_stack(Settings(data=folder)) as (settings, _):
            # keys are read as nobody, and the folder is mounted where Kubernetes has them
            os.chmod(folder, 0o755)
            for file in (keys, *keys.iterdir()):
                os.chown(file, 65532, 65532)
            given = {name: value for name, value in environment(settings).items() if name.startswith(PREFIX)}
            given |= {"JETTISON_DATA": "/tmp/jettison", "JETTISON_KEYS__FOLDER": "/run/secrets/keys"}
            mounted = (f"--volume={keys}:/run/secrets/keys:ro",)
            print(image.printed("doctor", options=mounted, given=given).strip())
            commands = [image.command("worker", actor, options=mounted, given=given) for actor in ACTORS]
            workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
            try:
                print(await conversation(settings.nats.url))
            finally:
                for worker in workers:
                    worker.terminate()
                codes = [worker.wait(timeout=60) for worker in workers]
        if any(codes):
            raise Wrong(f"the workers were stopped, and ended with {codes}")


async def conversation(url: str, **login: Unpack[LoginArguments]) -> str:
    """Say something too large; return what became of it. Raises `Wrong` where nothing did."""
    rows = "\n".join(f"row {number}: order {number * 7919} took {number % 97} ms" for number in range(3_000))
    async with Client.connect(url, patience=WORKS_SECONDS, **login) as client:
        talk = await client.open(f"image-{fresh_id()[:8]}", model="gpt-4o", budget=8_000)
        call = {"id": "c", "type": "function", "function": {"name": "orders", "arguments": "{}"}}
        await talk.append([{"role": "user", "content": "Which orders are slow?"}])
        await talk.append([{"role": "assistant", "content": None, "tool_calls": [call]}])
        await talk.append([{"role": "tool", "tool_call_id": "c", "content": rows}])
        context = await talk.context()
    if "read_artifact" not in str(context.messages) or context.tokens > context.budget:
        raise Wrong(f"the workers made of it {context.tokens} tokens of {context.budget}")
    return f"the workers made {context.tokens} tokens of a conversation with a result of {len(rows):,} bytes"


def main() -> int:
    """Read the command line, check."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("image")
    parser.add_argument("--engine", default="podman", help="its command; others: docker")
    parser.add_argument("--more", default="", help="options of its `run`")
    options = parser.parse_args()
    image = Image(options.image, options.engine, options.more)
    try:
        checked(image)
        asyncio.run(worked(image))
    except Wrong as error:
        print(f"WRONG: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
