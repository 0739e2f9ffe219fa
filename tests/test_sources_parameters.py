from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.errors import ConfigError
from sitemap_etl.sources.parameters import bind, names, one_statement, parts

SQL = st.text(st.sampled_from("ab :'\"`$-/*#;[]\\\n1x\u00e9") | st.sampled_from(":"), max_size=60)


@pytest.mark.parametrize(
    ("kind", "sql", "expected"),
    [
        ("postgresql", "a > :since AND b=:site", "a > <since> AND b=<site>"),
        ("postgresql", "a::date, :now::date", "a::date, <now>::date"),
        ("postgresql", "':now', \":now\", e'\\':now', $$:now$$, $t$ $$ :now $t$", None),
        ("postgresql", "-- :now\n/* :now /* :now */ :now */", None),
        ("postgresql", "a[1:n], a[x:y], (a)[1:now]", None),
        ("postgresql", "'it''s' || :site", "'it''s' || <site>"),
        ("sqlite", '[a :now], `:now`, ":now"', None),
        ("mysql", "'it\\'s :now', `a :now`, \"b :now\" # :now", None),
        ("mysql", "`a`.`b` = :site", "`a`.`b` = <site>"),
        ("oracle", "x = :site -- :now", "x = <site> -- :now"),
        ("postgresql", "'never closed :", None),
    ],
)
def test_only_parameters_outside_of_texts_and_comments_are_replaced(kind: str, sql: str, expected: str | None) -> None:
    values = {"now": 1, "since": 2, "site": 3}
    assert bind(sql, values, kind, lambda name: f"<{name}>", label="a.sql")[0] == (expected or sql)


@given(SQL, st.sampled_from(["postgresql", "sqlite", "mysql", "mssql"]))
def test_no_text_is_lost_when_sql_is_tokenized(sql: str, kind: str) -> None:
    assert "".join(part.text for part in parts(sql, kind)) == sql


def test_an_unknown_parameter_is_named_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        bind("x > :sinse AND y = :z", {"since": 1, "now": 2}, "postgresql", str, label="sql/a.sql")
    assert len(caught.value.problems) == 2
    assert "sql/a.sql names the parameter :sinse" in caught.value.problems[0]
    assert "did you mean :since?" in caught.value.problems[0]


def test_a_final_semicolon_is_removed_and_line_numbers_stay() -> None:
    assert (
        one_statement("select 1\nfrom t;\n-- the end;\n", "postgresql", label="a") == "select 1\nfrom t\n-- the end;\n"
    )


@pytest.mark.parametrize("sql", ["select 1; select 2", "select 1;;x", "select 1; 'x'", "select 1; :a"])
def test_a_second_statement_is_refused(sql: str) -> None:
    with pytest.raises(ConfigError, match="more than one statement"):
        one_statement(sql, "postgresql", label="a.sql")


@pytest.mark.parametrize("sql", ["", "  ;\n", "-- only a comment"])
def test_an_empty_select_is_refused(sql: str) -> None:
    with pytest.raises(ConfigError, match=r"a\.sql is empty"):
        one_statement(sql, "postgresql", label="a.sql")


def test_the_parameters_of_a_select_are_found() -> None:
    assert names("id >= :split_from AND id < :split_to -- :no", "postgresql") == {"split_from", "split_to"}
