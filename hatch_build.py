"""The part of the build that is our own: a wheel contains the kernels, compiled.

SITEMAP_ETL_WHEEL names the wheel:

(not set)          for this machine, with its C compiler (CC); a pure wheel if there is none
x86_64, aarch64    for Linux on this architecture, with ziglang, which compiles for both and for a glibc of 2012
pure               for any machine: without the kernels

A platform wheel is `py3-none-…`, because the kernels are loaded by ctypes. Its tag follows from the library: it names
the newest version of glibc whose symbols the library needs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST: Final = 17
"""The minor version of the glibc that zig compiles for, and the lowest that a tag names: manylinux2014."""
MACHINES: Final = ("x86_64", "aarch64")


class Kernels(BuildHookInterface):
    """Adds the compiled kernels to a wheel, and gives the wheel the tag of its platform."""

    scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels. An editable installation gets them from `python -m sitemap_etl.kernels`."""
        wanted = os.environ.get("SITEMAP_ETL_WHEEL", "")
        if wanted not in ("", "pure", *MACHINES):
            raise ValueError(f"SITEMAP_ETL_WHEEL={wanted}: expected pure, {', '.join(MACHINES)} or nothing")
        own = sysconfig.get_platform()
        if version == "editable" or wanted == "pure" or not (wanted or own.startswith("linux-")):
            return
        library = _module(Path(self.root) / "sitemap_etl" / "kernels" / "library.py")
        self.scratch = tempfile.TemporaryDirectory(prefix="sitemap-etl-kernels-")
        made = Path(self.scratch.name, "kernels.so")
        try:
            compiler = _zig(wanted) if wanted else library.own_compiler()
            library.compile_library(compiler, made, {**os.environ, "ZIG_GLOBAL_CACHE_DIR": self.scratch.name})
            data = made.read_bytes()
            if not wanted:
                ctypes.CDLL(str(made))  # can it be loaded?
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            if wanted:
                raise
            self.app.display_warning(f"The wheel has no kernels ({error}): runs give the same without, more slowly")
            return
        platform = f"linux-{wanted}" if wanted else own
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_tag(platform, data)}"
        build_data["force_include"][str(made)] = f"sitemap_etl/kernels/{library.name_of(platform, data)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the library, which is in the wheel by now."""
        if self.scratch is not None:
            self.scratch.cleanup()


def _module(path: Path) -> ModuleType:
    """Return a module of the project without importing its package, whose dependencies the build lacks."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _zig(machine: str) -> list[str]:
    """Return the command that compiles for any processor of an architecture, without a byte that names this machine."""
    target = f"{machine}-linux-gnu.2.{OLDEST}"
    return [sys.executable, "-m", "ziglang", "cc", "-target", target, "-fno-sanitize=undefined", "-s"]


def _tag(platform: str, library: bytes) -> str:
    """Return the platform tag of a library: `manylinux_2_17_x86_64`, or `linux_x86_64` if it needs no glibc."""
    machine = platform.removeprefix("linux-")
    needed = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
    return f"manylinux_2_{max(OLDEST, *needed)}_{machine}" if needed else f"linux_{machine}"
