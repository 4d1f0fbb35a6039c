"""Which rows must meet to answer a query, and what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")

from headrace.errors import UnsupportedTransformError
from headrace.sql.queries import Meet, check_ddl, read_query

COLUMNS = {
    "PCOLLECTION": {"id": "BIGINT", "name": "VARCHAR", "score": "DOUBLE",
                    "own": "STRUCT(headrace_carried_3 BIGINT)"},
    "other": {"id": "BIGINT", "name": "VARCHAR", "small": "INTEGER"},
}


@pytest.mark.parametrize(
    ("query", "meet", "keys"),
    [
        ("SELECT * FROM PCOLLECTION", Meet.NOBODY, {}),
        ("SELECT id + 1 AS x FROM PCOLLECTION p WHERE p.name LIKE 'a%'", Meet.NOBODY, {}),
        ("SELECT own FROM PCOLLECTION", Meet.NOBODY, {}),
        ("SELECT name, COUNT(*) AS n FROM PCOLLECTION GROUP BY name", Meet.KEYS,
         {"PCOLLECTION": ("name",)}),
        ("SELECT id, name, SUM(score) FROM PCOLLECTION GROUP BY id, name HAVING COUNT(*) > 1",
         Meet.KEYS, {"PCOLLECTION": ("id", "name")}),
        ("SELECT name, COUNT(DISTINCT id) AS n FROM PCOLLECTION GROUP BY name", Meet.KEYS,
         {"PCOLLECTION": ("name",)}),
        ("SELECT p.id, o.name FROM PCOLLECTION p JOIN other o ON p.id = o.id AND o.small > 1",
         Meet.KEYS, {"PCOLLECTION": ("id",), "other": ("id",)}),
        ("SELECT p.id FROM PCOLLECTION p FULL JOIN other o ON (p.id = o.id AND o.name = p.name)",
         Meet.KEYS, {"PCOLLECTION": ("id", "name"), "other": ("id", "name")}),
        # Nothing by which rows could be told apart, or an answer that goes across groups.
        ("SELECT COUNT(*) AS n FROM PCOLLECTION", Meet.ALL, {}),
        ("SELECT score, COUNT(*) AS n FROM PCOLLECTION GROUP BY score", Meet.ALL, {}),
        ("SELECT id % 2 AS b, COUNT(*) AS n FROM PCOLLECTION GROUP BY id % 2", Meet.ALL, {}),
        ("SELECT name, COUNT(*) AS n FROM PCOLLECTION GROUP BY ROLLUP (name)", Meet.ALL, {}),
        ("SELECT DISTINCT name FROM PCOLLECTION", Meet.ALL, {}),
        ("SELECT name FROM PCOLLECTION ORDER BY id LIMIT 3", Meet.ALL, {}),
        ("SELECT name, RANK() OVER (ORDER BY id) AS r FROM PCOLLECTION", Meet.ALL, {}),
        ("SELECT name FROM PCOLLECTION WHERE id IN (SELECT id FROM other)", Meet.ALL, {}),
        ("SELECT name FROM PCOLLECTION UNION ALL SELECT name FROM other", Meet.ALL, {}),
        ("WITH a AS (SELECT id FROM other) SELECT p.id FROM PCOLLECTION p JOIN a ON p.id = a.id",
         Meet.ALL, {}),
        ("SELECT p.id FROM PCOLLECTION p JOIN other o ON p.id < o.id", Meet.ALL, {}),
        ("SELECT p.id FROM PCOLLECTION p JOIN other o ON p.id = o.small", Meet.ALL, {}),
        ("SELECT p.id FROM PCOLLECTION p JOIN other o ON p.id = o.id OR p.name = o.name",
         Meet.ALL, {}),
        ("SELECT a.id FROM other a JOIN other b ON a.id = b.id", Meet.ALL, {}),
        ("SELECT p.id, COUNT(*) AS n FROM PCOLLECTION p JOIN other o ON p.id = o.id GROUP BY p.id",
         Meet.ALL, {}),
    ],
)
def test_rows_meet_where_the_answer_needs_them(
    query: str, meet: Meet, keys: dict[str, tuple[str, ...]]
) -> None:
    found = read_query(query, COLUMNS)
    assert (found.meet, dict(found.keys)) == (meet, keys)


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("SELECT nothing FROM PCOLLECTION", "nothing"),
        ("SELECT * FROM elsewhere", "elsewhere"),
        ("SELECT * FROM", "cannot be read"),
        ("DELETE FROM PCOLLECTION", "one SELECT"),
        ("SELECT 1; SELECT 2", "one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "there is no collection"),
        ("SELECT COUNT(*) AS n FROM PCOLLECTION GROUP BY TUMBLE(id, INTERVAL '1' HOUR)",
         "beam.WindowInto"),
        ("SELECT own, COUNT(*) AS n FROM PCOLLECTION GROUP BY own", "looks into the column own"),
        ("SELECT id FROM PCOLLECTION WHERE own = own", "looks into the column own"),
        ("SELECT DISTINCT own FROM PCOLLECTION", "looks into the column own"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_its_cause(query: str, cause: str) -> None:
    with pytest.raises(UnsupportedTransformError, match=cause):
        read_query(query, COLUMNS)


def test_a_dialect_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedTransformError, match="calcite and zetasql"):
        read_query("SELECT 1 AS one", {}, dialect="klingon")


def test_ddl_may_set_options_and_make_nothing() -> None:
    check_ddl("SET sqlConformance = 'LENIENT'")
    with pytest.raises(UnsupportedTransformError, match="by a tag"):
        check_ddl("CREATE TABLE x (id INT)")
