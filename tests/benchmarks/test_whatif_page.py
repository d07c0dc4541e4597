"""The page about what-ifs on public scripts counts found, written, refused and trained rewrites."""

from __future__ import annotations

ROW = {"where": "measured", "semantics": "exact", "provenance": "modelled", "speedup": 1.1, "value": ""}
FOUND = {
    "one": [
        {**ROW, "name": "zero_grad", "lines": 2, "trains": True, "furthest": 0.0, "losses": 12},
        {**ROW, "name": "sdpa", "refused": "Its mask is | computed."},
    ],
    "two": [
        {**ROW, "name": "zero_grad", "lines": 2, "trains": False, "furthest": 0.25, "losses": 12},
        {**ROW, "name": "sdpa", "where": "predicted", "provenance": "assumed", "lines": 4},
    ],
}


def cells(page: str, name: str) -> list[list[str]]:
    """The cells of every line about a what-if."""
    lines = [line for line in page.splitlines() if line.startswith(f"| `{name}`")]
    return [[cell.strip() for cell in line.replace("\\|", "/").split("|")[2:-1]] for line in lines]


def test_the_page_says_what_came_of_each_what_if() -> None:
    from whatif_page import page

    made = page(FOUND, ("zero_grad", "sdpa", "tf32"), "A100", 12)
    zero, sdpa, idle = cells(made, "zero_grad"), cells(made, "sdpa"), cells(made, "tf32")
    assert zero == [["2", "CPU 2", "modelled", "2", "1 of 2", "two (25.00% away)", "0"], ["✓", "✗"]]
    assert sdpa[0] == ["2", "CPU 1, GPU 1", "assumed, modelled", "1", "0 of 0", "", "1"]
    assert sdpa[1:] == [["r", "w"], ["one", "Its mask is / computed."]]
    assert idle == [["0", "", "", "0", "0 of 0", "", "0"], ["", ""]]
    assert "2 scripts; 3 rewritten copies; 2 of them were run, of which 1 train" in made
