"""Which part may know which: the directions of imports, and what each process must be able to do without."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
CHILD = REPOSITORY / "skyline" / "capture" / "child"

IMPORT_ALL_OF = """
import importlib, json, pathlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
skipped = ("skyline.capture.child", "skyline.calibrate.child", "skyline.__main__")
names = [name for name in names if not name.startswith(skipped)]
for name in names:
    importlib.import_module(name)
print(json.dumps({"imported": names, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def import_all_of(package: str) -> tuple[list[str], set[str]]:
    """The modules of a package, and the top-level names that are loaded once all of them are."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL_OF, package],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # A module that prints while it is imported would break a server that speaks over stdout.
    assert done.stdout.count("\n") == 1, f"importing {package} printed: {done.stdout}"
    told = json.loads(done.stdout)
    return told["imported"], set(told["loaded"])


def test_the_core_needs_no_front_end_and_no_torch() -> None:
    imported, loaded = import_all_of("skyline")
    assert "skyline.interval" in imported
    unwanted = {"torch", "numba", "textual", "pygls", "lsprotocol", "watchdog", "skyline_lsp", "skyline_tui"}
    assert not loaded & unwanted


def test_the_server_needs_neither_torch_nor_textual() -> None:
    _, loaded = import_all_of("skyline_lsp")
    assert not loaded & {"torch", "textual", "skyline_tui"}


def test_the_terminal_needs_neither_torch_nor_the_server() -> None:
    _, loaded = import_all_of("skyline_tui")
    assert not loaded & {"torch", "skyline_lsp"}


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['skyline', '--help']\n"
    code += "import runpy\n"
    code += "try:\n    from skyline.cli.main import main; main()\nexcept SystemExit: pass\n"
    code += "print(sorted({n.partition('.')[0] for n in sys.modules}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "profile" in done.stdout
    loaded = set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))
    assert not loaded & {"torch", "textual", "pygls", "jinja2", "libcst", "numpy", "numba"}


def imported_names(path: Path) -> set[str]:
    """The top-level names a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_the_capture_child_needs_the_standard_library_and_torch_alone() -> None:
    files = list(CHILD.rglob("*.py"))
    assert files
    own = {path.stem for path in files} | {CHILD.name, "skyline"}
    foreign = {
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in files
        for name in imported_names(path)
        if name not in sys.stdlib_module_names and name not in own and name != "torch"
    }
    assert not foreign


def test_import_directions() -> None:
    pytest.importorskip("importlinter")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


PACKAGES = {
    "skyline": "skyline",
    "skyline_lsp": "lsp/skyline_lsp",
    "skyline_tui": "tui/skyline_tui",
    "skyline_predictors": "predictors/skyline_predictors",
}


def test_benchmarks_import_only_what_the_product_has() -> None:
    """Type checks leave out what a script's own process imports, and a benchmark that takes minutes runs in no test."""
    missing = [
        f"{file.relative_to(REPOSITORY)}: {module}.{name}"
        for file in sorted((REPOSITORY / "benchmarks").rglob("*.py"))
        for module, name in product_names(file)
        if not defines(module, name)
    ]
    assert not missing


def product_names(file: Path) -> list[tuple[str, str]]:
    return [
        (node.module, one.name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES
        for one in node.names
    ]


@cache
def names_in(file: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {one.asname or one.name for one in node.names}
    return frozenset(names)


def defines(module: str, name: str) -> bool:
    package, *path = module.split(".")
    place = (REPOSITORY / PACKAGES[package]).joinpath(*path)
    if place.is_dir():
        if (place / f"{name}.py").exists() or (place / name).is_dir():
            return True
        place /= "__init__"
    file = place.with_suffix(".py")
    return file.exists() and name in names_in(file)
