from __future__ import annotations

from pathlib import Path

from skyline.report.place import common_base, fitted_path, middle, place, shown_from


def test_a_path_is_shown_from_the_folder_above_it() -> None:
    assert place("/a/b/model.py", 88, Path("/a")) == "b/model.py:88"
    assert place("/elsewhere/model.py", 88, Path("/a")) == "/elsewhere/model.py:88"
    assert place("/a/b/model.py", 0, None) == "/a/b/model.py"


def test_the_middle_goes_first_and_the_line_number_never() -> None:
    assert middle("nano/augmentations/noise.py:1204", 18) == "nano/aug…e.py:1204"
    assert middle("model.py:88", 11) == "model.py:88"
    assert len(middle("x" * 50, 7)) == 7
    assert middle("abc", 1) == "…"


def test_modules_beside_and_below_the_script_share_its_folder() -> None:
    assert common_base("/home/ada/nano/train.py", ("/home/ada/nano/nano/model.py",)) == Path("/home/ada/nano")


def test_the_root_is_no_base() -> None:
    assert common_base("/home/ada/train.py", ("/opt/lib/model.py",)) == Path("/home/ada")


def test_a_script_elsewhere_is_shown_from_its_own_folder() -> None:
    script = "/home/ada/nano/train.py"
    assert shown_from(Path("/home/ada"), script, (script,)) == Path("/home/ada")
    assert shown_from(Path("/tmp"), script, (script,)) == Path("/home/ada/nano")
    assert shown_from(None, script, (script,)) == Path("/home/ada/nano")


def test_a_package_beside_the_folder_is_shown_relative_to_it() -> None:
    base = Path("/home/ada/nano/examples")
    assert place("/home/ada/nano/nano/model.py", 88, base) == "../nano/model.py:88"
    assert place("/usr/lib/python3/random.py", 1, base) == "/usr/lib/python3/random.py:1"
    assert place("In [3]", 2, base) == "In [3]:2"


def test_folders_are_cut_before_the_name() -> None:
    assert fitted_path("models/networks/resnet.py:88", 40) == "models/networks/resnet.py:88"
    assert fitted_path("models/networks/resnet.py:88", 22) == "models/n…/resnet.py:88"
    assert fitted_path("models/networks/resnet.py:88", 15) == "…/resnet.py:88"
    assert fitted_path("models/networks/resnet.py:88", 13) == "resnet.py:88"
    assert fitted_path("models/networks/resnet.py:88", 10) == "resn…py:88"
