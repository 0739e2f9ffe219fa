"""The catalogue of the demo: a gazetteer with a database, a CSV and a Parquet export, always the same.

    places      SQLite, 96,000 rows: places of the world, names in thirteen scripts
    stories     CSV.gz, 32,100 rows: articles about them
    walks       Parquet, 36,000 rows: 12,000 walks in three languages each

On later days a few hundred rows have changed, and some are new.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PLACES, STORIES, WALKS = 96_000, 32_000, 12_000
VERSION = "1"
FIRST = datetime(2019, 1, 1, tzinfo=UTC)
DAYS = 2_300
NEWS = datetime(2025, 6, 1, tzinfo=UTC)
"""What changes on a later day of the demo is dated from here on."""

SYLLABLES = {
    "de": "Alt Berg Wald Grün Münch Öst See Burg Dorf stein heim au bach feld weiler",
    "fr": "Saint Mont Châ teau neuf Bé ziers Nî mes or léans sur Loire ville gnac court",
    "pl": "Łódź Wro cław Gdy nia Święto Żary no wo grodź sko Kra ków ęcin brzeg",
    "ru": "Ново Красно Бело Горск Озёр ск Волж Дальне реченск град Верх ний ово",
    "gr": "Νέα Πύρ γος Άγιος Κα λα μά τα Θεσ σα λο νί κη Ρό δος πολη",
    "il": "תל אביב חי פה קרית רמת גן נהר יה באר שבע כפר מגדל",
    "eg": "مدينة الق اهرة بور سعيد كفر الشيخ دار السلام عين شمس نور",
    "in": "नगर पुर राम गढ़ दिल्ली नई जय बाद सीता कोट शहर ग्राम",
    "th": "เชียง ใหม่ ราย นคร บุรี ธานี สุข โขทัย ลำ ปาง หนอง คาย",
    "cn": "北 京 上 海 南 山 江 州 东 湖 安 城 龙 口 石 家 庄",
    "jp": "東 京 大 阪 さくら 川 崎 ひろ 島 なが 野 富 士 みなと",
    "kr": "서울 부산 대 구 광 주 강 릉 수 원 평 창 제 천 안 동",
    "ge": "თბი ლისი ბა თუმი ქუ თაისი გო რი ზუგ დიდი ახალ ქალაქი",
}
TOPICS = ("history", "nature", "food", "people", "travel")
LANGUAGES = ("en", "de", "ja")


def make(folder: Path, day: int | None = 1) -> dict[str, int]:
    """Write the catalogue of a day into the folder, unless it is there; gives the rows of each source.

    None: of the day that is there, else the first.
    """
    mark = folder / "made.json"
    made = json.loads(mark.read_text()) if mark.is_file() else {}
    day = day or made.get("day", 1)
    if made.get("version") != VERSION or made["day"] != day:
        folder.mkdir(parents=True, exist_ok=True)
        mark.unlink(missing_ok=True)
        rows = {
            "places": _write_places(folder / "catalogue.sqlite", day),
            "stories": _write_stories(folder / "stories.csv.gz", day),
            "walks": _write_walks(folder / "walks.parquet", day),
        }
        made = {"version": VERSION, "day": day, "rows": rows}
        mark.write_text(json.dumps(made))
    return dict(made["rows"])


def _name(random_: random.Random, country: str) -> str:
    syllables = SYLLABLES[country].split()
    spaced = " " if country in ("fr", "il", "eg", "in") else ""
    return spaced.join(random_.choice(syllables) for _ in range(random_.randint(2, 3)))


def _when(random_: random.Random) -> datetime:
    return FIRST + timedelta(days=random_.randrange(DAYS), seconds=random_.randrange(86_400))


def _is_news(number: int, day: int) -> bool:
    """Whether a row changed on one of the later days."""
    return day > 1 and number % 500 < day - 1


def _of_day(day: int, number: int) -> datetime:
    """When a row that is news on a day was changed: some time in the week before."""
    return NEWS + timedelta(days=day, seconds=-(number * 7_919) % 604_800)


def _places(day: int) -> Iterator[tuple[Any, ...]]:
    """id, country, name, visits, updated_at (UTC, without saying so), withdrawn."""
    random_ = random.Random(1)  # noqa: S311 - the same catalogue for everyone
    countries = list(SYLLABLES)
    for number in range(1, PLACES + 1):
        country = countries[number % len(countries)]
        name = _name(random_, country)
        updated, visits = _when(random_), int(random_.paretovariate(0.7))
        withdrawn = "merged with its neighbour" if random_.random() < 0.01 else None
        if random_.random() < 0.0005:
            name = ""  # a name that was never filled in
        if _is_news(number, day):
            updated = _of_day(day, number)
        yield number, country, name, visits, f"{updated:%Y-%m-%d %H:%M:%S}", withdrawn
    for number in range(PLACES + 1, PLACES + 1 + 250 * (day - 1)):
        country = countries[number % len(countries)]
        yield number, country, _name(random_, country), 1, f"{_of_day(day, number):%Y-%m-%d %H:%M:%S}", None


def _write_places(path: Path, day: int) -> int:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE place (id INTEGER PRIMARY KEY, country TEXT, name TEXT, visits INTEGER, updated_at TEXT, "
            "withdrawn TEXT)"
        )
        return database.executemany("INSERT INTO place VALUES (?, ?, ?, ?, ?, ?)", _places(day)).rowcount


def _stories(day: int) -> Iterator[tuple[Any, ...]]:
    """permalink, headline, changed_on, status. Some links are broken, some lead elsewhere, some stand twice."""
    random_ = random.Random(2)  # noqa: S311 - as above
    countries = list(SYLLABLES)
    for number in range(1, STORIES + 1):
        country = countries[number % len(countries)]
        topic, title = random_.choice(TOPICS), f"{_name(random_, country)} {_name(random_, country)}"
        link: str = f"https://gazetteer.example/{topic}/{title.replace(' ', '-')}-{number}"
        changed = _when(random_).date()
        kind = random_.random()
        if kind < 0.004:
            link = link.replace("https://", "HTTP://WWW.")  # the old address of the same site
        elif kind < 0.006:
            link = link.replace("gazetteer.example", "partner.example")
        elif kind < 0.007:
            link = ""
        elif kind < 0.008:
            link = f"mailto:editor+{number}@gazetteer.example"
        elif kind < 0.013:
            link += "?utm_source=newsletter&utm_medium=mail"
        elif kind < 0.015:
            link = f"/internal/draft/{number}"
        status = "draft" if random_.random() < 0.02 else "published"
        if _is_news(number, day):
            changed = _of_day(day, number).date()
        yield link, title, changed, status
        if random_.random() < 0.003:
            yield link, title, changed - timedelta(days=30), status


def _write_stories(path: Path, day: int) -> int:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("permalink", "headline", "changed_on", "status"))
    rows = list(_stories(day))
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=6, mtime=0))
    return len(rows)


def _write_walks(path: Path, day: int) -> int:
    """walk, language, title, kilometres, photos, published_on. It does not know when a walk was changed."""
    random_ = random.Random(3)  # noqa: S311 - as above
    columns: dict[str, list[Any]] = {
        name: [] for name in ("walk", "language", "title", "kilometres", "photos", "published_on")
    }
    for walk in range(1, WALKS + 1):
        kilometres = round(random_.uniform(2, 40), 1) + (0.5 if _is_news(walk, day) else 0)
        photos = [f"/photos/{walk}/{n}.jpg" for n in range(random_.randrange(3))]
        published = date(2020, 1, 1) + timedelta(days=random_.randrange(1_800))
        for language, country in zip(LANGUAGES, ("fr", "de", "jp"), strict=True):
            title = f"{_name(random_, country)} & {_name(random_, country)}"
            for name, value in zip(columns, (walk, language, title, kilometres, photos, published), strict=True):
                columns[name].append(value)
    table = pa.table(columns)
    pq.write_table(table, path, row_group_size=16_384, compression="zstd")
    return int(table.num_rows)
