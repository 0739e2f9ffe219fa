"""Compile the kernels with the C compiler of this machine: `python -m sitemap_etl.kernels`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sitemap_etl import kernels
from sitemap_etl.kernels.library import compile_library, own_compiler


def main() -> int:
    """Compile the kernels. Return 0 if they were compiled, 1 if not."""
    folder = kernels.folder()
    try:
        compiler = own_compiler()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".kernels-") as scratch:
            made = Path(scratch) / "kernels.so"
            compile_library(compiler, made)
            kernels.Kernels(made)  # can it be loaded?
            target = made.replace(folder / kernels.name_of(made.read_bytes()))
    except (OSError, ValueError, subprocess.CalledProcessError, AttributeError) as error:
        sys.stderr.write(f"the kernels were not compiled ({error}): runs give the same without them, more slowly\n")
        return 1
    for former in folder.glob(f"{kernels.PLATFORM}-*.so"):
        if former != target:
            with suppress(OSError):  # another one is never loaded
                former.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
