"""What-ifs stand in folders by what they touch; a new module in one of them is a new what-if."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import skyline
from skyline.whatif.registry import names, whatifs

NEW = """
from dataclasses import dataclass
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf

@dataclass(frozen=True, slots=True)
class Nothing(UsualWhatIf):
    name: str = "nothing"
    words: str = "change nothing"

    def detect(self, subject: Subject) -> Applicability:
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        return scenario

WHATIF = Nothing()
"""


def test_each_lies_in_a_folder() -> None:
    own = [type(one).__module__ for one in whatifs().values() if type(one).__module__.startswith("skyline.")]
    folders = {module.split(".")[3] for module in own if len(module.split(".")) == 5}
    assert folders == {"numerics", "loading", "memory", "host", "parallel", "models"}
    assert all(len(module.split(".")) == 5 for module in own)


def test_names_are_known_without_importing_what_they_name() -> None:
    assert names() == set(whatifs())


def test_one_new_file_is_one_new_whatif(tmp_path: Path) -> None:
    package = Path(skyline.__file__).parent
    shutil.copytree(package, tmp_path / "skyline", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "skyline/whatif/catalogue/memory/nothing.py").write_text(NEW, encoding="utf-8")
    asked = "from skyline.whatif.registry import whatif_named; print(whatif_named('nothing').title(''))"
    found = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == "change nothing", found.stderr
