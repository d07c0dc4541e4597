"""The types of the clients in TypeScript are those of the Python protocol."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from skyline.report import protocol
from skyline_lsp.typescript import METHODS, Declarations, generated

REPOSITORY = Path(__file__).resolve().parents[2]
EXTENSION = REPOSITORY / "extension"
FILE = EXTENSION / "src" / "protocol.generated.ts"


def test_the_generated_file_is_current() -> None:
    if not EXTENSION.exists():
        pytest.skip("the extension is not part of this source tree")
    assert FILE.read_text(encoding="utf-8") == generated(), (
        f"python -m skyline_lsp.typescript > {FILE.relative_to(REPOSITORY)}"
    )


def test_every_message_has_its_types() -> None:
    named = {
        value
        for name, value in vars(protocol).items()
        if name.isupper() and isinstance(value, str) and value.startswith(("skyline/", "skyline."))
    }
    assert {method.name for method in METHODS if method.kind != "options"} == named
    assert len({method.name for method in METHODS}) == len(METHODS)


def test_what_is_sent_may_lack_what_has_a_default_and_what_comes_back_may_not() -> None:
    declared = Declarations()
    assert declared.name(protocol.QuestionParams, sent=True) == "QuestionParams"
    (text,) = declared
    assert "  readonly uri: string;\n" in text
    assert "  readonly batchSize?: number | null;\n" in text
    assert "  readonly whatifs?: readonly string[];\n" in text
    declared = Declarations()
    declared.name(protocol.ApplyResult, sent=False)
    refusal, result = sorted(declared, key=lambda text: "ApplyResult" in text)
    assert "  readonly reason: string | null;\n" in result
    assert "  readonly refused: readonly Refusal[];\n" in result
    assert "export interface Refusal {" in refusal
    assert declared.name(dict[str, float | None], sent=False) == "Readonly<Record<string, number | null>>"
    with pytest.raises(TypeError, match="two different types"):
        declared.name(protocol.ApplyResult, sent=True)


def test_it_is_typescript(tmp_path: Path) -> None:
    compiler = EXTENSION / "node_modules" / ".bin" / "tsc"
    if not compiler.exists() or shutil.which("node") is None:
        pytest.skip("the TypeScript compiler is not installed: make extension does it")
    file = tmp_path / "protocol.ts"
    file.write_text(generated(), encoding="utf-8")
    # The compiler's own declarations need no check.
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2022"]
    command = [str(compiler), *options, str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
