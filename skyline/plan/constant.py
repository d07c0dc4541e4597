"""Constants of the planner that no data sheet states, each with its range and its source."""

from __future__ import annotations

from skyline.whatif.constant import Constant

_FITTED = "fitted on the FSDP rows of llm-foundry (benchmarks/plan_published.py --fit)"

ATTENTION_SHARE = {
    "Ampere": Constant(0.425, 0.3, 0.7, _FITTED),
    "Hopper": Constant(0.305, 0.25, 0.5, _FITTED),
}
"""Rate of fused causal attention, forward and backward together, as a share of the sustained rate of products."""
OTHER_ATTENTION_SHARE = Constant(0.36, 0.25, 0.6, "between the fitted architectures")
"""The same for architectures without published rows."""
PEAK_SHARE = {
    "Ampere": Constant(0.726, 0.7, 0.88, _FITTED),
    "Hopper": Constant(0.572, 0.5, 0.72, _FITTED),
}
"""Sustained rate of large 16-bit products as a share of the stated peak: the power limit lowers the clock."""
OTHER_PEAK_SHARE = Constant(0.65, 0.5, 0.85, "between the fitted architectures")
"""The same for architectures without published rows."""
ELEMENTWISE_PASSES = Constant(1.72, 1.2, 2.2, _FITTED)
"""Memory traffic of operators between products, as a multiple of the traffic of one kernel per operator."""
CONTENTION = Constant(0.35, 0.0, 0.5, _FITTED)
"""Slowdown of computation while a collective runs: it takes multiprocessors and memory bandwidth."""
EXPOSED_LATENCY = Constant(0.39, 0.0, 1.5, _FITTED)
"""Wait for the slowest rank in a sharded block's collective, as a multiple of the latency of its ring."""
_ONE_NODE = "fitted on 1 to 8 GPUs of one node, NVIDIA DeepLearningExamples (benchmarks/plan_published.py)"

WAITING = Constant(0.015, 0.0, 0.08, _ONE_NODE)
"""Share by which the slowest of several equal ranks is behind the single device that was measured or predicted."""
IMAGE_WAITING = Constant(0.055, 0.03, 0.14, _ONE_NODE)
"""The same if the host decodes images for every rank, as a share of the step in single precision."""
IMAGE_MIXED = Constant(3.0, 2.0, 4.0, _ONE_NODE + ": ConvNets in single over mixed precision on one GPU")
"""Step time in single over mixed precision for image models. The wait for an image is equally long in both."""
EXPOSED_EXCHANGE = Constant(1.5, 0.0, 3.0, _ONE_NODE)
"""Time that gradients add to a step inside a node, relative to their all-reduce at the rate of large messages."""
SELECTION_PASSES = Constant(
    8.0, 3.0, 30.0, "reads of gradients to choose the largest: samples in DGC, up to 30 bisections in MSTopK"
)
"""Memory traffic of selecting gradients, as a multiple of reading them once."""
LINK_INSIDE = Constant(
    0.75, 0.6, 0.9, "bus bandwidth of nccl-tests over NVLink as a share of the stated rate"
)
"""Achieved share of the stated bandwidth of links inside a node."""
LINK_BETWEEN = Constant(
    0.7, 0.5, 0.9, "bus bandwidth of nccl-tests over InfiniBand as a share of the stated rate"
)
"""Achieved share of the stated bandwidth of links between nodes."""
FIXED_BYTES = Constant(1.5e9, 0.7e9, 3e9, "CUDA context, NCCL buffers and cuBLAS workspaces")
"""Memory of a rank that does not depend on the model."""
FRAGMENTATION = Constant(1.05, 1.0, 1.15, "reserved over allocated memory of the caching allocator")
"""Memory that the allocator reserves as a multiple of the allocated memory."""
OPTIMIZER_PASSES = Constant(1.3, 1.0, 2.0, "a multi-tensor Adam reads some tensors more than once")
"""Memory traffic of an optimizer step as a multiple of the minimum."""
ASYNC_TENSOR_HIDDEN = Constant(0.6, 0.3, 0.8, "torchtitan's report on asynchronous tensor parallelism")
"""Share of the communication of tensor parallelism that overlaps with its products in decomposed collectives."""
FLOAT8_GAIN = Constant(1.6, 1.3, 1.8, "torchao's float8 training report, large products on H100")
"""Speed of products in float8, casts included, relative to bfloat16."""
