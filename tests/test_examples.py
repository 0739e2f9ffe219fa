"""The samples of large matrices in CI: no kind of case is left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import kind_of_key, sample


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_a_sample_has_every_kind_of_case_in_order(cases: list[int], every: int) -> None:
    chosen = sample(cases, lambda case: case % 4, every=every, whole=False)
    assert {case % 4 for case in chosen} == {case % 4 for case in cases}
    rest = iter(cases)
    assert all(case in rest for case in chosen)


def test_a_sample_is_about_a_twelfth_of_the_cases() -> None:
    cases = range(600)
    assert sample(cases, lambda _case: 0, whole=True) == list(cases)
    assert len(sample(cases, lambda _case: 0, whole=False)) == 50


def test_keys_are_of_the_same_kind_if_only_times_numbers_or_hashes_differ() -> None:
    assert kind_of_key("runs/20261102T020000Z-a1b2/extract/0001.parquet") == "runs/#/extract/#.parquet"
    assert kind_of_key("state/manifest-0f3a9c2b7d.json") == kind_of_key("state/manifest-77aa00bb11.json")
    assert kind_of_key("sitemap-products-00012.xml.gz") != kind_of_key("sitemap-archive-00012.xml.gz")
