"""Makes weights of linear layers and LSTMs Kronecker products: ``KroneckerLinear(nn.Linear(a, b), blocks=4)``.

The classes are written into the file that makes the layers, before their first use.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import keyword_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.factored import BY_HAND, made_by
from skyline.rewrite.sites.layer_uses import check_replaceable
from skyline.rewrite.written_classes import (
    Wrapped,
    unwrapped,
    with_classes,
    wrapped,
    wrapped_calls,
)
from skyline.source.program import Module
from skyline.source.text import TextEdit, last_name, offsets_of, text_of, written
from skyline.trace.facts import ModuleFact
from skyline.whatif.catalogue.models.kronecker_factors import Structure, kronecker_layers

NAME = "kronecker"
_WEIGHT, _LINEAR, _LSTM = "KroneckerWeight", "KroneckerLinear", "KroneckerLSTM"
_CLASSES = {"Linear": _LINEAR, "LSTM": _LSTM}
_OF_LSTM = ("flatten_parameters", "all_weights", "proj_size")
_PREFIXES = ("weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_")
_TEXTS = {
    _WEIGHT: (
        "class KroneckerWeight({torch}.nn.Module):",
        '    """A matrix that is the Kronecker product of two small ones, with a share of free numbers added."""',
        "",
        "    def __init__(self, whole, blocks, free):",
        "        super().__init__()",
        "        rows, columns = whole.shape",
        "        first = whole.new_empty(blocks, blocks).uniform_(-1, 1) * (3 / blocks) ** 0.5",
        "        second = whole[: rows // blocks, : columns // blocks] * blocks**0.5",
        "        self.first, self.second = {torch}.nn.Parameter(first), {torch}.nn.Parameter(second)",
        "        count = max(1, round(free * whole.numel())) if free else 0",
        "        self.values = {torch}.nn.Parameter(whole.new_zeros(count)) if count else None",
        "        places = {torch}.randperm(whole.numel(), device=whole.device)[:count]",
        '        self.register_buffer("places", places.clone())',
        "",
        "    def forward(self):",
        "        made = {torch}.kron(self.first, self.second)",
        "        if self.values is None:",
        "            return made",
        "        return made.flatten().index_add(0, self.places, self.values).view_as(made)",
    ),
    _LINEAR: (
        "class KroneckerLinear({torch}.nn.Module):",
        '    """A linear layer; without free numbers it multiplies by the factors and makes no whole weight."""',
        "",
        "    def __init__(self, layer, blocks, free=0.0):",
        "        super().__init__()",
        "        self.factors = KroneckerWeight(layer.weight.detach(), blocks, free)",
        "        self.bias = layer.bias",
        "        self.in_features, self.out_features = layer.in_features, layer.out_features",
        "",
        "    def forward(self, given):",
        "        linear = {torch}.nn.functional.linear",
        "        if self.factors.values is not None:",
        "            return linear(given, self.factors(), self.bias)",
        "        parts = given.unflatten(-1, (self.factors.first.shape[1], -1))",
        "        made = linear(linear(parts, self.factors.second).transpose(-1, -2), self.factors.first)",
        "        made = made.transpose(-1, -2).flatten(-2)",
        "        return made if self.bias is None else made + self.bias",
    ),
    _LSTM: (
        "class KroneckerLSTM({torch}.nn.Module):",
        '    """An LSTM whose weights are made of their factors in each pass."""',
        "",
        "    def __init__(self, layer, blocks, free=0.0):",
        "        super().__init__()",
        "        self.layer, self.factors = layer, {torch}.nn.ModuleDict()",
        "        self.input_size, self.hidden_size = layer.input_size, layer.hidden_size",
        "        self.num_layers, self.bidirectional = layer.num_layers, layer.bidirectional",
        "        self.batch_first = layer.batch_first",
        "        for name, weight in list(layer.named_parameters()):",
        '            if name.startswith("weight"):',
        "                self.factors[name] = KroneckerWeight(weight.detach(), blocks, free)",
        "                delattr(layer, name)",
        "        self._keep_no_weights()",
        "",
        "    def _keep_no_weights(self):",
        "        names = self.layer._flat_weights_names",
        "        self.layer._flat_weights = [getattr(self.layer, name, None) for name in names]",
        "",
        "    def forward(self, *given, **named):",
        "        self.layer._flat_weights = [",
        "            self.factors[name]() if name in self.factors else getattr(self.layer, name)",
        "            for name in self.layer._flat_weights_names",
        "        ]",
        "        try:",
        "            return self.layer(*given, **named)",
        "        finally:",
        "            self._keep_no_weights()",
    ),
}


def snippet(value: str) -> str:
    """The layers of the what-if, for modules of any other program."""
    structure = Structure.parse(value)
    lines = (*_TEXTS[_WEIGHT], "", "", *_TEXTS[_LINEAR], "", "")
    code = "\n".join(lines).replace("{torch}", "torch")
    return f"{code}\nlayer = {_LINEAR}(nn.Linear(inputs, outputs), {_arguments(structure)})\n"


def notes(context: RewriteContext, value: str) -> tuple[str, ...]:
    """The effect on saved weights."""
    return ("Weights that were saved before do not fit: these layers have small factors as weights now.",)


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Wraps the layers that get fewer parameters in the classes; refused if anything needs the weight."""
    structure = Structure.parse(value)
    layers = [layer.module for layer in kronecker_layers(context.profile, structure)]
    if not layers:
        message = f"No linear layer and no LSTM is known to have fewer parameters with {value} blocks"
        raise RewriteRefused(message, file=context.profile.script)
    done = {id(each.inner): each for each in wrapped_calls(context, _CLASSES.values())}
    edits: list[TextEdit] = []
    by_file: dict[str, tuple[Module, list[tuple[ast.Call, str]]]] = {}
    for kind, name in _CLASSES.items():
        of_kind = [layer for layer in layers if layer.class_name == kind]
        if not of_kind:
            continue
        calls = made_by(context, of_kind, _no_pair).calls
        fresh = [(module, call) for module, call in calls if id(call) not in done]
        if fresh:
            # The written classes themselves read the weight of a layer.
            check_replaceable(context, of_kind, fresh, kind)
        if kind == "LSTM":
            _check_parts(context, of_kind)
        for module, call in fresh:
            by_file.setdefault(module.path, (module, []))[1].append((call, name))
        for _, call in calls:
            if id(call) in done:
                edits += _set(done[id(call)], structure)
    written_already = {each.module.path for each in done.values()}
    for path, (module, found) in by_file.items():
        if path in written_already:
            message = "Some layers of this file have Kronecker products already; take these out first"
            raise refusal(message, module, found[0][0], hint=BY_HAND)
        names = (_WEIGHT, *dict.fromkeys(name for _, name in found))
        edits += with_classes(module, [call for call, _ in found], {name: _TEXTS[name] for name in names})
        for call, name in found:
            edits += wrapped(module, call, name, _arguments(structure))
    return tuple(edits)


