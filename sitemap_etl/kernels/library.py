"""The compiled library: its source, its compiler and its file name.

This module imports only the standard library: `hatch_build.py` loads it by its path to compile the library for a wheel.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("kernels.c")
# For any machine of this architecture: several machines can share the disk, and a wheel is for all of them.
_FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared")


def prefix(platform: str) -> str:
    """Return the beginning of the names of all libraries for a platform of `sysconfig.get_platform`."""
    return f"kernels-{platform}"


def name_of(platform: str, library: bytes) -> str:
    """Return the name of a library: its platform, and the hashes of its source and its bytes."""
    source, own = (hashlib.sha256(data).hexdigest()[:16] for data in (SOURCE.read_bytes(), library))
    return f"{prefix(platform)}-{source}-{own}.so"


def own_compiler() -> list[str]:
    """Return the command of this machine's C compiler, which CC names. Raise ValueError if CC can't be split."""
    return shlex.split(os.environ.get("CC", "cc"))


def compile_library(compiler: Sequence[str], made: Path, environ: Mapping[str, str] | None = None) -> None:
    """Compile the source into the file `made`.

    Raise OSError if the compiler can't be started, and CalledProcessError if it fails.
    """
    # The user or the build chose the compiler.
    subprocess.run([*compiler, *_FLAGS, "-o", str(made), str(SOURCE)], check=True, env=environ)  # noqa: S603
