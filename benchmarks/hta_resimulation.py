"""Times HolisticTraceAnalysis on one trace: load, critical path of a step, and again after edits, as lines of JSON.

Started by ``simulator_speed.py`` under the interpreter that has HolisticTraceAnalysis: ``PYTHON hta_resimulation.py
FOLDER STEP``. FOLDER holds one trace. Each number read from stdin is an edit: the time of every kernel is multiplied
by that number, through the weights of the graph's edges, as its documentation shows. Then the critical path is
computed again, and the processor time of both steps is printed in s.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import metadata
from itertools import pairwise

# Without it kernels may start before the call that launches them.
os.environ["CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE"] = "1"


def main(folder: str, step: int, tell: Callable[[dict[str, object]], None]) -> None:
    from hta.analyzers.critical_path_analysis import CPEdgeType
    from hta.trace_analysis import TraceAnalysis

    began = time.perf_counter()
    trace = TraceAnalysis(trace_dir=folder)
    loaded = time.perf_counter()
    graph, worked = trace.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=step)
    analysed = time.perf_counter()
    if not worked:
        raise RuntimeError("critical_path_analysis reports that it failed")

    def is_kernel(edge) -> bool:
        if edge.type != CPEdgeType.OPERATOR_KERNEL:
            return False
        event = graph.get_event_attribution_for_edge(edge)
        return event is not None and int(graph.trace_df.stream.loc[event]) >= 0

    kernels = [pair for pair in graph.edges if is_kernel(graph.edges[pair]["object"])]
    recorded = {pair: graph.edges[pair]["weight"] for pair in kernels}
    tell(
        {
            "version": metadata.version("HolisticTraceAnalysis"),
            "load_s": loaded - began,
            "first_answer_s": analysed - loaded,
            "nodes": graph.number_of_nodes(),
            "edges": graph.number_of_edges(),
            "kernels": len(kernels),
        }
    )
    for line in sys.stdin:
        start = time.process_time()
        for pair in kernels:
            graph.edges[pair]["weight"] = recorded[pair] * float(line)
        graph.critical_path()
        took = time.process_time() - start
        path = graph.critical_path_nodes
        span = sum(graph.edges[pair]["weight"] for pair in pairwise(path))
        tell({"again_s": took, "span_us": float(span)})


def _run() -> None:
    out = sys.stdout

    def tell(what: dict[str, object]) -> None:
        print(json.dumps(what), file=out, flush=True)

    with redirect_stdout(sys.stderr):
        try:
            main(sys.argv[1], int(sys.argv[2]), tell)
        except Exception as error:
            tell({"failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    _run()
