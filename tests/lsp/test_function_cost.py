from __future__ import annotations

from skyline.report.schema import LineReport
from skyline_lsp.state import function_costs

SOURCE = """\
class Model:
    @decorated
    def forward(self, x):
        def inner(y):
            return y
        return inner(x)

for x in data:
    step(x)
"""


def row(line: int, self_ms: float) -> LineReport:
    return LineReport(
        file="m.py",
        line=line,
        function="",
        module="",
        source="",
        calls=1,
        data_ms=0,
        forward_ms=self_ms,
        backward_ms=0,
        optimizer_ms=0,
        other_ms=0,
        self_ms=self_ms,
        share=self_ms / 100,
        activation_bytes=0,
    )


def test_each_row_belongs_to_the_innermost_function() -> None:
    costs = function_costs(SOURCE, [row(5, 3), row(6, 4), row(9, 50)])
    assert [(cost.name, cost.line, cost.self_ms, cost.share) for cost in costs] == [
        ("forward", 2, 4, 0.04),
        ("inner", 4, 3, 0.03),
    ]


TWO_METHODS = """\
class Model:
    def forward(self, x):
        return self.part(x)

    def part(self, x):
        return x
"""


def test_a_class_has_what_its_methods_take_together() -> None:
    costs = function_costs(TWO_METHODS, [row(3, 3), row(6, 4)], {3: "arithmetic", 6: "memory bandwidth"})
    assert [(cost.name, cost.line, cost.self_ms, cost.bound) for cost in costs] == [
        ("Model", 1, 7, "memory bandwidth"),
        ("forward", 2, 3, "arithmetic"),
        ("part", 5, 4, "memory bandwidth"),
    ]
    # A cost in only one method is not repeated for its class.
    assert [cost.name for cost in function_costs(TWO_METHODS, [row(3, 3)])] == ["forward"]


def test_a_source_that_does_not_parse_has_no_functions() -> None:
    assert function_costs("def f(:\n", [row(1, 1)]) == ()
