"""An editor session over a script that trains on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.report import protocol

pytestmark = [
    pytest.mark.capture,
    pytest.mark.fresh,
    pytest.mark.xdist_group("gpu"),
    pytest.mark.usefixtures("brief_start"),
]

BOUND = Path(__file__).resolve().parents[1] / "e2e" / "gpu" / "scripts" / "bound.py"


async def test_a_profile_on_a_gpu_and_what_it_asks_for(
    start_editor, project: Path, gpu_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATED_GPU", "kernel_us=500")
    (project / "train.py").write_text(BOUND.read_text().replace("sys.argv[1]", '"device"'))
    editor = await start_editor({"interpreter": str(gpu_python)})
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, {"steps": 4, "batchPoints": 0})
    await editor.until(editor.idle)

    profile = await editor.ask(protocol.PROFILE, uri=train)
    assert profile["device"]["kind"] == "cuda"
    assert profile["critical_path"]["gpu_compute"] > 0.5
    assert any("ms" in lens for lens in await editor.lenses(train))
    asked = await editor.ask(protocol.SIMULATE, uri=train, batchSize=None, whatifs=["amp=bf16"])
    assert asked["iteration_ms"]["value"] < profile["iteration_ms"]["value"]
