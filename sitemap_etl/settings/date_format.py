"""Format of a column's dates in a site file: codes of `strptime`, or `excel`."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from sitemap_etl.settings.kinds import Text, wrong

EXCEL: Final = "excel"
"""Format of serial numbers of spreadsheets: days since 1899-12-30, with the time of day as a fraction."""
MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
SHORT_MONTHS: Final = tuple(name[:3] for name in MONTHS)
_MONTH: Final = "|".join(name[:length] for name in MONTHS for length in range(len(name), 2, -1))
"""Beginnings of English month names, the longer ones first, so that the longest one matches."""
ZONES: Final = {
    **dict.fromkeys(("UT", "UTC", "GMT"), "Z"),
    "EST": "-05:00",
    "EDT": "-04:00",
    "CST": "-06:00",
    "CDT": "-05:00",
    "MST": "-07:00",
    "MDT": "-06:00",
    "PST": "-08:00",
    "PDT": "-07:00",
}
"""Names of zones that `%z` reads, and their offsets (RFC 822, section 5)."""
MAIL: Final = tuple(
    f"{day}%d %b {year} {clock} %z" for day in ("%a, ", "") for year in ("%Y", "%y") for clock in ("%H:%M:%S", "%H:%M")
)
"""Formats of dates in mails and feeds: RFC 822, section 5, also with years of four digits as in RFC 5322."""
_FIELDS: Final = {
    "Y": r"(?P<year>[0-9]{4})",
    "y": r"(?P<short_year>[0-9]{2})",
    "m": r"(?P<month>[0-9]{1,2})",
    "b": rf"(?P<month_name>(?i:{_MONTH}))\.?",
    "d": r"(?P<day>[0-9]{1,2})",
    "H": r"(?P<hour>[0-9]{1,2})",
    "I": r"(?P<half_hour>[0-9]{1,2})",
    "M": r"(?P<minute>[0-9]{1,2})",
    "S": r"(?P<second>[0-9]{1,2})",
    "f": r"[0-9]{1,9}",
    "p": r"(?P<half>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<offset>[Zz]|[+-][0-9]{2}:?[0-9]{2}|(?i:UTC?|GMT|[ECMP][SD]T))",
    "a": r"[A-Za-z]+\.?",
    "%": "%",
}
_NEEDED: Final = {
    "a day (%d)": {"day"},
    "a month (%m or %b)": {"month", "month_name"},
    "a year (%Y)": {"year", "short_year"},
}
_DIGITS: Final = frozenset("YymdHIMSf")
"""Fields that consist of digits. Two of them side by side must have their full width."""
_SAME: Final = {"e": "d", "B": "b", "A": "a", "h": "b"}
_LONG: Final = {"T": "%H:%M:%S", "R": "%H:%M", "F": "%Y-%m-%d", "D": "%m/%d/%y"}


def pattern(form: str) -> str:
    """Return the regular expression of a format. Raise ValueError, in words that follow "format", if it is invalid."""
    expanded = re.sub(r"%([TRFD])", lambda match: _LONG[match[1]], form)
    parts = []
    found = re.findall(r"%(.?)|([^%]+)", expanded)
    kinds = ["", *(_SAME.get(code, code) for code, _ in found), ""]
    for at, (code, text) in enumerate(found, start=1):
        known = _FIELDS.get(_SAME.get(code, code)) if code else re.escape(text).replace(r"\ ", r"\s+")
        if known is None or (not code and not text):
            raise ValueError(f"has %{code}, which is not known; known are {', '.join(f'%{name}' for name in _FIELDS)}")
        if kinds[at] in _DIGITS and (kinds[at - 1] in _DIGITS or kinds[at + 1] in _DIGITS):
            known = known.replace("{1,2}", "{2}")
        parts.append(known)
    made = "".join(parts)
    names = re.findall(r"\?P<(\w+)>", made)
    again = next((name for name in names if names.count(name) > 1), None)
    if again is not None:
        raise ValueError(f"names the {again.replace('_', ' ')} more than once")
    missing = [said for said, any_of in _NEEDED.items() if not any_of & set(names)]
    if missing:
        raise ValueError(f"lacks {' and '.join(missing)}; write one such as %d.%m.%Y")
    if ("half" in names) != ("half_hour" in names):
        raise ValueError("needs %I and %p together")
    return rf"^\s*{made}\s*$"


def _format(value: str) -> str:
    if value != EXCEL:
        try:
            pattern(value)
        except ValueError as error:
            raise wrong(str(error)) from error
    return value


DateFormat = Annotated[Text, AfterValidator(_format)]
