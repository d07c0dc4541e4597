"""Tokens that each rewrite may write and remove. This list is written by hand, not derived from the code.

A rewrite that is not listed may do neither. Tokens are words and single marks. Tokens that an edit removes and
writes again, such as an expression that becomes an argument of a call, do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewrite_checks import Corrupted
from source_reading import Reading

from skyline.source.text import TextEdit

_TOKEN = re.compile(r"\w+|[^\w\s]")
_NUMBER = r"0[xX][\da-fA-F_]+|\d[\d_]*"
_IMPORTS = "import from as torch ."
_CALL = "( ) , ="
_RANKS = (
    f'{_IMPORTS} {_CALL} [ ] : ; > # " + if not in else is_available environ update RANK LOCAL_RANK WORLD_SIZE'
    " MASTER_ADDR MASTER_PORT 0 1 127 distributed init_process_group cpu gloo cuda nccl _?atexit register _?os"
    " _?sys destroy_process_group set_device int get_rank stdout open devnull w _?logging disable nn parallel"
    " utils data DistributedDataParallel sampler DistributedSampler shuffle False set_epoch epoch module"
    " manual_seed initial_seed barrier started without torchrun a job of one process the first rank alone"
    " reports downloads"
)
"""Tokens for a script that becomes one of several processes."""
_NO_LONGER = "shuffle|True|False|=|cuda|:|0"


@dataclass(frozen=True, slots=True)
class Target:
    """The tokens that may be written or removed. ``names``: names that the file already has may be written again.

    ``goes`` is a regular expression for the tokens that may be removed, in addition to semicolons.
    """

    writes: str
    goes: str = ""
    names: bool = False

    def may_write(self, token: str, text: str) -> bool:
        """True if a token that is not in the text may be written."""
        patterns = (
            each for each in self.writes.split() if each.isidentifier() or "\\" in each or len(each) > 2
        )
        listed = token in self.writes.split() or any(re.fullmatch(each, token) for each in patterns)
        return listed or (self.names and token.isidentifier() and token in text)

    def may_go(self, token: str) -> bool:
        """True if a token may be removed."""
        return token == ";" or re.fullmatch(self.goes, token) is not None


_KEYWORD = f"{_CALL} True"
_PART = r"(micro_|_)?\w+_part(_loss)? (micro_|_)?part_loss (batch_|_)?whole_loss"
_BLOCK = r"_?(each_)?block _?(block_)?index _?(checkpoint_)?checkpoint"

TARGETS = {
    "adaptive_softmax": Target(
        f"{_IMPORTS} {_CALL} [ ] : - ! nn AdaptiveLogSoftmaxWithLoss cutoffs head_bias loss log_prob flatten unflatten"
        " shape if self training else None True 0 1 2 \\d+",
        r"[\s\S]*",
        names=True,
    ),
    "amp": Target(
        f"{_IMPORTS} {_CALL} with autocast device_type dtype bfloat16 float16 amp GradScaler scale unscale_ update"
        r' enabled False float step type device cuda \w*scaler " - : ; bf16 fp16 mixed precision mixed_precision 16'
        " True",
        names=True,
    ),
    "batch_size": Target(_NUMBER.replace("|", " "), _NUMBER),
    "channels_last": Target(
        f"{_IMPORTS} {_CALL} ; to memory_format channels_last reshape", "view", names=True
    ),
    "checkpointing": Target(
        f"{_IMPORTS} {_CALL} [ ] : < utils use_reentrant gradient_checkpointing True False"
        f" if else for in enumerate {_BLOCK} \\d+",
        names=True,
    ),
    "checkpoint_every": Target("500", _NUMBER),
    "compile": Target(f"{_IMPORTS} {_CALL} ; compile torch_compile True", names=True),
    "cpu_threads": Target(f"{_IMPORTS} ( ) ; set_num_threads 2", "1", names=True),
    "cuda_graphs": Target(
        f'{_IMPORTS} {_CALL} ; compile torch_compile torch_compile_mode True mode " reduce - overhead',
        names=True,
    ),
    "cudnn_benchmark": Target(f"{_IMPORTS} = ; backends cudnn benchmark True", "False", names=True),
    "data_parallel": Target(_RANKS, _NO_LONGER, names=True),
    "ddp_bucket": Target(", = bucket_cap_mb 64", "25"),
    "ddp_compression": Target(
        f"{_IMPORTS} {_CALL} ; distributed algorithms ddp_comm_hooks default_hooks fp16_compress_hook"
        " register_comm_hook None",
        names=True,
    ),
    "embedding_factorization": Target(f"{_IMPORTS} {_CALL} nn Sequential Linear bias False 8", names=True),
    "fuse_jobs": Target(
        f"{_IMPORTS} {_CALL}"
        ' " # ( ) * + , - . / 0 1 1e 6 : ; < = Buffers Clips FusedJobs None Runs The True ValueError [ ]'
        " __init__ ` a alike all append are as at buffer buffers by change changing clamp class"
        " clip_grad_norm_ cuda data def device_count different dim each elif endswith enumerate for"
        " fork_rng func functional_call given grad gradient grads id if in initial_seed is items its job"
        " jobs len list loss_of losses make manual_seed masks max max_norm model models mul_ name named"
        " named_buffers named_parameters norm normalization norms not num_batches_tracked of of_one once"
        " one or own parameter parameters raise random randomness range reshape results return row run"
        " running_mean running_var runs scale seed self set set_to_none several share stack"
        " stack_module_state stacked state statistics stay such tensor that the torch train values view"
        " vmap weights with zero_ zero_grad { } lambda def loss_of run_losses losses sum return detach"
        " fused_jobs FusedJobs make_model \\d+ ;",
        r"\w*loss\w*|torch|th|nn|layers|utils|clip_grad_norm_|model|net|parameters|[.(),]",
        names=True,
    ),
    "fsdp": Target(
        f"{_RANKS} for * fsdp fully_shard tensor values broadcast detach block blocks all ranks start first checkpoint"
        " state_dict StateDictOptions get_model_state_dict set_model_state_dict full_state_dict broadcast_from_rank0"
        " cpu_offload options state parameters buffers",
        _NO_LONGER,
        names=True,
    ),
    "fused_optimizer": Target(", = fused foreach True"),
    "grad_accumulation": Target(
        f"{_IMPORTS} ( ) , = + * / : [ ] 0 2 for in zip chunk len detach append cat (batch_|_)?whole_\\w+ {_PART}",
        names=True,
    ),
    "gradient_as_bucket_view": Target(", = gradient_as_bucket_view True", "False"),
    "inference_mode": Target(f"{_IMPORTS} ( ) : @ with no_grad inference_mode", names=True),
    "keep_memory": Target(""),
    "kronecker": Target(
        f"{_IMPORTS} {_CALL} [ ] : ; * / - + {{ }} ' \" KroneckerWeight KroneckerLinear KroneckerLSTM class nn Module"
        " A matrix that is the Kronecker product of two small ones with a share free numbers added linear"
        " layer without it multiplies by factors and makes no whole weight An LSTM whose weights are made"
        " their in each pass def __init__ self blocks super rows columns shape first new_empty uniform_ second"
        " Parameter count max round numel if else values new_zeros None register_buffer places randperm clone"
        " device forward kron is return flatten index_add view_as bias detach given functional not parts"
        " unflatten transpose ModuleDict for name list named_parameters startswith delattr _keep_no_weights"
        " names _flat_weights_names _flat_weights getattr named try finally 0 1 2 3 4 5 01 03"
        " free in_features out_features layer A An linear multiplies",
        names=True,
    ),
    "low_rank": Target(
        f"{_IMPORTS} {_CALL} nn Sequential Linear bias out_features in_features False 8", names=True
    ),
    "num_workers": Target(", = num_workers 2", rf"{_NUMBER}|[().]|int|os|cpu_count|WORKERS|EPOCHS|and"),
    "pad_to_multiple": Target("50304", _NUMBER),
    "persistent_workers": Target(
        ", = : ; ' \" [ ] ( ) > 0 persistent_workers options int WORKERS True", "False"
    ),
    "pin_memory": Target(", = pin_memory non_blocking True", "False"),
    "prefetch_factor": Target(
        ", = : ; ' \" [ ] ( ) > 0 4 prefetch_factor options int WORKERS if else None", _NUMBER
    ),
    "prune": Target(
        f"{_IMPORTS} {_CALL} [ ] ' ; torch_pruning pruner BasePruner importance MagnitudeImportance zeros device next"
        r" parameters pruning_ratio ignored_layers get_submodule step train \d+",
        names=True,
    ),
    "remove_sync": Target("( ) , = : ; % 0 1 100 if enumerate step i \\w*step\\w* \\w*index\\w*", names=True),
    "sdpa": Target(
        f"{_IMPORTS} {_CALL} - ! : 0 nn functional scaled_dot_product_attention attn_mask is_causal dropout_p scale"
        " True if else training p transpose logical_not \\d+",
        r"[\s\S]*",
        names=True,
    ),
    "sparse_embedding": Target(", = sparse True", "False"),
    "static_graph": Target(", = static_graph True", "False"),
    "tf32": Target(
        f"{_IMPORTS} ( ) ; set_float32_matmul_precision high \" ' True", "'|False|highest", names=True
    ),
    "zero_grad": Target("= None True", r"[().,=]|False|set_to_none|zero_"),
}


_OF_LOADERS = ("DataLoader", "dict")
OWNERS = {
    "num_workers": _OF_LOADERS,
    "persistent_workers": _OF_LOADERS,
    "prefetch_factor": _OF_LOADERS,
    "pin_memory": ("DataLoader",),
    "non_blocking": ("to", "cuda"),
    "fused": ("optim",),
    "foreach": ("optim",),
    "bucket_cap_mb": ("wrapper",),
    "gradient_as_bucket_view": ("wrapper",),
    "static_graph": ("wrapper",),
    "sparse": ("Embedding", "EmbeddingBag"),
    "bias": ("Linear",),
    "in_features": ("Linear",),
    "out_features": ("Linear",),
    "use_reentrant": ("checkpoint", "_checkpoint", "checkpoint_checkpoint"),
    "memory_format": ("to",),
    "device_type": ("autocast",),
    "enabled": ("autocast",),
    "dim": ("norm",),
    "max": ("clamp",),
    "blocks": ("KroneckerLinear", "KroneckerLSTM", "KroneckerWeight"),
    "free": ("KroneckerLinear", "KroneckerLSTM", "KroneckerWeight"),
    "device": ("randperm",),
    "share": ("KroneckerLinear", "KroneckerLSTM", "KroneckerWeight"),
    "dtype": ("autocast",),
    "is_causal": ("scaled_dot_product_attention",),
    "attn_mask": ("scaled_dot_product_attention",),
    "dropout_p": ("scaled_dot_product_attention",),
    "scale": ("scaled_dot_product_attention",),
    "mode": ("compile",),
    "randomness": ("vmap",),
    "precision": ("Trainer",),
    "mixed_precision": ("Accelerator",),
    "bf16": ("TrainingArguments",),
    "fp16": ("TrainingArguments",),
    "gradient_checkpointing": ("TrainingArguments",),
    "torch_compile": ("TrainingArguments",),
    "torch_compile_mode": ("TrainingArguments",),
}
"""The calls that take each keyword argument of a rewrite, by the last part of the called name or the script's name."""


