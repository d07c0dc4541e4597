"""The page on the memory of what-ifs counts changes that matter, and leaves out scripts whose iterations differ."""

from __future__ import annotations


def test_the_page_tells_changes_that_matter_from_others() -> None:
    from whatif_memory import MemoryRow, page

    rows = [
        MemoryRow("one", ("amp=bf16",), "tried", 100.0, (100, 101), 60.0, 50.0, 70.0, 66),
        MemoryRow("one", ("cpu_threads=1",), "tried", 100.0, (100, 101), 100.0, 100.0, 100.0, 100),
        MemoryRow("one", ("amp=bf16", "compile"), "modelled", 100.0, (100, 101), 60.0, 60.0, 60.0, 30),
        MemoryRow("two", ("amp=bf16",), "tried", 100.0, (100, 180), 60.0, 60.0, 60.0, 90),
    ]
    found = [line.split("|")[1:-1] for line in page(rows).splitlines() if line.startswith("| ")]
    told = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in found[:4]}
    assert told["single changes"] == ["1", "9.1%", "9.1%", "9%", "0 of 1", "1 of 1", "51.5%"]
    assert told["three together"][:5] == ["1", "100.0%", "100.0%", "100%", "0 of 1"]
    assert told["peak unchanged by prediction and measurement"][0] == "1"
    assert "1 of 4 rows are left out" in page(rows)
    assert page(rows).count(" off ") == 1
