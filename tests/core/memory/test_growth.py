from skyline.memory.growth import growth
from skyline.trace.facts import MemoryFact
from skyline.trace.phase import Phase
from skyline.trace.record import Allocation

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
