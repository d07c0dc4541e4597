import numpy as np

from skyline_predictors.learned.forest import Forest

# Two trees of depth two over two features.
FOREST = Forest(
    10.0,
    np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8),
    np.array([[0.5, 1.0, 2.0], [3.0, np.inf, 0.0]], dtype=np.float32),
    np.array([[1, 2, 3, 4], [100, 200, 300, 400]], dtype=np.float32),
)


def by_hand(row, forest=FOREST):
    answer = forest.base
    for feature, threshold, value in zip(forest.feature, forest.threshold, forest.value, strict=True):
        node = 0
        while node < len(feature):
            node = 2 * node + 1 + (row[feature[node]] > threshold[node])
        answer += value[node - len(feature)]
    return answer


def test_all_trees_are_walked_as_by_hand():
    rows = np.array([[0.0, 0.0], [0.5, 1.5], [0.6, 1.9], [0.6, 2.1], [-1.0, 9.0], [4.0, 3.0], [4.0, 3.1]])
    assert FOREST.predict(rows).tolist() == [by_hand(row) for row in rows]
    assert FOREST.predict(rows[:1]).tolist() == [111.0]


def test_many_rows_are_answered_like_each_by_itself():
    rows = np.random.default_rng(0).normal(size=(1000, 2)) * 3
    together = FOREST.predict(rows)
    assert together.tolist() == [float(FOREST.predict(row[None])[0]) for row in rows]


def test_no_rows_are_no_answers():
    assert FOREST.predict(np.zeros((0, 2))).tolist() == []


def test_the_deepest_trees_that_fit_reach_the_leaves_that_walking_reaches():
    chance = np.random.default_rng(1)
    feature = chance.integers(0, 5, (7, 63)).astype(np.uint8)
    # Few different thresholds, so that rows meet them exactly.
    threshold = chance.integers(-3, 4, (7, 63)).astype(np.float32)
    forest = Forest(0.0, feature, threshold, np.arange(7 * 64, dtype=np.float32).reshape(7, 64))
    rows = chance.integers(-4, 5, (200, 5)).astype(float)
    assert forest.predict(rows).tolist() == [by_hand(row, forest) for row in rows]
