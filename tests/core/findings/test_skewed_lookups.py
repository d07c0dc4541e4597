from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.skewed_lookups import RULE
from skyline.trace.facts import ModuleFact, OptimizerFact
from skyline.trace.record import Phase, RecordKind
from skyline.trace.tensor_values import HotRows, TableAccess, TensorValues

ROWS, WIDTH, MB = 100_000, 64, 1_000_000
OPTIONS = {"num_embeddings": ROWS, "embedding_dim": WIDTH, "sparse": False}
SIZE = 4 * ROWS * WIDTH


def points(few: float, tenth: float):
    return (
        HotRows(SIZE // 100, few, 4.0 * MB, 0.1),
        HotRows(SIZE // 10, tenth, 1.0 * MB, 0.5),
        HotRows(SIZE, 1.0, 0.0, 1.0),
    )


def table(path="Net.items", few=0.9, rows=ROWS):
    return TableAccess(path, rows, 4 * WIDTH, 20_000.0, 5000.0, points(few, 0.97))


@pytest.fixture
def recommender(gpu_script):
    """A lookup of 1 ms in a table that was made on the line of the loader."""

    def made(*tables):
        script = gpu_script([("indexSelect", 1000.0), ("gemm", 3000.0)])
        place = script.trace.lines[2]
        module = ModuleFact("Net.items", "Embedding", True, ROWS * WIDTH, True, OPTIONS, created_line=place)
        records = tuple(
            replace(one, module=0) if one.kind is RecordKind.KERNEL else one for one in script.trace.records
        )
        return replace(
            script,
            trace=replace(script.trace, records=records, modules=("Net.items",)),
            modules=(module,),
            optimizers=(OptimizerFact("Adam", 1, 2, ROWS * WIDTH, 8 * ROWS * WIDTH, {}),),
            values=TensorValues(8, tables, tables[0].hot),
        )

    return made


def test_the_table_with_most_lookups_is_named_with_its_line(recommender, checked):
    script = recommender(table())
    found = checked(RULE, script)
    assert found.title == "1% of the rows of Net.items take 90% of its lookups"
    assert (found.line, found.whatif) == (script.trace.lines[2].line, "hot_embeddings")
    assert "a tenth takes 97 %; 100,000 rows, 25.6 MB, 20,000 lookups of 5,000 rows" in found.evidence[0].text
    assert found.evidence[0].text.endswith("in an iteration, by 8 iterations")


def test_even_lookups_and_small_tables_are_left_alone(recommender, checked):
    assert checked(RULE, recommender(table(few=0.3))) is None
    assert checked(RULE, recommender(table(rows=1000))) is None


def test_other_tables_are_counted(recommender, checked):
    found = checked(RULE, recommender(table(), replace(table(), lookups=10.0)))
    assert found.title.endswith("of its lookups, and so in 1 more")
    assert len(found.evidence) == 2


def test_without_a_use_for_it_nothing_is_said(recommender, checked, profile):
    script = recommender(table())
    assert checked(RULE, replace(script, environment=profile.environment)) is None
    assert checked(RULE, profile) is None
    forward = tuple(one for one in script.trace.records if one.phase is Phase.FORWARD)
    assert forward, "the lookup is forward work"
