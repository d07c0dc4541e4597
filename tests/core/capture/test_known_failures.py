"""The next step for failures of scripts whose cause is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.capture.child.sandbox.network_and_programs import REFUSED
from skyline.capture.ended_early import next_step


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", "one release"),
        ("ModuleNotFoundError: No module named 'imageio.v3'", "no module imageio.v3"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "TMPDIR"),
        ("AssertionError: Torch not compiled with CUDA enabled", "--gpu h100"),
        ("MisconfigurationException: No supported gpu backend found!", "--gpu h100"),
        (
            "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
            "--gpu h100",
        ),
        ("ValueError: environment variable RANK expected, but not set", "torchrun"),
        ("KeyError: 'LOCAL_RANK'", "skyline.profile.launcher"),
        (
            "RuntimeError: Error downloading train-images.gz: <urlopen error [Errno -2] Name or service not known>",
            "server could not be reached",
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
            "could not be reached",
        ),
        ("ConnectionError: Couldn't reach 'imdb' on the Hub (ConnectError)", "could not be reached"),
        ("EOFError: EOF when reading a line", "from an argument"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "--gpu h100"),
    ],
)
def test_a_known_cause_has_a_next_step(message: str, words: str) -> None:
    assert words in next_step(message)


def test_a_cause_further_up_in_the_traceback_counts_and_quoted_code_does_not() -> None:
    raised = (
        "Traceback (most recent call last):\n  File 'model.py', line 3\n    raise RuntimeError({})\n{}\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "ModuleNotFoundError: Could not import module 'Trainer'."
    )
    last, cause = (
        "ModuleNotFoundError: Could not import module 'Trainer'.",
        "operator torchvision::nms does not exist",
    )
    assert "one release" in next_step(last, traceback=raised.format("cause", f"RuntimeError: {cause}"))
    assert next_step(last, traceback=raised.format(f"'{cause}'", "RuntimeError: another")) == ""


def test_an_unknown_one_has_none() -> None:
    assert next_step("ValueError: not a number") == ""


def test_a_missing_module_names_the_interpreter_that_lacks_it() -> None:
    advice = next_step("ModuleNotFoundError: No module named 'einops'", "/opt/env/bin/python")
    assert advice.startswith("/opt/env/bin/python has no module einops.")


def test_a_missing_module_of_the_project_is_no_package_to_install(tmp_path: Path) -> None:
    script = tmp_path / "project" / "examples" / "sort.py"
    raised = f'Traceback (most recent call last):\n  File "{script}", line 3, in <module>\n'
    missing = "ModuleNotFoundError: No module named 'pointers.models'"
    assert "Install it" in next_step(missing, traceback=raised)
    package = tmp_path / "project" / "pointers"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    advice = next_step(missing, traceback=raised)
    assert f"its folder {tmp_path / 'project'} is not on Python's path" in advice
    assert "skyline profile -m examples.sort." in advice


@pytest.mark.parametrize(
    "message",
    [
        "urllib.error.HTTPError: HTTP Error 404: Not Found",
        "DistNetworkError: addresses of (node1, 29500) not found (gai error: -2 - Name or service not known)",
        f"URLError: <urlopen error [Errno -2] {REFUSED}>",
    ],
)
def test_a_server_that_answered_another_rank_and_a_refusal_of_skyline_are_no_lost_server(
    message: str,
) -> None:
    assert next_step(message) == ""
