"""Layouts of product exports of shop systems and of a crawler, each with the SELECT that turns its rows into pages.

SQL texts name columns in braces, in any case and punctuation; `{Image - #}` are all columns that end with a number. Of
several texts, the first one whose columns all exist is used; of conditions, all of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sitemap_etl.dialects import DUCKDB
from sitemap_etl.frozen import Frozen

_NAMED: Final = re.compile(r"\{([^{}]+)\}")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BATCH: Final = "\n  "


class Layout(Frozen):
    """Export layout of a system. `signs`: sets of columns. Each one identifies the system.

    `loc`, `title`, `images`: values of a page. `rows`: the relation to select from. `where`, `having`: conditions.
    `group`: expression that groups rows into pages. `hints`: notes for the user.
    """

    system: str
    signs: tuple[tuple[str, ...], ...]
    loc: tuple[str, ...]
    title: tuple[str, ...]
    images: tuple[str, ...] = ()
    rows: str = "source"
    where: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    """Notes for the user if the last way to build an address is used."""


def _slug(name: str) -> str:
    """Return SQL that turns a name into the end of an address, as WordPress and PrestaShop do."""
    kept = rf"regexp_replace(lower(strip_accents({name})), '[^\pL\pN_\s/.-]', '', 'g')"
    return rf"trim(regexp_replace({kept}, '[\s/.-]+', '-', 'g'), '-')"


def _ordered(image: str, place: str) -> tuple[str, str]:
    """Return SQL for all images of a group, ordered by their position if there is such a column."""
    there = f"FILTER (WHERE nullif({image}, '') IS NOT NULL)"
    by_place = f"list({image} ORDER BY try_cast({place} AS INTEGER), {image})\n    {there}"
    return by_place, f"list({image} ORDER BY {image})\n    {there}"


def _media(images: str) -> str:
    """Return SQL for Magento's images from paths that are separated by commas."""
    address = "CASE WHEN regexp_matches(x, '^(https?:)?//') THEN x ELSE '/media/catalog/product/' || ltrim(x, '/') END"
    paths = f"[trim(y) FOR y IN string_split({images}, ',')]"
    return f"[{address}\n    FOR x IN {paths}\n    IF x NOT IN ('', 'no_selection')]"


def _filled_only(value: str) -> str:
    return f"nullif({value}, '')"


_VARIATION: Final = "lower({Type}) LIKE '%variation%'"
_WITH_IMAGES: Final = "FILTER (WHERE nullif({Images}, '') IS NOT NULL)"
_WOO_KEY: Final = "coalesce(nullif({SKU}, ''), 'id:' || {ID}, {Name})"
_BIG_IMAGES: Final = ("{Internal Image URL (Export)}", "{Image URL (Import)}", "{Variant Image URL}")
_UNDER_PRODUCTS: Final = """(
  SELECT *, count(*) FILTER (WHERE lower(trim({Item})) = 'product')
    OVER (ROWS UNBOUNDED PRECEDING) AS product
  FROM source
)"""
"""BigCommerce's rows with the number of the product that they follow."""
_STORED: Final = """[CASE WHEN regexp_matches(x, '^(https?:/)?/') THEN x ELSE '/product_images/' || x END
    FOR x IN [{Product Image File - #}] IF nullif(x, '') IS NOT NULL]"""
_NO: Final = "('0', '-1', '2', 'false', 'no', 'n', 'falsch', 'faux', 'falso', 'onwaar', 'fałsz')"
"""Values for unpublished products, of the systems and of spreadsheets in other languages. Magento writes 2."""

