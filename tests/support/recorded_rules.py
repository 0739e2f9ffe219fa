"""Rows with the recorded results of the rules.

`tests/data/rules/rows.json` is written by hand, `results.json` by `python -m tests.support.recorded_rules`. It replaces
recorded results only if the version of the rules (`transform.rules.RULES`) is new.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.config import from_json
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.transform import transform
from sitemap_etl.transform.rules import RULES

FOLDER: Final = Path(__file__).parent.parent / "data" / "rules"
ROWS: Final = FOLDER / "rows.json"
RESULTS: Final = FOLDER / "results.json"
NOW: Final = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)


def results() -> dict[str, dict[str, Any]]:
    """Return the current results of the rules by section: a result for each row, and the notes."""
    return {name: _made(name, one) for name, one in json.loads(ROWS.read_text("utf-8")).items()}


def recorded() -> dict[str, Any]:
    """Return the recorded version of the rules as `rules`, and the recorded results as `sections`."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


def differing(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each recorded result that has changed."""
    found = []
    for name, section in before.items():
        pairs = [(row, result, now[name]["rows"].get(row)) for row, result in section["rows"].items()]
        if set(section["rows"]) == set(now[name]["rows"]):
            pairs.append(("notes", section["notes"], now[name]["notes"]))
        found += [f"{name}: {row}\n    was {old}\n    is  {new}" for row, old, new in pairs if old != new]
    return found


def _made(name: str, corpus: dict[str, Any]) -> dict[str, Any]:
    site = from_json(
        {
            "name": "shop",
            "site": "https://shop.example",
            "publish": {"to": "public"},
            "urls": corpus.get("urls", {}),
            "sections": {name: {"from": {"csv": "rows.csv"}, **corpus["section"]}},
        }
    )
    robots = corpus.get("robots")
    rules = rules_of(site, site.sections[name], NOW, None if robots is None else robots.encode())
    rows = corpus["rows"]
    columns = dict.fromkeys(column for row in rows for column in row)
    table = pa.table({column: pa.array([row.get(column) for row in rows]) for column in columns})
    found = transform(table, rules, read_at=NOW, row=pa.array(range(len(rows))))
    by_row = {row.pop("row"): {k: v for k, v in row.items() if v is not None} for row in found.inventory.to_pylist()}
    for kind, aside in (("excluded", found.excluded), ("rejected", found.rejected)):
        by_row |= {row["row"]: {kind: row["reason"]} for row in aside.to_pylist()}
    written = [json.dumps(row, ensure_ascii=False) for row in rows]
    return {
        "rows": {text: json.loads(json.dumps(by_row[at])) for at, text in enumerate(written)},
        "notes": dict(sorted(found.notes.counts.items())),
    }


def main() -> int:
    """Record the results. Return 1 if some have changed although the version of the rules has not."""
    now = results()
    if RESULTS.exists() and recorded()["rules"] == RULES and (changed := differing(now, recorded()["sections"])):
        print("\n".join(changed), "\nRaise RULES in sitemap_etl/transform/rules.py first", file=sys.stderr)
        return 1
    RESULTS.write_text(json.dumps({"rules": RULES, "sections": now}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
