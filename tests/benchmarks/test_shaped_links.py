"""Two ranks over shaped links: the limit of a link, and the figures of turns."""

from __future__ import annotations

import subprocess

import pytest


def test_rates_in_the_words_of_tc():
    from network_namespaces import shaping
    from shaped_links import limit_of

    command = shaping("skyline0", 0.25)
    assert command[command.index("rate") + 1] == "250000kbit"
    assert command[command.index("dev") + 1] == "skyline0"
    assert limit_of("0.25") == 0.25
    assert limit_of("unlimited") is None


def test_links_are_shaped_and_end_with_their_namespaces():
    from network_namespaces import LinkedNamespaces, why_not

    if reason := why_not():
        pytest.skip(reason)
    with LinkedNamespaces() as linked:
        linked.shape(0.1)
        assert all("tbf" in linked.shaped(place) and "100Mbit" in linked.shaped(place) for place in (0, 1))
        linked.shape(None)
        linked.shape(None)
        assert not any("tbf" in linked.shaped(place) for place in (0, 1))
        listed = subprocess.run(
            linked.command(1, "ip", "-brief", "address"), capture_output=True, text=True, check=True
        ).stdout
        assert f"{linked.interface(1)}@" in listed
        assert linked.address(1) in listed
        command = linked.command(0, "true")
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_missing_programs_are_the_reason(monkeypatch):
    import network_namespaces

    monkeypatch.setattr("shutil.which", lambda name: None if name == "tc" else f"/sbin/{name}")
    monkeypatch.setattr("sys.platform", "linux")
    assert "tc not found" in network_namespaces.why_not()


def test_steps_of_rounds_whose_null_is_steady():
    from shaped_links import page, scored

    # 10 MB at 0.1 Gbit/s take 800 ms; the profile says that 600 of them add to the step.
    times = [[100.0, 102.0, 707.0], [100.0, 98.0, 693.0], [100.0, 100.0, 700.0], [100.0, 150.0, 9000.0]]
    (row,) = scored("one", ["0.1"], [0.09], [0.1], [(600.0, 500.0, 800.0)], times, 10e6)
    assert row.discarded == 1
    assert row.predicted == pytest.approx(7)
    assert (row.low, row.high) == pytest.approx((6, 9))
    assert row.measured.value == pytest.approx(7)
    assert row.added == pytest.approx(9)
    assert row.error == pytest.approx(0)
    assert "1 of 1" in page([row], 4, 0.1)
    assert "Other programs" in page([row], 4, 3.0)


def test_too_few_steady_rounds_say_nothing(capsys):
    from shaped_links import page, scored

    times = [[100.0, 150.0, 700.0]] * 5
    assert scored("one", ["0.1"], [0.09], [0.1], [(600.0, 500.0, 800.0)], times, 10e6) == []
    assert "0 of 5 rounds" in capsys.readouterr().err
    assert "too busy" in page([], 5, 9.0)