LAYOUTS: Final = (
    Layout(
        "Shopify",
        signs=(
            ("Handle", "Image Src"),
            ("Handle", "Variant SKU"),
            ("Handle", "Body (HTML)"),
            ("Handle", "Option1 Name"),
            ("URL handle", "Title"),
        ),
        loc=("'/products/' || {Handle}", "'/products/' || {URL handle}"),
        title=("max({Title})",),
        images=(*_ordered("{Image Src}", "{Image Position}"), *_ordered("{Product image URL}", "{Image position}")),
        where=("{Handle} <> ''", "{URL handle} <> ''"),
        group=("{Handle}", "{URL handle}"),
        having=(
            f"coalesce(lower(max({{Published}})), '') NOT IN {_NO}",
            f"coalesce(lower(max({{Published on online store}})), '') NOT IN {_NO}",
            "coalesce(nullif(lower(max({Status})), ''), 'active') = 'active'",
        ),
        hints=("the rows of a product are its variants and images; drafts and unpublished products are left out",),
    ),
    Layout(
        "WooCommerce",
        signs=(
            ("Type", "SKU", "Name", "Published", "Visibility in catalog"),
            ("Type", "SKU", "Name", "Published", "Regular price"),
            ("ID", "Type", "Name", "Published", "Images"),
        ),
        loc=(
            f"max({{Permalink}}) FILTER (WHERE NOT {_VARIATION})",
            f"max({{Product URL}}) FILTER (WHERE NOT {_VARIATION})",
            f"max({{URL}}) FILTER (WHERE NOT {_VARIATION})",
            f"max('/product/' || {{Slug}} || '/') FILTER (WHERE NOT {_VARIATION} AND {{Slug}} <> '')",
            f"max('/product/' || {_slug('{Name}')} || '/') FILTER (WHERE NOT {_VARIATION})",
        ),
        title=(f"max({{Name}}) FILTER (WHERE NOT {_VARIATION})",),
        images=(
            f"list({{Images}} ORDER BY {_VARIATION}, try_cast({{ID}} AS BIGINT), {{Images}}) {_WITH_IMAGES}",
            f"list({{Images}} ORDER BY {_VARIATION}, {{Images}}) {_WITH_IMAGES}",
        ),
        group=(
            f"CASE WHEN {_VARIATION} THEN {{Parent}} ELSE {_WOO_KEY} END",
            f"CASE WHEN {_VARIATION} THEN {{Parent}} ELSE coalesce(nullif({{SKU}}, ''), {{Name}}) END",
            _WOO_KEY,
            "coalesce(nullif({SKU}, ''), {Name})",
            "{ID}",
        ),
        having=(
            f"bool_or(NOT {_VARIATION} AND coalesce(lower({{Published}}), '') NOT IN {_NO})",
            f"bool_or(NOT {_VARIATION} AND coalesce(lower({{Visibility in catalog}}), '') <> 'hidden')",
        ),
        hints=("variations are part of their product; drafts and hidden products are left out",),
        guessed=(
            "the export has no addresses: they are made of the names as WordPress does, which is a guess",
            "export the permalinks too, or have some pages visited: gates: {pages: {sample: 200}}",
        ),
    ),
    Layout(
        "Magento",
        signs=(
            ("sku", "url_key", "product_type"),
            ("sku", "url_key", "attribute_set_code"),
            ("sku", "url_key", "product_online"),
            ("sku", "url_key", "base_image"),
        ),
        loc=(
            f"'/' || coalesce(nullif({{url_key}}, ''), {_slug('{name}')}) || '.html'",
            "'/' || {url_key} || '.html'",
        ),
        title=("{name}",),
        images=(
            _media("concat_ws(',', {base_image}, {additional_images})"),
            _media("coalesce({base_image}, '')"),
            _media("coalesce({additional_images}, '')"),
        ),
        where=(
            "coalesce({store_view_code}, '') = ''",
            f"coalesce({{product_online}}, '') NOT IN {_NO}",
            "coalesce({visibility}, '') <> 'Not Visible Individually'",
        ),
        hints=(
            "rows of single store views, disabled products and those not visible individually are left out",
            "addresses end in .html unless the shop has another suffix for product URLs",
            "a product without url_key gets one made of its name, as Magento does",
        ),
    ),
    Layout(
        "PrestaShop",
        signs=(
            ("Image URLs (x,y,z...)", "Name *"),
            ("Active (0/1)", "Name *"),
            ("Active (0/1)", "Image URLs (x,y,z...)"),
        ),
        loc=tuple(
            f"'/' || {{{number}}} || '-' || {end} || '.html'"
            for end in (
                f"coalesce(nullif({{URL rewritten}}, ''), {_slug('{Name *}')})",
                f"coalesce(nullif({{Rewritten URL}}, ''), {_slug('{Name *}')})",
                _slug("{Name *}"),
            )
            for number in ("Product ID", "ID")
        ),
        title=("{Name *}",),
        images=("{Image URLs (x,y,z...)}",),
        where=(
            f"coalesce(lower({{Active (0/1)}}), '') NOT IN {_NO}",
            "coalesce(lower({Visibility}), '') <> 'none'",
            "coalesce(lower({Visbility}), '') <> 'none'",
        ),
        hints=(
            "inactive and hidden products are left out",
            "addresses are /ID-name.html: if the shop puts a category before it, add it in the SELECT",
        ),
    ),
    Layout(
        "BigCommerce",
        signs=(("Item", "Product URL", "Name"), ("Item", "Product URL", "Is Visible")),
        loc=("max({Product URL}) FILTER (WHERE lower(trim({Item})) = 'product')",),
        title=("max({Name}) FILTER (WHERE lower(trim({Item})) = 'product')",),
        images=(
            *_ordered(f"coalesce({', '.join(map(_filled_only, _BIG_IMAGES))})", "{Image Sort Order}"),
            *_ordered(f"coalesce({', '.join(map(_filled_only, _BIG_IMAGES[:2]))})", "{Image Sort Order}"),
            *_ordered("{Internal Image URL (Export)}", "{Image Sort Order}"),
            *_ordered("{Image URL (Import)}", "{Image Sort Order}"),
        ),
        rows=_UNDER_PRODUCTS,
        group=("product",),
        having=(f"bool_or(lower(trim({{Item}})) = 'product' AND coalesce(lower({{Is Visible}}), '') NOT IN {_NO})",),
        hints=("the rows below a product are its variants and images; products that are not visible are left out",),
    ),
    Layout(
        "BigCommerce",
        signs=(("Item Type", "Product URL", "Product Name"),),
        loc=("{Product URL}",),
        title=("{Product Name}",),
        images=(
            "[x FOR x IN [{Product Image URL - #}] IF nullif(x, '') IS NOT NULL]",
            _STORED,
        ),
        where=("lower(trim({Item Type})) = 'product'", f"coalesce(lower({{Product Visible?}}), '') NOT IN {_NO}"),
        hints=("rows of SKUs and rules, and products that are not visible, are left out",),
    ),
    Layout(
        "Screaming Frog",
        signs=(("Address", "Status Code", "Indexability"), ("Address", "Status Code", "Content Type")),
        loc=("{Address}",),
        title=("{Title 1}",),
        where=(
            "{Status Code} = '200'",
            "lower({Indexability}) = 'indexable'",
            "lower({Content Type}) LIKE 'text/html%'",
        ),
        hints=("a crawl lists what links lead to: pages that nothing links are missing",),
    ),
)


