"""Builds the sitemaps of one site from its catalogue, publishes them, and notifies search engines.

This DAG was made from one site file. A run reads the sources of its sections, lists every page once
under its canonical URL, and replaces only those published files whose contents changed.

| task | what it does |
|---|---|
| `wait` | only where a section may wait for its source: looks every five minutes, and holds no worker in between |
| `plan` | fixes what the run reads, from which published set it starts, and that no other run is at it |
| `build` | for a small site, in place of the tasks up to `render`: does all of them in one |
| `extract` | reads parts of a source, key ranges or files; makes their rows canonical, keeps rejected ones apart |
| `buckets`, `merge` | only where a section reads what changed: merge it with what earlier runs read |
| `partition` | divides the pages of each section in which something differs into groups |
| `clusters`, `collect`, `align` | only where a section has hreflang clusters: close them over the listed pages |
| `render` | writes the sitemaps of groups and finds what was added, changed and removed |
| `publish` | asks the gates (one may visit new pages), then writes new and changed files, the index, robots.txt |
| `ping` | notifies search engines of what changed |

A task costs seconds before it reads a row. So a small site (`airflow.small` in the site file: rows) is built by one
task, and those from `extract` to `render` are skipped; of a larger one `build` is. A stage is at most 256 tasks, each
of which may do several parts: its name in the grid says which.

### Starting it by hand

**Trigger** asks for these; a scheduled run has the defaults.

| parameter | |
|---|---|
| `sections` | read only these; the others stay as published. None chosen: all |
| `full` | read everything, also where a SELECT asks for what came since the last run (`:since`) |
| `dry_run` | stop before anything public is written; the log of `publish` says what would be |
| `ping` | off: search engines are notified of the changes by the next run |
| `force`, `reason` | let a gate pass that refused, such as `products.max_drop`; the reason is kept in the manifest |
| `now`, `reason` | the time of the run, such as `2026-11-20T02:00:00Z`, to repeat a run, or where clocks are wrong |
| `moved` | once, after the site or the place it is published to was changed on purpose: its state is taken along |

The same goes for REST and for `airflow dags trigger --conf`. A key that is none of these fails `plan`, and nothing
is written. A backfill is not offered, because a run reads the sources as they are now.

### When it fails

A task is retried only if something did not answer: three times, with growing pauses. Everything else fails at once,
because trying again cannot help. **The log of the failed task ends with one message**: what is wrong, where, and what
to do. In any case the published sitemaps are intact; the next run continues from them.

- **A gate refused** (`publish`): the message says how much and where, and how to look. If it is right after all,
  publish the refused run with the command it shows, or trigger a new one with `force` and `reason`.
- **A source is broken or late** (`plan`, `build`, `extract`): fix it and start a run. With `on_error: keep`,
  its section stays as published and the others go on; the log of `publish` names it.
- **An engine failed** (`ping`): the sitemaps are published. It hears of these changes with the next run.

Clearing, marking and deleting is safe at any time. Tasks of a published run that are cleared do nothing, and end as
*already published*; to publish what the sources say now, trigger a new run.

Where the site file has `notify:`, people are told of it when the run is over, once.

The log of `publish` has the counts; so has its XCom `counts`. A site file that can't be read has no DAG: the import
errors say what is wrong in it.
"""

from __future__ import annotations

from typing import Final

assert __doc__ is not None
GUIDE: Final = __doc__
"""The page of a site's DAG in Airflow."""
