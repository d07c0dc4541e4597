from pathlib import Path

import pytest

from skyline.calibrate.case import Case
from skyline.calibrate.machine import CalibratedDevice
from skyline.calibrate.store import CaseTime, append, folder, path_of, read, stamps, stored
from skyline.errors import UsageError

MACHINE = CalibratedDevice("Example CPU 9000 @ 3.0GHz", "cpu", 4, 2**34, 3000, 384.0, 2**25, "2.13.0")
ROWS = (
    CaseTime(Case("mm", (("k", 8), ("m", 4), ("n", 2))), 12.5, 0.1),
    CaseTime(
        Case("conv", (("b", 1), ("cin", 3)), "bf16", 1), None, 0.0, "RuntimeError: no such format, here"
    ),
)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path))


def test_what_is_written_is_read_again():
    append(path_of(MACHINE), MACHINE, ROWS)
    append(path_of(MACHINE), MACHINE, ROWS[:1])
    machine, rows = read(path_of(MACHINE))
    assert machine == MACHINE
    assert [one.case.key for one in rows] == [one.case.key for one in (*ROWS, ROWS[0])]
    assert [one.time_us for one in rows] == [12.5, None, 12.5]
    assert rows[1].note == "RuntimeError: no such format here"
    assert [machine.slug for machine, _ in stored()] == ["example-9000-4t"]


@pytest.mark.parametrize("lost", range(1, 40, 3))
def test_a_row_that_was_cut_off_costs_itself_alone(lost):
    path = path_of(MACHINE)
    append(path, MACHINE, ROWS[:1])
    append(path, MACHINE, ROWS[1:])
    path.write_bytes(path.read_bytes()[:-lost])
    append(path, MACHINE, ROWS[:1])
    found = [one.case.key for one in read(path)[1]]
    assert found[0] == ROWS[0].case.key
    assert found[-1] == ROWS[0].case.key
    assert len(found) >= 2


def test_other_files_are_refused_and_passed_over():
    folder().mkdir(parents=True)
    wrong = folder() / "wrong.csv"
    for content in (b"", b"op,gpu\nmm,T4\n", b"# {}\n", b"\xff\xfe# nothing"):
        wrong.write_bytes(content)
        with pytest.raises(UsageError, match="not a file of measured operators"):
            read(wrong)
    assert stored() == ()
    with pytest.raises(UsageError, match="cannot be read"):
        read(folder() / "missing.csv")


def test_a_disk_without_room_is_told():
    with pytest.raises(UsageError, match="cannot be written") as raised:
        append(Path("/dev/full"), MACHINE, ROWS)
    assert "SKYLINE_DATA_DIR" in raised.value.hint


def test_the_stamp_changes_with_the_files():
    assert stamps() == ()
    append(path_of(MACHINE), MACHINE, ROWS)
    before = stamps()
    assert before == stamps()
    path_of(MACHINE).unlink()
    assert stamps() != before
