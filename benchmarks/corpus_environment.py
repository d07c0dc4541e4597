"""The environment of the corpus scripts: a torchvision that can be imported, generated data, no network, no display."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from corpus_script import CorpusScript

MAKER = Path(__file__).with_name("corpus_data.py")
_TIMEOUT_S = 600.0
_ALWAYS = {
    "MPLBACKEND": "Agg",
    "WANDB_MODE": "disabled",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_MADE_DATA = '''\
"""Lets torchvision, tiktoken and Keras accept generated data with other checksums{also}."""

import importlib.util
import sys


class Prepared:
    asking = False

    def find_spec(self, name, path, target=None):
        if name not in PREPARED or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is not None:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: PREPARED[name](run, module)
        return spec


def data_sets(run, module):
{operators}    run(module)
    import torchvision.datasets.utils

    torchvision.datasets.utils.check_md5 = lambda *args, **kwargs: True


def vocabularies(run, module):
    run(module)
    module.check_hash = lambda *args: True


def archives(run, module):
    run(module)
    module.validate_file = lambda *args, **kwargs: True


PREPARED = {{
    "torchvision": data_sets,
    "tiktoken.load": vocabularies,
    "keras.src.utils.file_utils": archives,
}}
sys.meta_path.insert(0, Prepared())
'''
_OPERATORS = """\
    import torch

    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    module._kept = library
"""


class NoData(Exception):
    """A script's data cannot be made here. The message gives the reason."""


def environment(script: CorpusScript, checkout: Path, repair: Path, threads: int) -> dict[str, str]:
    """All environment variables of a run. ``repair`` is the folder written by ``write_repair``."""
    own = dict(script.environment or {})
    beside = own.pop("PYTHONPATH", "")
    beside = str((script.working_directory(checkout) / beside).resolve()) if beside else ""
    path = os.pathsep.join(filter(None, (str(repair), beside, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, **_ALWAYS, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads), **own}


def write_repair(folder: Path, interpreter: str) -> str:
    """Write the start-up module that the environment needs. Returns what it repairs, as text for the result page."""
    folder.mkdir(parents=True, exist_ok=True)
    probe = [interpreter, "-c", "import torch, torchvision"]
    broken = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    operators = "operator torchvision::nms does not exist" in broken.stderr
    also = ", and torchvision import with a PyTorch for which it has no operators" if operators else ""
    (folder / "sitecustomize.py").write_text(
        _MADE_DATA.format(also=also, operators=_OPERATORS if operators else ""), encoding="utf-8"
    )
    mended = "torchvision's operators are declared, because its import needs them here; " if operators else ""
    return (
        f"A start-up module of the benchmark changes the environment, not the scripts: {mended}"
        "checks of the data sets' checksums always succeed, because the data are generated."
    )


def make_data(script: CorpusScript, checkout: Path, interpreter: str, variables: Mapping[str, str]) -> None:
    """Make the data that the script reads, once per checkout. Raises NoData."""
    made = checkout / ".made"
    made.mkdir(exist_ok=True)
    for what, where in script.data:
        mark = made / f"{what} {where}".replace("/", "+")
        if not mark.exists():
            _run([interpreter, str(MAKER), what, str(checkout / where)], checkout, variables)
            mark.touch()
    mark = made / script.prepare.replace("/", "+")
    if script.prepare and not mark.exists():
        file = checkout / script.prepare
        _run([interpreter, str(file)], file.parent, variables)
        mark.touch()


def _run(command: list[str], folder: Path, variables: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise NoData("generating its data took too long") from None
    if done.returncode:
        raise NoData(f"its data could not be generated: {last_line(done.stderr)}")


def last_line(text: str) -> str:
    """The line of an error output that names the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it ended without a message"
