"""Every module can be imported, in any interpreter, without deprecation warnings."""

from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import importlib, importlib.util, pkgutil, sys, warnings
import sitemap_etl

left_out = () if importlib.util.find_spec("airflow") else ("sitemap_etl.airflow",)
for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, SyntaxWarning):
    warnings.filterwarnings("error", category=category, module=r"sitemap_etl(\\.|$)")
count = 0
for module in pkgutil.walk_packages(sitemap_etl.__path__, "sitemap_etl."):
    if not module.name.startswith(left_out or "-") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        count += 1
print(count)
"""


def test_every_module_is_imported_without_deprecation_warnings() -> None:
    command = [sys.executable, "-B", "-c", IMPORT_ALL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 100
