"""Late imports: a module of others that runs at its first use, where who imports it seldom needs it.

`importlib.util.LazyLoader` does not do: the second `import` of its module asks it for `__spec__`, and runs it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

_replacing = Lock()


class Late(ModuleType):
    """Stands for a module until something of it is asked for, and passes on to it from then on."""

    def __getattr__(self, name: str) -> Any:
        with _replacing:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def run_at_first_use(name: str) -> None:
    """Have the top module *name* run when something of it is asked for; one that is not installed stays missing."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None:
        sys.modules[name] = Late(name)
        sys.modules[name].__spec__ = spec
