"""The difference between two processes of one script: a part of ranges that a profile of one process cannot show."""

from __future__ import annotations

from skyline.whatif.constant import EXAMPLES, Constant
from skyline.whatif.subject import Subject

BETWEEN_PROCESSES = Constant(
    0.030,
    0.025,
    0.043,
    "benchmarks/process_spread.py: nine in ten of 56 pairs of processes that took turns differ by less, each machine "
    "counting the same; the ends are those of either machine alone",
    set_on=(
        *EXAMPLES,
        "benchmarks/ground_truth_models/bert.py",
        "benchmarks/ground_truth_models/dlrm.py",
        "benchmarks/ground_truth_models/gpt2.py",
        "benchmarks/ground_truth_models/lstm.py",
        "benchmarks/ground_truth_models/resnet50.py",
        "karpathy/makemore/makemore.py",
        "karpathy/minGPT/projects/adder/adder.py",
        "karpathy/nanoGPT/train.py",
        "pytorch/examples/mnist_rnn/main.py",
        "pytorch/examples/word_language_model/main.py",
    ),
    machine="two cores of an Intel Xeon, and two of an AMD EPYC",
)
"""Share of the iteration by which another process of the same script is slower or faster."""


def process_spread(subject: Subject) -> float:
    """That share, for a script that was measured on a processor; 0 for others, of which it was not measured.

    The run that a prediction is of is another process than the profiled one. Two processes of one script have their
    memory at other addresses and other blocks free in it, for as long as they live.
    """
    return BETWEEN_PROCESSES.value if subject.ran_on_cpu else 0.0
