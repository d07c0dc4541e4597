"""The last-level cache, as Linux describes it, and the part of it that a process has."""

from __future__ import annotations

from skyline.capture.child import facts


def test_the_share_of_the_last_level_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(facts.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    for name, size, shared in (("index0", "48K", "0"), ("index3", "32M", "0-3,8-11")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "size").write_text(f"{size}\n")
        (tmp_path / name / "shared_cpu_list").write_text(f"{shared}\n")
    assert facts.cache_bytes(tmp_path) == (32 << 20) * 2 // 8
    assert facts.cache_bytes(tmp_path / "none") == 0
    (tmp_path / "index3" / "size").write_text("many\n")
    assert facts.cache_bytes(tmp_path) == 0
