"""The public scripts and notebooks of the corpus: the place and the needs of each, read from ``corpus.toml``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomllib

CORPUS = Path(__file__).with_name("corpus.toml")


@dataclass(frozen=True, slots=True)
class CorpusScript:
    """One way to run one public script.

    ``folder`` is the folder to run in, relative to its repository (by default its own folder).
    ``ranks`` is the number of processes, as ``torchrun`` would start them. ``gpu_arguments`` replace ``arguments`` if
    the script is traced for a GPU and takes its device from the command line; None otherwise.
    ``data`` are (what, where) pairs of data to make in the repository's folder; ``prepare`` is a script in the
    repository that makes its data. ``unavailable`` is the reason why it cannot be run at all, in simple words.
    ``spent`` is the results page that scored it as a script that sets no constant, which can be done once.
    ``batch_size`` is the size in its source and arguments, read by a person: 0 if it has none, None if nobody looked.
    """

    name: str
    style: str
    repository: str
    commit: str
    path: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] | None = None
    data: tuple[tuple[str, str], ...] = ()
    prepare: str = ""
    unavailable: str = ""
    ranks: int = 1
    spent: str = ""
    gpu_arguments: tuple[str, ...] | None = None
    batch_size: int | None = None

    @property
    def is_notebook(self) -> bool:
        """True for a notebook, False for a script."""
        return self.path.endswith(".ipynb")

    @property
    def title(self) -> str:
        """Repository and path, as in the table."""
        return f"{self.repository}: {self.path}"

    def working_directory(self, checkout: Path) -> Path:
        """The folder in which it is started."""
        return checkout / self.folder if self.folder else (checkout / self.path).parent


def read_corpus(path: Path = CORPUS) -> tuple[CorpusScript, ...]:
    """Every script of the list, in its order. Raises ValueError for a repeated name or an unpinned repository."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    commits: dict[str, str] = content["commits"]
    scripts: list[CorpusScript] = []
    for entry in content["script"]:
        repository = entry["repository"]
        if repository not in commits:
            raise ValueError(f"{path.name} pins no commit of {repository}")
        if any(script.name == entry["name"] for script in scripts):
            raise ValueError(f"{path.name} has two scripts named {entry['name']}")
        scripts.append(
            CorpusScript(
                name=entry["name"],
                style=entry["style"],
                repository=repository,
                commit=commits[repository],
                path=entry["path"],
                arguments=tuple(shlex.split(entry.get("arguments", ""))),
                folder=entry.get("folder", ""),
                environment=entry.get("environment"),
                data=tuple(_pair(one) for one in entry.get("data", ())),
                prepare=entry.get("prepare", ""),
                unavailable=entry.get("unavailable", ""),
                ranks=entry.get("ranks", 1),
                spent=entry.get("spent", ""),
                gpu_arguments=tuple(shlex.split(entry["gpu_arguments"]))
                if "gpu_arguments" in entry
                else None,
                batch_size=entry.get("batch_size"),
            )
        )
    return tuple(scripts)


def _pair(one: str) -> tuple[str, str]:
    what, _, where = one.partition(" ")
    return what, where
