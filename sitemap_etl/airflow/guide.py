"""Build the sitemaps of one site from its catalog, publish them, and notify search engines.

This DAG was created from one site file. A run reads the sources of all sections and lists every page once, under its
canonical URL. It replaces only published files whose content changed.

| task | |
|---|---|
| `wait` | waits for sources; checks them every five minutes, and occupies no worker between checks |
| `plan` | plans the run, and makes sure that no other run is in progress |
| `build` | for a small site: does the work of all tasks from `extract` to `render` |
| `extract` | reads parts of a source, normalizes their rows, and separates rejected ones |
| `buckets`, `merge` | for incremental sections: merge changed rows with the rows of earlier runs |
| `decide`, `retransform` | find the changed sections, and also normalize those of their rows that are unchanged |
| `partition` | divides the pages of changed sections into groups |
| `clusters`, `collect`, `align` | for sections with hreflang: complete the clusters over all listed pages |
| `render` | writes the sitemap files of groups, and finds added, changed and removed pages |
| `publish` | checks the gates, then writes new and changed files, the index and robots.txt |
| `ping` | notifies search engines of the changes |

A DAG has only the tasks that its site needs. Each task costs a few seconds, so a small site is built by the task
`build`, and the tasks from `extract` to `render` are skipped. The key `airflow.small` of the site file sets the limit,
in rows. Larger sites skip `build`. Each stage has at most 256 tasks. The name of a task in the grid shows its parts.

### Trigger a run by hand

**Trigger** shows a form. A scheduled run uses the defaults.

| parameter | |
|---|---|
| `sections` | read only these sections; the others stay as published (default: all) |
| `full` | read everything, even if a SELECT names `:since` |
| `dry_run` | publish nothing; the log of `publish` shows the changes |
| `ping` | if off, the next run notifies search engines of these changes |
| `force`, `reason` | override gates, such as `products.max_drop`; the manifest records the reason |
| `now`, `reason` | set the time of the run, such as `2026-11-20T02:00:00Z` |
| `moved` | once, after `site` or `publish` was changed on purpose: take over the state |

The REST API and `airflow dags trigger --conf` accept the same keys. An unknown key fails `plan`, and nothing is
written. Backfills are not available, because a run reads its sources as they are now.

### If a run fails

A task is retried only if something did not respond: three times by default, with growing pauses. Other failures end the
run at once. **The log of the failed task ends with one message**: the problem, the object, and the next step. The
published sitemaps are intact, and the next run continues from them.

- **A gate refused the run** (`publish`): the message shows the change, and how to look at it. If the change is right,
  trigger a new run with the `force` that the message names and a `reason`, or publish this run with its command.
- **A source is broken or late** (`plan`, `build`, `extract`): fix it and trigger a run. With `on_error: keep`, its
  section is kept as published and the others are updated; the log of `publish` names it.
- **An engine failed** (`ping`): the sitemaps are published. The next run notifies the engine of these changes.

You can clear, mark and delete tasks and runs at any time. Cleared tasks of a published run do nothing, and end as
*already published*. To publish the current data, trigger a new run.

If the site file has `notify:`, one alert is sent when the run has ended.

The counts are in the log of `publish` and in its XCom `counts`. A site file with a mistake has no DAG. Its mistakes are
shown as import errors.
"""

from __future__ import annotations

from typing import Final

assert __doc__ is not None
GUIDE: Final = __doc__
"""Documentation of a site's DAG in Airflow."""