def _arguments(structure: Structure) -> str:
    free = f", free={structure.free:g}" if structure.free else ""
    return f"blocks={structure.blocks}{free}"


def _no_pair(module: Module, first: ast.Call, second: ast.Call) -> int | None:
    return None


def _set(call: Wrapped, structure: Structure) -> tuple[TextEdit, ...]:
    """Replaces the arguments after the layer; no edit if they are the same."""
    source = call.module.source
    last, end = offsets_of(source, call.inner)[1], offsets_of(source, call.whole)[1]
    wanted = f", {_arguments(structure)})"
    if source.text[last:end] == wanted:
        return ()
    return (source.edit(source.span(last, end), wanted),)


def _check_parts(context: RewriteContext, layers: Sequence[ModuleFact]) -> None:
    """Refuses code that uses parts of an LSTM that only an LSTM has."""
    names = {layer.path.rpartition(".")[2] for layer in layers}
    for module, node in context.program.nodes_of(ast.Attribute):
        part = node.attr in _OF_LSTM or node.attr.startswith(_PREFIXES)
        if part and last_name(node.value) in names:
            message = f"`{text_of(node)}` is a part of the LSTM itself"
            raise refusal(message, module, node, hint=BY_HAND)


def present(context: RewriteContext) -> str | None:
    """The structure of the first such layer."""
    for call in wrapped_calls(context, _CLASSES.values()):
        blocks, free = (keyword_of(call.whole, name) for name in ("blocks", "free"))
        if blocks is not None:
            source = call.module.source
            share = "" if free is None else f":{written(source, free.value)}"
            return f"{written(source, blocks.value)}{share}"
    return None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Restores the layers, and removes the classes from the files."""
    return unwrapped(context, _CLASSES.values(), (_WEIGHT,))
