from skyline.memory.growth import growth
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation, Phase

END = MemoryFact(10, 10, 20, 0)
ALLOCATIONS = (
    Allocation(1.0, 2, 1, Phase.DATA),
    Allocation(2.0, 30, 2, Phase.FORWARD),
    Allocation(3.0, 10, 3, Phase.BACKWARD),
    Allocation(4.0, -30, 2, Phase.BACKWARD),
    Allocation(5.0, 40, 4, Phase.OPTIMIZER),
    Allocation(6.0, -40, 4, Phase.OPTIMIZER),
    Allocation(7.0, -2, 1, Phase.OTHER),
)


def test_the_peak_moves_from_the_optimizers_step_to_the_forward_pass():
    found = growth(END, ALLOCATIONS, 0)
    assert found is not None
    standing = END.total_bytes - 10
    assert found.peak_bytes(1.0) == standing + 2 + 10 + 40
    assert found.peak_bytes(0.5) == standing + 1 + 10 + 40
    assert found.peak_bytes(4.0) == standing + 4 * (2 + 30) + 10


def test_what_the_recording_does_not_explain_stays():
    found = growth(END, ALLOCATIONS, 1000)
    assert found is not None
    assert found.peak_bytes(1.0) == 1000
    assert found.peak_bytes(0.5) == 999


def test_without_allocations_nothing_is_known():
    assert growth(END, (), 1000) is None


def test_blocks_become_too_large_to_be_kept_as_the_batch_grows():
    mib = 1 << 20
    taken = (
        Allocation(1.0, 12 * mib, 1, Phase.FORWARD),
        Allocation(2.0, 20 * mib, 2, Phase.FORWARD),
        Allocation(3.0, 30 * mib, 3, Phase.BACKWARD),
        Allocation(4.0, -20 * mib, 2, Phase.BACKWARD),
        Allocation(5.0, -12 * mib, 1, Phase.BACKWARD),
    )
    found = growth(MemoryFact(0, 0, 30 * mib, 0), taken, 0)
    assert found is not None
    assert found.large_bytes(1.0) == 0
    assert found.large_bytes(1.5) == 0
    assert found.large_bytes(2.0) == 40 * mib
    assert found.large_bytes(3.0) == (36 + 60) * mib


def test_a_large_block_goes_where_enough_of_what_is_kept_lies_free():
    mib = 1 << 20
    taken = (
        Allocation(1.0, 10 * mib, 1, Phase.FORWARD),
        Allocation(2.0, 10 * mib, 2, Phase.FORWARD),
        Allocation(3.0, -10 * mib, 1, Phase.FORWARD),
        Allocation(4.0, -10 * mib, 2, Phase.FORWARD),
        Allocation(5.0, 18 * mib, 3, Phase.BACKWARD),
        Allocation(6.0, 18 * mib, 4, Phase.BACKWARD),
        Allocation(7.0, -18 * mib, 3, Phase.BACKWARD),
        Allocation(8.0, 18 * mib, 5, Phase.BACKWARD),
        Allocation(9.0, -18 * mib, 4, Phase.BACKWARD),
        Allocation(10.0, -18 * mib, 5, Phase.BACKWARD),
    )
    found = growth(MemoryFact(0, 0, 36 * mib, 0), taken, 0)
    assert found is not None
    # Twice 18 MiB are large; of the two that live at the same time only one finds room in twice 20 MiB.
    assert found.large_bytes(2.0) == 36 * mib
