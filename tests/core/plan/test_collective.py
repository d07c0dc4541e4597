import pytest

from skyline.plan.collective import (
    Fabric,
    RankGroup,
    all_gather_us,
    all_reduce_us,
    all_to_all_us,
    hierarchical_all_reduce_us,
    ring_all_reduce_us,
    send_us,
    sparse_all_reduce_us,
    sparse_parts,
    tree_all_reduce_us,
)

# 100 bytes per us inside a node, 40 between nodes of 4 GPUs; 1 us and 5 us of latency.
FABRIC = Fabric(100.0, 40.0, 1.0, 5.0, 4)


def test_ring_inside_a_node():
    # Three hops of 1 us and 3/4 of the bytes at 100 bytes/us.
    assert all_gather_us(FABRIC, RankGroup(4, 4), 800) == pytest.approx(3 + 6)
    assert ring_all_reduce_us(FABRIC, RankGroup(4, 4), 800) == pytest.approx(18)


def test_ring_over_two_nodes_is_bound_by_the_network():
    # Seven hops, one of them between nodes; 7/8 of the bytes at 40 bytes/us.
    assert all_gather_us(FABRIC, RankGroup(8, 4), 800) == pytest.approx(6 * 1 + 5 + 700 / 40)


def test_groups_of_one_rank_a_node_share_the_network():
    # Four such groups cross at the same time: 10 bytes/us for each.
    assert all_gather_us(FABRIC, RankGroup(2, 1), 800) == pytest.approx(5 + 400 / 10)


def test_hierarchical_all_reduce_moves_a_part_between_nodes():
    inside = 2 * (3 + 6)
    between = 2 * (5 + (800 / 4) / 2 / 10)
    assert hierarchical_all_reduce_us(FABRIC, RankGroup(8, 4), 800) == pytest.approx(inside + between)


def test_tree_wins_for_small_messages_on_many_nodes():
    group = RankGroup(256, 4)
    assert tree_all_reduce_us(FABRIC, group, 8) == pytest.approx(2 * (6 * 5 + 3 + 8 / 40))
    assert all_reduce_us(FABRIC, group, 8) == tree_all_reduce_us(FABRIC, group, 8)


def test_one_rank_communicates_nothing():
    assert all_gather_us(FABRIC, RankGroup(1, 1), 800) == 0
    assert all_reduce_us(FABRIC, RankGroup(1, 1), 800) == 0
    assert all_to_all_us(FABRIC, RankGroup(1, 1), 800) == 0


def test_all_to_all_and_messages():
    assert all_to_all_us(FABRIC, RankGroup(4, 4), 800) == pytest.approx(3 + 3 * 200 / 100)
    # Four of eight parts leave the node, at a quarter of its network.
    assert all_to_all_us(FABRIC, RankGroup(8, 4), 800) == pytest.approx(5 + 400 / 10)
    assert send_us(FABRIC, 100, same_node=True) == pytest.approx(2)
    assert send_us(FABRIC, 100, same_node=False) == pytest.approx(15)


def test_sparse_exchange_by_hand():
    # 1 % of 800 bytes with indices are 16 bytes of each rank; seven others send theirs.
    fabric = Fabric(10.0, 4.0, 0.0, 0.0, 8)
    one = RankGroup(8, 8)
    assert sparse_all_reduce_us(fabric, one, 800, 0.01) == pytest.approx(7 * 16 / 10)
    # Two nodes: 7/8 of 800 inside; a part of 100 has 2 bytes for the other node, whose link is shared by eight;
    # then the chosen numbers of both nodes, 32 bytes, inside.
    two = RankGroup(16, 8)
    expected = 700 / 10 + 2 / (4 / 8) + 32 * 7 / 8 / 10
    assert sparse_all_reduce_us(fabric, two, 800, 0.01) == pytest.approx(expected)
    assert (sparse_parts(one), sparse_parts(two)) == (1, 8)
