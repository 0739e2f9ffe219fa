"""What is published, how this run differs from it, whether it may be published, and in which order."""

from sitemap_etl.manifest.diff import Compared, Dating, compare
from sitemap_etl.manifest.gates import Counts, Gate, Thresholds, evaluate, one_date
from sitemap_etl.manifest.model import Entry, File, Index, Manifest, Retired, SectionState, manifest_key, same_set

__all__ = [
    "Compared",
    "Counts",
    "Dating",
    "Entry",
    "File",
    "Gate",
    "Index",
    "Manifest",
    "Retired",
    "SectionState",
    "Thresholds",
    "compare",
    "evaluate",
    "manifest_key",
    "one_date",
    "same_set",
]
