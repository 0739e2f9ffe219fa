"""How many examples of a property a session tries."""

from __future__ import annotations

import os
from typing import Final

IN_CI: Final = os.environ.get("CI") == "true"


def examples(number: int) -> int:
    """Return `number` in CI, and two fifths of it elsewhere: each session of a person has another seed."""
    return number if IN_CI else max(1, number * 2 // 5)
