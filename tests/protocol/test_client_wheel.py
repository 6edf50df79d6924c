"""What agents install: the client alone, under a name that clashes with nobody."""

import ast
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import protocol
from protocol import errors

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "infra" / "sdk"
IMPORT_NAMES = {
    "nkeys": "nkeys",
    "cryptography": "cryptography",
    "agent-framework-core": "agent_framework",
    "autogen-agentchat": "autogen_agentchat",
    "autogen-core": "autogen_core",
    "crewai": "crewai",
    "google-adk": "google",
    "google-genai": "google",
    "haystack-ai": "haystack",
    "langchain": "langchain",
    "langchain-core": "langchain_core",
    "langgraph": "langgraph",
    "llama-index-core": "llama_index",
    "msgspec": "msgspec",
    "nats-py": "nats",
    "openai-agents": "agents",
    "opentelemetry-api": "opentelemetry",
    "pydantic": "pydantic",
    "pydantic-ai-slim": "pydantic_ai",
    "strands-agents": "strands",
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, the client wheel from it, and unzip that; nothing is downloaded, nothing is installed."""
    folder = tmp_path_factory.mktemp("client")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(SDK)]
    built = subprocess.run(build, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("jettison_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_client_runs_where_nothing_else_of_ours_is(unpacked: Path) -> None:
    # -S skips the .pth file of the editable install, through which `protocol` could be found by mistake.
    code = (
        "import sys\n"
        f"sys.path[:0] = [{str(unpacked)!r}]\n"
        f"sys.path += [{sysconfig.get_path('purelib')!r}, {sysconfig.get_path('platlib')!r}]\n"
        "import jettison_client\n"
        "assert 'nats' not in sys.modules, 'who reads one fact needs no client'\n"
        "from jettison_client import Client, FolderKeys\n"
        "assert isinstance(Client, type), Client\n"
        "assert FolderKeys.__module__ == 'jettison_client.keys', FolderKeys\n"
        "ours = {'actors', 'protocol', 'storage'} & set(sys.modules)\n"
        "assert not ours, ours\n"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=unpacked, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_public_face_is_the_client_its_keys_and_every_error() -> None:
    defined = {name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)}
    assert set(protocol.__all__) == {"Client", "FolderKeys", *defined}
    assert {name for name in protocol.__all__ if isinstance(getattr(protocol, name), type)} == set(protocol.__all__)
    assert set(protocol.__all__) <= set(dir(protocol))
    with pytest.raises(AttributeError, match="has no attribute 'Clients'"):
        protocol.Clients  # noqa: B018


def test_an_agents_process_loads_nothing_heavy(unpacked: Path) -> None:
    # what encrypts and what signs is loaded by who needs it; aiohttp is nats-py's own wish, where an agent has it
    heavy = ("aiohttp", "cryptography", "nkeys", "opentelemetry.sdk", "pydantic", "openai", "boto3", "tiktoken", "yaml")
    code = (
        "import sys\n"
        f"sys.path[:0] = [{str(unpacked)!r}]\n"
        f"sys.path += [{sysconfig.get_path('purelib')!r}, {sysconfig.get_path('platlib')!r}]\n"
        "sys.modules['aiohttp'] = None\n"
        "import jettison_client.sync\n"
        "from jettison_client import Client, FolderKeys\n"
        f"print([name for name in {heavy!r} if sys.modules.get(name)])\n"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=unpacked, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[]\n", "")


def test_client_wheel_holds_the_protocol_and_nothing_else(unpacked: Path) -> None:
    inside = {str(path.relative_to(unpacked / "jettison_client")) for path in files(unpacked / "jettison_client")}
    source = {str(path.relative_to(ROOT / "protocol")) for path in files(ROOT / "protocol")}
    assert inside == source | {"LICENSE"}
    assert {path.name.split("-")[0] for path in unpacked.iterdir()} == {"jettison_client"}
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    wanted = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra)", metadata.read_text(), re.MULTILINE)
    assert sorted(wanted) == ["cryptography", "msgspec", "nats-py", "opentelemetry-api"]


def test_client_wheel_declares_what_it_imports() -> None:
    project = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    allowed = {IMPORT_NAMES[re.split(r"[<>=~!\[ ]", requirement)[0]] for requirement in declared}
    imported = {
        name.split(".")[0]
        for file in files(ROOT / "protocol")
        if file.suffix == ".py"
        for name in absolute_imports(file)
    }
    assert imported - set(sys.stdlib_module_names) <= allowed


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def absolute_imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
    return found
