"""A process that has imported everything and collected all tests: it tries each mutant in a fork of itself.

The fork transplants the mutant: changed functions run the mutant's code, and the module's values are replaced wherever
they are referred to. So a mutant costs its tests, but no imports.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

MEMORY = 16 << 30
"""Bytes of address space for one mutant."""
NOWHERE = 71
"""The code with which a child ends in which the mutant has no effect on anything that was imported."""


class Keeper:
    """Takes orders, one JSON object per line, and answers each with one; the first answer says that it is ready.

    `module`, `source`: the mutant, or neither. `tests`: run them until one fails or, with `all`, to the end.
    `busy`, `wait`: seconds of processor time, and of real time, that this may take.
    """

    def __init__(self, orders: int, answers: int, folder: Path) -> None:
        self.orders = os.fdopen(orders)
        self.answers = os.fdopen(answers, "w")
        self.folder = folder
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._answer({"tests": len(items)})
        for line in self.orders:
            order = json.loads(line)
            tests = [items[test] for test in order["tests"] if test in items]
            self._answer(self._carry_out(order, tests))
        return True

    def _answer(self, answer: Mapping[str, Any]) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()

    def _carry_out(self, order: Mapping[str, Any], tests: list[pytest.Item]) -> dict[str, Any]:
        read, write = os.pipe()
        process = os.fork()
        if not process:
            os.close(read)
            self._child(order, tests, write)
        os.close(write)
        ended = _ends(process, order["wait"])
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # also servers that a test left behind
        code = ended if ended is not None else os.waitpid(process, 0)[1]
        with os.fdopen(read) as said:
            failed = said.read().splitlines()
        for path in self.folder.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        hangs = ended is None or (os.WIFSIGNALED(code) and os.WTERMSIG(code) == signal.SIGXCPU)
        return {"failed": failed, "hangs": hangs, "code": os.waitstatus_to_exitcode(code)}

    def _child(self, order: Mapping[str, Any], tests: list[pytest.Item], said: int) -> None:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            busy = int(time.process_time() + order["busy"]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (busy, busy + 60))
            module = sys.modules.get(order["module"])  # one that nothing has imported is read from its file later
            if module is not None and not transplant(module, order["source"]):
                os._exit(NOWHERE)
            for item, following in zip(tests, [*tests[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed and not order["all"]:
                    break
            os.write(said, "\n".join(self.failed).encode())
            code = 1 if self.failed else 0
        finally:
            os._exit(code)


def _ends(process: int, wait: float) -> int | None:
    """Return the status of a child that ends in time."""
    until = time.monotonic() + wait
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    return None


def transplant(module: types.ModuleType, source: str) -> int:
    """Make a module that others have imported behave as if it had been written as `source`.

    Return the number of things that were changed.
    """
    new = types.ModuleType(module.__name__)
    new.__dict__.update({name: getattr(module, name, None) for name in ("__file__", "__package__", "__spec__")})
    sys.modules[module.__name__] = new  # what dataclasses look up
    try:
        exec(compile(source, module.__file__ or "", "exec"), new.__dict__)
    finally:
        sys.modules[module.__name__] = module
    done = 0
    for name, value in new.__dict__.items():
        if not name.startswith("__") and name in module.__dict__:
            done += _take_over(module, name, module.__dict__[name], value)
    return done


def _take_over(module: types.ModuleType, name: str, old: Any, new: Any) -> int:
    """Return how many things were changed for one name of a module."""
    if isinstance(old, type) and isinstance(new, type):
        return _take_class(old, new) if old.__module__ == module.__name__ else 0
    functions = list(zip(_functions(old), _functions(new), strict=False))
    if functions:
        return sum(_take_function(one, other) for one, other in functions)
    if type(old) is not type(new) or isinstance(old, types.ModuleType) or _alike(old, new):
        return 0
    for other in [each for key, each in sys.modules.items() if key.partition(".")[0] in ("tests", "sitemap_etl")]:
        if other.__dict__.get(name) is old:
            setattr(other, name, new)
    return 1


def _take_class(old: type, new: type) -> int:
    done = 0
    for name, value in new.__dict__.items():
        there = old.__dict__.get(name)
        functions = list(zip(_functions(there), _functions(value), strict=False))
        done += sum(_take_function(one, other) for one, other in functions)
        plain = isinstance(value, bool | int | float | str | tuple) or value is None
        if not functions and plain and name in old.__dict__ and not name.startswith("__") and there != value:
            setattr(old, name, value)
            done += 1
    for name, entry in getattr(new, "__dataclass_fields__", {}).items():
        before = getattr(old, "__dataclass_fields__", {}).get(name)
        if before is not None and not _alike(before.default, entry.default):
            before.default = entry.default
            done += 1
    return done


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Return the functions that a name of a module or a class refers to, without their wrappers."""
    if isinstance(value, property):
        for each in (value.fget, value.fset):
            yield from _functions(each)
    elif isinstance(value, classmethod | staticmethod):
        yield from _functions(value.__func__)
    elif isinstance(value, cached_property):
        yield from _functions(value.func)
    elif hasattr(value, "__wrapped__"):
        yield from _functions(value.__wrapped__)
    elif isinstance(value, types.FunctionType):
        yield value


def _take_function(old: types.FunctionType, new: types.FunctionType) -> int:
    if old.__module__ != new.__module__ or old.__code__.co_freevars != new.__code__.co_freevars:
        return 0
    defaults = _alike(old.__defaults__, new.__defaults__) and _alike(old.__kwdefaults__, new.__kwdefaults__)
    if old.__code__ == new.__code__ and defaults:
        return 0
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return 1


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values look the same. Addresses of objects are ignored."""
    if one is other:
        return True
    return type(one) is type(other) and _shown(one) == _shown(other)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return repr({key: _shown(each) for key, each in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return repr(sorted(map(_shown, value)) if isinstance(value, set | frozenset) else list(map(_shown, value)))
    if isinstance(value, types.FunctionType):
        return repr(value.__code__.co_code) + repr(value.__code__.co_consts)
    return repr(value.tolist()) if hasattr(value, "tolist") else repr(value).partition(" at 0x")[0]


def main() -> None:
    orders, answers, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        temporary = Path(folder) / "t"
        temporary.mkdir()
        keeper = Keeper(int(orders), int(answers), temporary)
        options = ["-q", "-s", "-p", "no:cacheprovider", f"--basetemp={temporary}"]
        pytest.main([*options, *files], plugins=[keeper])


if __name__ == "__main__":
    main()
