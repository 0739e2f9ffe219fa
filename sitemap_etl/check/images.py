"""What can be wrong with image elements (Google: image sitemaps)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.check.urlset import Entries, check_order, check_strangers
from sitemap_etl.limits import IMAGES_PER_PAGE, NS_IMAGE

_REMOVED: Final = ("caption", "geo_location", "title", "license")
ABSOLUTE: Final = r"^(?i)https?://[^/?#]"


def check_images(scan: Scan, found: Entries, faults: Faults) -> None:
    """Report faults of the images of all entries."""
    ids = scan.ids(NS_IMAGE)
    if not len(ids):
        return
    elements, page = scan.children(found.elements, ids)
    is_image = np.isin(scan.name[elements], scan.ids(NS_IMAGE, "image"))
    check_strangers(scan, elements[~is_image], faults)
    images, page = elements[is_image], page[is_image]
    many = np.bincount(page, minlength=len(found.elements)) > IMAGES_PER_PAGE
    faults.rows("image-too-many", many, found.loc, found.at)
    parts, owner = scan.children(images)
    removed = np.isin(scan.name[parts], scan.ids(NS_IMAGE, *_REMOVED))
    for number in np.unique(scan.name[parts[removed]]).tolist():
        chosen = parts[scan.name[parts] == number]
        name = scan.names[number].written
        faults.add("image-obsolete", at=int(scan.start[chosen[0]]), example=f"<{name}>", count=len(chosen), detail=name)
    is_loc = np.isin(scan.name[parts], scan.ids(NS_IMAGE, "loc"))
    check_strangers(scan, parts[~removed & ~is_loc], faults)
    check_order(scan, parts, owner, np.where(is_loc, 0, 1), faults, repeatable=(1,))
    lacking = np.ones(len(images), bool)
    lacking[owner[is_loc]] = False
    faults.rows("image-no-loc", lacking, None, scan.start[images])
    texts = pc.utf8_trim_whitespace(scan.text(parts[is_loc]))
    relative = pc.invert(pc.match_substring_regex(texts, ABSOLUTE))
    faults.rows("image-loc", relative, texts, scan.start[parts[is_loc]])
