"""A small folder laid out like the measured data."""

import csv
import gzip
import io
from pathlib import Path

import pytest

NODES = ["graph", "node", "name", "optype", "repeat", "in_elems", "out_elems", "in_shapes", "out_shape"]
OPERATORS = ["graph", "node", "phase", "seq", "op", "b", "m", "n", "k", "rows", "cols", "elems"]
KERNELS = ["op", "gpu", "dtype", "b", "m", "n", "k", "rows", "cols", "latency_ms", "something_new"]
DEVICES = [
    "gpu", "device_name", "role", "mem_gb", "mem_bw_gbs", "num_sm", "cores_per_sm", "clock_mhz", "fp32_gflops", "l2_mb",
]  # fmt: skip


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows(rows)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def measured_folder(tmp_path):
    """One linear layer with a view and a softmax behind it, on a GPU of the table and on one that nobody knows."""
    write(
        tmp_path / "devices.csv",
        DEVICES,
        [
            ["H100", "NVIDIA H100 80GB HBM3", "unseen", 80, 3430, 132, 128, 1980, 66908, 50],
            ["T4", "Tesla T4", "train", 15, 320, 40, 64, 1590, 8141, 4],
            ["Z9", "Zentral 9", "unseen", 24, 1000, 100, 128, 2000, 51200, 64],
        ],
    )
    graphs = ("tiny-inf-64-2", "tiny-train-64-2", "tiny-train-64-2-dp4")
    nodes, operators = [], []
    for graph in graphs:
        nodes += [
            [graph, 0, "x", "misc", 1, 0, 1048576, "", "1024x1024"],
            [graph, 1, "proj", "Linear", 3, 1048576, 4194304, "1024x1024", "1024x4096"],
            [graph, 2, "view_1", "misc", 3, 4194305, 4194304, "1024x4096|1", "4096x1024"],
            [graph, 3, "softmax", "VECsoftmax", 3, 4194304, 4194304, "4096x1024", "4096x1024"],
            [graph, 4, "drop", "dropout", 3, 4194304, 4194304, "4096x1024", "4096x1024"],
        ]
        operators += [
            [graph, 1, "fw", 0, "linear", 1, 1024, 4096, 1024, "", "", ""],
            [graph, 1, "bw", 0, "linear", 1, 1024, 1024, 4096, "", "", ""],
            [graph, 1, "bw", 1, "linear", 1, 4096, 1024, 1024, "", "", ""],
            [graph, 1, "acc", 0, "add", "", "", "", "", 1, 4194304, ""],
            [graph, 1, "acc", 1, "add", "", "", "", "", 1, 4096, ""],
        ]
    write(tmp_path / "opgraph_nodes.csv.gz", NODES, nodes)
    write(tmp_path / "opgraph_ops.csv.gz", OPERATORS, operators)
    kernels = [["bmm", gpu, "fp32", 16, 512, 512, 64, "", "", 0.5, "x"] for gpu in ("H100", "T4", "Z9")] + [
        ["softmax", "Z9", "fp32", "", "", "", "", 8192, 1024, 0.1, ""]
    ]
    write(tmp_path / "kernels_test_visible.csv.gz", KERNELS, kernels)
    label = [
        "model",
        "gpu",
        "mode",
        "seq",
        "batch",
        "option",
        "num_layers",
        "e2e_ms",
        "fw_ms",
        "bw_ms",
        "graph",
    ]
    write(
        tmp_path / "e2e_labels_visible.csv",
        label,
        [
            ["tiny", "H100", "inf", 64, 2, "", 3, 0.7, 0.7, "", "tiny-inf-64-2"],
            ["tiny", "Z9", "train", 64, 2, "", 3, 2.5, 0.9, 1.6, "tiny-train-64-2"],
            ["tiny", "H100", "train", 64, 8, "dp4", 3, 2.5, "", "", "tiny-train-64-2-dp4"],
            ["lost", "H100", "inf", 64, 2, "", 3, 0.7, 0.7, "", "lost-inf-64-2"],
        ],
    )
    return tmp_path
