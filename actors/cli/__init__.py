"""The command line. Data goes to stdout, logs and progress to stderr.

Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 verification found a difference, 4 a service is not
reachable, a port is taken or a tenant's key is not here, 5 verification found it repaired and sound since, 6 NATS
refuses this user or what it asked for, 130 interrupted (143 by a second SIGTERM). Heavy modules are imported by the
command that needs them.
"""

from __future__ import annotations

import logging
import os
import sys

from .late_imports import run_at_first_use

# nats-py imports it for WebSockets only: 0.3 s of each command, and of each process that replays
run_at_first_use("aiohttp")

FAILED, WRONG_USAGE, MISMATCH, UNREACHABLE, REPAIRED, NOT_PERMITTED = 1, 2, 3, 4, 5, 6


def main() -> None:
    """Run the command line and exit with its code."""
    from .app import app

    # who started it may have closed them
    sys.stdout, sys.stderr = sys.stdout or open(os.devnull, "w"), sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    sys.exit(run(app))


def run(app: object) -> int:
    """Run *app* and turn errors into exit codes and one clear sentence."""
    import typer
    from typer.exceptions import TyperException

    from protocol.errors import BadId, JettisonError, NotPermitted, Unavailable, in_words

    try:
        outcome = app(standalone_mode=False)  # type: ignore[operator]
    except JettisonError as error:
        from .terminal_text import named

        _failed(named(str(error)))
        if isinstance(error, NotPermitted):
            return NOT_PERMITTED
        if isinstance(error, BadId):
            return WRONG_USAGE  # nobody but who typed it names a conversation here
        return UNREACHABLE if isinstance(error, Unavailable) else FAILED
    except OSError as error:
        _failed(in_words(error))
        return FAILED
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("jettison: interrupted\n")
        return 130
    except TyperException as error:
        # usage errors show themselves with the command's own help; only their base class is public
        show = getattr(error, "show", None)
        if show is None:
            sys.stderr.write(f"jettison: {error}\n")
        else:
            show()
        return WRONG_USAGE
    return outcome if isinstance(outcome, int) else 0


def _failed(text: str) -> None:
    """Write why a command failed to stderr; as an entry of the log, where that is read by machines."""
    handlers = logging.getLogger().handlers
    if any(type(handler.formatter).__name__ == "LogLines" for handler in handlers):
        logging.getLogger("jettison.said").critical("%s", text)
    else:
        sys.stderr.write(f"jettison: {text}\n")