def check_keywords(old: Reading, new: Reading, names: Mapping[str, str]) -> None:
    """Raise Corrupted if a new keyword argument is passed to a call that does not take it."""
    had = {argument for _, argument in old.keywords}
    for called, argument in new.keywords - old.keywords:
        meant = {names.get(each, each).rpartition(".")[2] for each in OWNERS.get(argument, ())}
        # An expression that moves into another call keeps its own arguments.
        carried = argument in had and argument not in OWNERS
        if called not in meant and not carried:
            raise Corrupted(f"{argument} is given to {called}, whose argument it is not")


def check_targets(text: str, edits: Sequence[TextEdit], names: Sequence[str]) -> None:
    """Raise Corrupted if edits write or remove tokens that none of the rewrites may write or remove."""
    before = Counter(token for edit in edits for token in _TOKEN.findall(edit.old_text))
    after = Counter(token for edit in edits for token in _TOKEN.findall(edit.new_text))
    targets = [TARGETS.get(name, Target("")) for name in names]
    for token in before - after:
        if not any(target.may_go(token) for target in targets):
            raise Corrupted(f"{token!r} is gone, which is no target of {', '.join(names)}")
    for token in after - before:
        if not any(target.may_write(token, text) for target in targets):
            raise Corrupted(f"{token!r} is written, which is no target of {', '.join(names)}")
