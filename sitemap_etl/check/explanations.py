"""Explanations of codes: why each one matters, an example before and after the fix, and the source of the rule."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from sitemap_etl.check.codes import CODES
from sitemap_etl.errors import ConfigError, nearest
from sitemap_etl.frozen import Frozen


class Explanation(Frozen):
    """Explanation of one code. `before` and `after` show the problem and the fix; `source` is a URL."""

    code: str
    reason: str
    before: str
    after: str
    source: str

    def to_json(self) -> dict[str, Any]:
        """Return the code with its explanation as one JSON object."""
        known = CODES[self.code]
        return {
            "code": self.code,
            "severity": known.severity,
            "effect": known.effect,
            "title": known.title,
            "reason": self.reason,
            "before": self.before,
            "after": self.after,
            "mend": known.fix,
            "source": self.source,
        }


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanation of every code, in the order of the codes."""
    table = tomllib.loads((files(__package__) / "explanations.toml").read_text("utf-8"))
    said, sources = table["codes"], table["sources"]
    return {code: _explanation(code, said[code], sources) for code in CODES}


def _explanation(code: str, said: list[str], sources: dict[str, str]) -> Explanation:
    reason, before, after, source = said
    return Explanation(code, reason, before, after, sources[source])


def explain(code: str) -> Explanation:
    """Return the explanation of a code. Raise `ConfigError` if there is no such code."""
    found = explanations().get(code)
    if found is None:
        near = nearest(code, CODES)
        hint = f"; did you mean {near}?" if near else ""
        raise ConfigError(f"--explain: check has no code {code!r}{hint}")
    return found


def explained(explanation: Explanation) -> str:
    """Return the explanation as text for a terminal."""
    known = CODES[explanation.code]
    effect = {"file": "readers can lose the whole file", "urls": "readers can lose URLs", "value": "a value is ignored"}
    return "\n".join(
        [
            f"{explanation.code}: {known.severity}, {effect[known.effect]}",
            f"  {known.title[:1].upper()}{known.title[1:]}. {explanation.reason}",
            "",
            *_block("before", explanation.before),
            *_block("after", explanation.after),
            "",
            f"  → {known.fix}",
            f"  source: {explanation.source}",
        ]
    )


def _block(name: str, text: str) -> list[str]:
    first, *rest = text.split("\n")
    return [f"  {name + ':':8}{first}", *(f"  {'':8}{line}" for line in rest)]
