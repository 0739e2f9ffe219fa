"""Print the interpreters of this machine that can run the project, the oldest first: version, a tab, path.

An interpreter counts if it is at least as new as `requires-python` says and can make a virtual environment. Those that
can't are reported on stderr. The script looks in /usr/bin, /usr/local/bin, the versions of pyenv, and PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
_NAME = re.compile(r"python3(\.\d+)?")
_QUESTION = "import sys, venv, ensurepip; print(*sys.version_info[:4])"


def candidates() -> list[Path]:
    """Return the programs called python3 or python3.N, those of the system first."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    folders = [Path("/usr/bin"), Path("/usr/local/bin"), *sorted(pyenv.glob("*/bin"))]
    # The shims of pyenv only start one of its versions.
    folders += [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name and "shims" not in name]
    return [path for folder in folders for path in sorted(folder.glob("python3*")) if _NAME.fullmatch(path.name)]


def usable(programs: list[Path]) -> dict[tuple[int, ...], Path]:
    """Return one program for each released version that can be used; report those that can't on stderr."""
    found: dict[tuple[int, ...], Path] = {}
    for program in programs:
        asked = subprocess.run([program, "-I", "-c", _QUESTION], capture_output=True, text=True, check=False)
        if asked.returncode:
            sys.stderr.write(f"not used: {program}: {(asked.stderr.strip().splitlines() or ['failed'])[-1]}\n")
            continue
        *numbers, level = asked.stdout.split()
        version = tuple(int(number) for number in numbers)
        if level == "final" and version >= OLDEST:
            found.setdefault(version, program)
    return dict(sorted(found.items()))


def main() -> int:
    """Print the interpreters; return 1 if there is none."""
    found = usable(candidates())
    for version, program in found.items():
        sys.stdout.write(f"{'.'.join(map(str, version))}\t{program}\n")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
