"""Records: defaults of missing fields, identity of owners and places, files of a release."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import pytest

from sitemap_etl.errors import DamagedState
from sitemap_etl.frames import Tally
from sitemap_etl.state import records
from sitemap_etl.state.codec import decode, encode, seal, unseal
from sitemap_etl.state.records import (
    Answered,
    Counts,
    Drift,
    Entry,
    File,
    Index,
    Intent,
    Lease,
    Manifest,
    Options,
    Owner,
    Place,
    Record,
    Retired,
    SectionState,
)
from sitemap_etl.state.store import parse_document

KINDS = [kind for kind in vars(records).values() if is_dataclass(kind) and issubclass(kind, Record)]  # type: ignore[arg-type]
OTHERWISE = {
    ("Options", "ping"): True,
    ("SectionState", "next_number"): 1,
    ("SectionState", "dated"): True,
    ("LedgerData", "format"): 1,
    ("Intent", "number"): 1,
    ("Summary", "status"): "failed",
    ("Attempt", "status"): "running",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_missing_fields_of_a_record_are_empty_or_false(kind: type[Any]) -> None:
    for entry in fields(kind):
        default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        if default is MISSING or entry.name == "format":
            continue
        if (kind.__name__, entry.name) in OTHERWISE:
            assert default == OTHERWISE[kind.__name__, entry.name]
        elif isinstance(default, tuple) and default and not isinstance(default[0], str):
            assert default in ((0, ()), (0, ""))
        else:
            assert not default or default in (type(default)(), replace(default)), (entry.name, default)


def test_unknown_fields_of_a_record_are_preserved() -> None:
    one = decode(Drift, {"missing": 1, "later": "x"}, "here")
    assert one == Drift(missing=1)
    assert "later" not in repr(one)
    assert encode(one) == {"missing": 1, "stale": 0, "gone": 0, "later": "x"}
    with pytest.raises(TypeError):
        Drift(1, 2, 3, {})  # type: ignore[misc] # what is unknown has no place among them


def test_counts_are_added_field_by_field() -> None:
    assert Drift(1, 2, 3) + Drift(10, 20, 30) == Drift(11, 22, 33)
    assert Drift(1, 2, 4).total == 7
    some = Counts(*range(1, 10))
    assert some + some == Counts(*range(2, 20, 2))
    assert [some.of(name) for name in records.COUNTED] == list(range(1, 10))


# --- the form of what is stored ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (Drift, [], r"the object: expected an object, got \[\]"),
        (Drift, {"missing": True}, "missing: expected a whole number, got true"),
        (Drift, {"missing": 1.5}, "missing: expected a whole number, got 1.5"),
        (Retired, {"key": "a", "etag": None}, "at: expected a value, got null"),
        (Options, {"sections": ["a", 1]}, r"sections\[1\]: expected a text, got 1"),
        (Options, {"sections": "a"}, "sections: expected a list, got"),
        (Options, {"full": 1}, "full: expected true or false, got 1"),
        (records.LedgerRequest, {"at": True, "answered": True, "hashes": ""}, "at: expected a number, got true"),
        (records.Gate, {"name": "a", "status": "bad"}, "status: expected one of 'ok', 'warned', 'refused', 'forced'"),
        (SectionState, {"kinds": [["a"]]}, r"kinds\[0\]: expected a list of 2, got"),
        (SectionState, {"kinds": [["a", "b", "c"]]}, r"kinds\[0\]: expected a list of 2, got"),
        (SectionState, {"kinds": ["ab"]}, r"kinds\[0\]: expected a list of 2, got"),
        (SectionState, {"kinds": [["a", 1]]}, r"kinds\[0\]\[1\]: expected a text, got 1"),
        (records.SetSize, {"at": "", "site": 1, "sections": []}, "sections: expected an object"),
        (records.SetSize, {"at": "", "site": 1, "sections": {"p": "1"}}, "sections.p: expected a whole number"),
        (records.Clusters, {"notes": []}, "notes: expected a Tally"),
        (records.Clusters, {"notes": {"x": {}}}, "notes: expected a Tally"),
        (records.Current, {"name": "n", "site": "s", "made_from": {"k": {}}}, "made_from.k.run_id: expected"),
    ],
)
def test_an_invalid_record_is_reported_with_the_path_of_the_field(kind: type[Any], data: Any, said: str) -> None:
    with pytest.raises(DamagedState, match="^here is damaged: " + said):
        decode(kind, data, "here")


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(DamagedState) as error:
        decode(Drift, {"missing": "x" * 58}, "here")
    assert f'got "{"x" * 58}".' in str(error.value)
    with pytest.raises(DamagedState) as error:
        decode(Drift, {"missing": "x" * 59}, "here")
    assert f'got "{"x" * 59}….' in str(error.value)


def test_values_of_every_type_are_read_back_unchanged() -> None:
    state = SectionState(kinds=(("a", "b"),), rule="r", top=None)
    assert decode(SectionState, encode(state), "here") == state
    request = records.LedgerRequest(1, answered=False, hashes="")
    assert decode(records.LedgerRequest, encode(request), "here") == request
    tally = Tally()
    tally.add("reason", 2, ["a"])
    clusters = records.Clusters(3, tally)
    assert encode(clusters) == {"aligned": 3, "notes": {"reason": {"count": 2, "examples": ["a"]}}}
    assert decode(records.Clusters, encode(clusters), "here") == clusters
    difference = records.Difference(2, ("a", records.Example("a", None, "b")))
    assert decode(records.Difference, encode(difference), "here") == difference
    answered = Answered("bing", "accepted", 1, "", {"any": [{"thing": 1.5}]})
    assert decode(Answered, encode(answered), "here") == answered


def test_any_changed_byte_of_a_checksummed_record_is_detected() -> None:
    data = seal({"b": "ü", "a": 1})
    assert data.startswith(b'{"checksum":"')
    assert data.endswith('","b":"ü","a":1}'.encode())
    assert unseal(data, "here") == {"b": "ü", "a": 1}
    for at in range(len(data) - 7, len(data)):
        with pytest.raises(DamagedState, match="here is damaged"):
            unseal(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "here")
    assert unseal(b'{"a":1}', "here") == {"a": 1}
    for broken, said in ((b"[]", "not a JSON object"), (b"{", "not JSON"), (b"\xff{}", "not JSON")):
        with pytest.raises(DamagedState, match=said):
            unseal(broken, "here")


@pytest.mark.parametrize("number", [1, 0, -1, "2", None, 1.5])
def test_an_impossible_format_number_is_reported_as_damage(number: Any) -> None:
    with pytest.raises(DamagedState, match=r"here is damaged: format: expected a whole number from 2 on, got"):
        parse_document(seal({"format": number}), Manifest, "here")


def test_a_name_with_invalid_utf_8_is_stored_and_read_back() -> None:
    assert unseal(seal({"name": "a\udcff"}), "here") == {"name": "a\udcff"}


# --- who is whom -------------------------------------------------------------------------------------


def test_places_are_the_same_if_their_target_or_their_spelling_is() -> None:
    here = Place("/srv/public", "/var/www")
    assert here.is_also(Place("/srv/public", "/elsewhere"))
    assert here.is_also(Place("/mnt/b", "/var/www"))
    assert not here.is_also(Place("/mnt/b", "/elsewhere"))
    assert not Place("s3://a at x").is_also(Place("s3://b at x"))


@pytest.mark.parametrize(
    ("to", "was"),
    [
        ("", True),
        ("/srv/public", True),
        ("/var/www", True),
        ("/elsewhere", False),
        ("s3://a", False),
    ],
)
def test_a_place_is_compared_with_the_address_in_an_old_manifest(to: str, was: bool) -> None:
    assert Place("/srv/public", "/var/www").was(to) == was


def test_a_bucket_is_compared_with_an_old_manifest_without_its_store() -> None:
    bucket = Place("s3://a/b at https://s3.example")
    assert bucket.was("s3://a/b")
    assert not bucket.was("s3://a")
    assert not Place("/a at b").was("/a")


def test_owners_are_the_same_if_their_places_are_even_if_one_has_no_root() -> None:
    to, root, other = Place("/a"), Place("/r"), Place("/x")
    assert Owner(to, root).is_also(Owner(to, root))
    assert Owner(to).is_also(Owner(to, root))
    assert Owner(to, root).is_also(Owner(to))
    assert not Owner(to, root).is_also(Owner(to, other))
    assert not Owner(to, root).is_also(Owner(other, root))
    assert not Owner(to).is_also(Owner(other))


def test_an_owner_is_described_with_its_root_if_that_differs() -> None:
    assert Owner(Place("/a")).describe() == "/a"
    assert Owner(Place("/a"), Place("/a")).describe() == "/a"
    assert Owner(Place("/a"), Place("/r")).describe() == "/a, with robots.txt in /r"


def test_a_lease_belongs_to_its_run_and_to_attempts_of_the_same_owner() -> None:
    lease = Lease("r1", "since", "until", "host", 7)
    assert lease.describe() == "run r1, since since (process 7 on host)"
    assert replace(lease, owner="dag").describe() == "run r1, since since (dag)"
    assert lease.is_of("r1", "")
    assert not lease.is_of("r2", "")
    assert replace(lease, owner="dag").is_of("r2", "dag")
    assert not replace(lease, owner="dag").is_of("r2", "other")


@pytest.mark.parametrize(
    ("status", "failed", "pending"),
    [
        ("accepted", False, False),
        ("nothing", False, False),
        ("skipped", False, False),
        ("partial", True, False),
        ("refused", True, False),
        ("unavailable", True, True),
        ("failed", True, True),
    ],
)
def test_the_status_of_an_answer_decides_whether_it_failed_or_is_pending(
    status: Any, failed: bool, pending: bool
) -> None:
    answer = Answered("bing", status, 0, "")
    assert (answer.failed, answer.pending) == (failed, pending)


# --- what a set consists of --------------------------------------------------------------------------


def file(key: str, sha256: str = "") -> File:
    return File(key, 1, sha256, 1, "", None, "2026-11-01T02:00:00Z")


def entry(section: str, number: int, text: File | None = None) -> Entry:
    name = f"{section}-{number}"
    return Entry(section, number, "", "", "", 1, 1, 1, file(name), "", text=text)


def test_the_files_of_a_release_are_its_shards_indexes_and_feeds() -> None:
    manifest = Manifest(
        "shop",
        "https://shop.example",
        "r",
        "now",
        entries=(entry("a", 1, file("a-1.txt")), entry("b", 1), entry("a", 2)),
        indexes=(Index(1, file("sitemap.xml")),),
        extras=(file("feed"),),
        sections={"a": SectionState(listed=3), "b": SectionState(listed=4), "v": SectionState(listed=5, view=True)},
    )
    assert [each.key for each in manifest.files()] == ["a-1", "a-1.txt", "b-1", "a-2", "sitemap.xml", "feed"]
    assert [each.number for each in manifest.of("a")] == [1, 2]
    assert manifest.listed == 7
    assert records.same_set(manifest, replace(manifest, reason="other"))
    assert not records.same_set(manifest, replace(manifest, extras=(file("feed", "other"),)))
    assert not records.same_set(manifest, replace(manifest, extras=()))


def test_an_intent_includes_keys_to_write_to_delete_and_to_verify() -> None:
    intent = Intent("r", None, "a person", "now", ("w",), (Retired("d", None, 0),), suspect=("s",))
    assert intent.touched == {"w", "d", "s"}
    assert intent.describe() == "run r, since now (a person)"


def test_an_intent_of_format_2_is_read_with_its_keys() -> None:
    given = Intent.upgraded({"robots": 3, "writes": {"a": {"old_etag": None}}})
    assert given == {"robots": 3, "writes": ["a"]}
