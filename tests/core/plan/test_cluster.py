import pytest

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.plan.cluster import cluster_from, cluster_named, cluster_names
from skyline.plan.money import bill, read_budget_usd, read_count, read_deadline_s

TEXT = """
gpu = "H100"
nodes = 2
gpus_per_node = 8
usd_per_node_hour = 10
[inside]
gb_s = 450
latency_us = 2
[between]
gb_s = 400
latency_us = 5
"""


def test_every_described_cluster_can_be_read():
    assert len(cluster_names()) >= 12
    for name in cluster_names():
        cluster = cluster_named(name)
        assert cluster.name == name
        assert cluster.source


def test_sizes():
    cluster = cluster_from(TEXT, "mine.toml")
    assert cluster.gpus == 16
    assert cluster.with_gpus(4).gpus == 4
    assert cluster.with_gpus(64).nodes == 8
    with pytest.raises(UsageError, match="whole number of nodes"):
        cluster.with_gpus(12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes = 2", "", "nodes is missing"),
        ("nodes = 2", "nodes = 0", "nodes does not fit: Expected int >= 1"),
        ("nodes = 2", "nodes = 1.5", "nodes does not fit: Expected int, got float"),
        ("nodes = 2", 'nodes = "two"', "nodes does not fit: Expected int, got str"),
        ("nodes = 2", "nodes = 2\nspeed = 3", "speed is not known here"),
        ("nodes = 2", 'nodes = 2\ntopology = "star"', "topology does not fit: Invalid enum value"),
        ('"H100"', '"H1000000"', "H1000000"),
        ("gb_s = 450", "gb_s = -1", "inside.gb_s does not fit: Expected float >= 0.01"),
        ("[between]", "[elsewhere]", "elsewhere is not known here"),
        ("[inside]", "[inside", "not TOML"),
    ],
)
def test_wrong_descriptions_say_what_is_wrong(old, new, message):
    with pytest.raises(UsageError, match=message):
        cluster_from(TEXT.replace(old, new, 1), "mine.toml")


def test_unknown_clusters(tmp_path):
    with pytest.raises(UsageError, match="no cluster"):
        cluster_named("cray-1")
    with pytest.raises(UsageError, match="cannot be read"):
        cluster_named(str(tmp_path / "none.toml"))


def test_bill_pays_whole_nodes():
    cluster = cluster_from(TEXT, "mine.toml")
    paid = bill(cluster, 7.2e6, Interval(1000, 500, 2000))
    assert paid.hours == Interval(2, 1, 4)
    assert paid.usd == Interval(40, 20, 80)


def test_amounts():
    assert read_budget_usd("$5,000") == read_budget_usd("5k") == 5000
    assert read_deadline_s("3d") == 3 * 86400
    assert read_count("1.5B") == 1.5e9
    for read, wrong in (
        (read_budget_usd, "much"),
        (read_deadline_s, "soon"),
        (read_deadline_s, "0h"),
        (read_count, "-3"),
    ):
        with pytest.raises(UsageError):
            read(wrong)
