"""Python in the VS Code extension: each distribution once, as pinned, and compiled parts side by side."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def bundle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("skyline_bundle", REPOSITORY / "extension" / "bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(folder: Path, tag: str, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"lib-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {"lib-1.0.dist-info/METADATA": "Name: lib\n", **files}.items():
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("target", ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"])
def test_all_that_the_server_needs_is_pinned(bundle: ModuleType, target: str) -> None:
    markers = bundle.environment(target)
    pinned = bundle.pins(bundle.CONSTRAINTS.read_text(encoding="utf-8").splitlines(), markers)
    seen, waiting = set(bundle.NOT_BUNDLED), {"skyline-profiler"}
    while wanted := waiting - seen:
        seen |= wanted
        waiting = set()
        for name in wanted:
            # Distributions that only the oldest Python needs are not installed on this one.
            if name not in {"tomli", "exceptiongroup"}:
                waiting |= bundle.asked_for(
                    importlib.metadata.distribution(name).read_text("METADATA"), markers
                )
    found = seen - set(bundle.NOT_BUNDLED) - {"skyline-profiler"}
    assert {"pygls", "lsprotocol", "msgspec", "rich", "watchdog", "tomli"} <= found
    assert found <= set(pinned)
    assert not {"textual", "platformdirs", "linkify-it-py", "mdurl", "numpy"} & found


def test_the_pin_for_the_oldest_python_holds_for_all(bundle: ModuleType) -> None:
    lines = [
        "# Why.",
        "",
        'a_b==1.0 ; python_version < "3.11"',
        'a-b==2.0 ; python_version >= "3.11"',
        "c==3.0",
    ]
    assert bundle.pins(lines, bundle.environment("linux-x64")) == {"a-b": "1.0", "c": "3.0"}


def test_a_distribution_asks_for_nothing_of_its_extras(bundle: ModuleType) -> None:
    asked = (
        'Requires-Dist: A.b>=1\nRequires-Dist: c; extra == "d"\nRequires-Dist: e; python_version < "3.11"\n'
    )
    assert bundle.asked_for(asked, bundle.environment("linux-x64")) == {"a-b", "e"}


def test_compiled_parts_lie_side_by_side(bundle: ModuleType, tmp_path: Path) -> None:
    shared = {
        "lib/__init__.py": "1",
        "lib/x.pyi": "",
        "lib/tests/test_x.py": "",
        "lib-1.0.dist-info/RECORD": "",
    }
    for tag in ("310", "311"):
        files = {**shared, f"lib/_x.cpython-{tag}-x.so": tag, "lib-1.0.dist-info/WHEEL": tag}
        bundle.unpack(wheel(tmp_path, f"cp{tag}-cp{tag}-linux_x86_64", files), tmp_path / "libs")
    found = {
        path.relative_to(tmp_path / "libs").as_posix()
        for path in (tmp_path / "libs").rglob("*")
        if path.is_file()
    }
    compiled = {"lib/_x.cpython-310-x.so", "lib/_x.cpython-311-x.so"}
    assert found == {"lib/__init__.py", "lib-1.0.dist-info/METADATA", *compiled}


def test_code_that_differs_between_pythons_is_refused(bundle: ModuleType, tmp_path: Path) -> None:
    bundle.unpack(wheel(tmp_path, "cp310-cp310-linux_x86_64", {"lib/__init__.py": "1"}), tmp_path / "libs")
    other = wheel(tmp_path, "cp311-cp311-linux_x86_64", {"lib/__init__.py": "2"})
    with pytest.raises(SystemExit, match=r"has a different lib/__init__\.py than the wheel for Python 3\.10"):
        bundle.unpack(other, tmp_path / "libs")


@pytest.mark.parametrize(
    ("tag", "alone"),
    [
        ("cp310-cp310-manylinux2014_x86_64", True),
        ("cp36-abi3-manylinux2014_x86_64", False),
        ("py3-none-any", False),
    ],
)
def test_wheels_for_one_python_are_known_by_their_name(
    bundle: ModuleType, tmp_path: Path, tag: str, alone: bool
) -> None:
    assert bundle.is_for_one_python(wheel(tmp_path, tag, {})) is alone


@pytest.mark.parametrize("page", ["extension/README.md", "docs/editors/vscode.md"])
def test_the_pages_name_the_pythons_that_are_supported(bundle: ModuleType, page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert set(re.findall(r"Python (3\.\d+ to 3\.\d+)", text)) == {
        f"{bundle.PYTHONS[0]} to {bundle.PYTHONS[-1]}"
    }