class Known(Frozen):
    """An export whose rows become pages: its system, the SELECT, and notes for the user."""

    system: str
    query: str
    hints: tuple[str, ...]


def known(columns: Sequence[str], further: Iterable[str] = (), folder: str = "") -> Known | None:
    """Return the layout of an export with these columns, or None if none fits.

    `further`: columns to select under their own names. `folder`: the path that all addresses are below.
    """
    names = {_key(name): name for name in reversed(columns)}
    for layout in LAYOUTS:
        if any(all(_key(sign) in names for sign in signs) for signs in layout.signs):
            query = _select(layout, names, further, folder)
            if query is not None:
                guess = layout.guessed if _at(layout.loc, names) == len(layout.loc) - 1 else ()
                return Known(layout.system, query, (*layout.hints, *guess))
    return None


def _select(layout: Layout, names: Mapping[str, str], further: Iterable[str], folder: str) -> str | None:
    loc, group = _first(layout.loc, names), _first(layout.group, names)
    if loc is None or (layout.group and group is None):
        return None
    images = _first(layout.images, names)
    if folder:
        loc, images = (None if one is None else one.replace("'/", f"'{folder}/") for one in (loc, images))
    selected = [f"{loc} AS loc"]
    for name, value in (("title", _first(layout.title, names)), ("images", images)):
        selected += [] if value is None else [f"{value} AS {name}"]
    for column in further:
        name = DUCKDB.quoted(column)
        selected.append(f"max({name}) AS {name}" if layout.group else name)
    parts = [f"SELECT{_BATCH}{f',{_BATCH}'.join(selected)}", f"FROM {_filled(layout.rows, names)}"]
    conditions = [text for one in layout.where if (text := _filled(one, names)) is not None]
    parts += [f"WHERE {f'{_BATCH}AND '.join(conditions)}"] if conditions else []
    parts += [f"GROUP BY {group}"] if group is not None else []
    conditions = [text for one in layout.having if (text := _filled(one, names)) is not None]
    parts += [f"HAVING {f'{_BATCH}AND '.join(conditions)}"] if conditions else []
    return "\n".join(parts)


def _at(texts: Sequence[str], names: Mapping[str, str]) -> int | None:
    return next((at for at, one in enumerate(texts) if _filled(one, names) is not None), None)


def _first(texts: Sequence[str], names: Mapping[str, str]) -> str | None:
    at = _at(texts, names)
    return None if at is None else _filled(texts[at], names)


def _filled(text: str, names: Mapping[str, str]) -> str | None:
    """Return the SQL text with the columns that it names, or None if one doesn't exist."""
    missing = False

    def column(found: re.Match[str]) -> str:
        nonlocal missing
        columns = _numbered(found[1], names) if found[1].endswith("#") else [names.get(_key(found[1]))]
        missing |= not columns or None in columns
        return ", ".join(_identifier(one) for one in columns if one is not None)

    filled = _NAMED.sub(column, text)
    return None if missing else filled


def _numbered(text: str, names: Mapping[str, str]) -> list[str | None]:
    """Return the columns whose names end with a number, in the order of the numbers."""
    before = _key(text)
    numbers = {
        int(key[len(before) :]): name for key, name in names.items() if re.fullmatch(re.escape(before) + r"\d+", key)
    }
    return [numbers[number] for number in sorted(numbers)]


def _identifier(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else DUCKDB.quoted(name)


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()
