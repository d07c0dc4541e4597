"""A decoder transformer by its configuration: operators, parameters and activations on one rank."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import msgspec

from skyline.bounded_read import read_bounded
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.strategy import Precision, Strategy
from skyline.trace.record import OperatorShape

_BYTES_OF_A_MODEL = 1 << 20


class Transformer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration with the figures of model cards.

    ``gated`` selects a feed-forward layer of three products (SwiGLU), else it has two (GELU).
    ``learned_positions`` adds a table of positions, else rotary embeddings are applied. ``tied`` shares the
    embedding with the output. ``causal`` attention uses earlier tokens only. ``predicted`` is the share of
    the tokens that the output layer predicts. Without ``fused``, normalization and GELU run as separate
    elementwise operators.
    """

    name: str
    blocks: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    sequence: int
    kv_heads: int = 0
    gated: bool = False
    biases: bool = True
    learned_positions: bool = True
    tied: bool = True
    experts: int = 1
    active_experts: int = 1
    causal: bool = True
    predicted: float = 1.0
    fused: bool = True
    source: str = ""

    @property
    def unit(self) -> str:
        """The unit of throughput: tokens."""
        return "tokens"

    @property
    def units_per_sample(self) -> float:
        """Tokens of a sample."""
        return self.sequence

    @property
    def block_count(self) -> int:
        """The number of repeated blocks."""
        return self.blocks

    @property
    def head_width(self) -> int:
        """The width of an attention head."""
        return self.width // self.heads

    @property
    def key_width(self) -> int:
        """The total width of all keys, which is less than ``width`` with grouped queries."""
        return (self.kv_heads or self.heads) * self.head_width

    @property
    def block_parameters(self) -> int:
        """Parameters of a block."""
        return self.attention_parameters + self.experts * self.feed_forward_parameters

    @property
    def attention_parameters(self) -> int:
        """Parameters of a block outside its feed-forward layer."""
        products = self.width * (2 * self.width + 2 * self.key_width)
        norms = 4 * self.width if self.biases else 2 * self.width
        return products + norms + (2 * self.width + 2 * self.key_width if self.biases else 0)

    @property
    def feed_forward_parameters(self) -> int:
        """Parameters of one feed-forward layer, or of one expert."""
        products = (3 if self.gated else 2) * self.width * self.hidden
        return products + (self.hidden + self.width if self.biases else 0)

    @property
    def parameters(self) -> int:
        """All parameters."""
        positions = self.sequence * self.width if self.learned_positions else 0
        tables = self.vocabulary * self.width * (1 if self.tied else 2)
        return self.blocks * self.block_parameters + tables + positions + self.width * (1 + self.biases)

    @property
    def flops_per_sample(self) -> float:
        """Six per parameter and token, plus attention without regard to the causal mask, as is usual for MFU."""
        idle = (self.experts - self.active_experts) * self.feed_forward_parameters * self.blocks
        idle += (1 - self.predicted) * self.vocabulary * self.width
        used = self.parameters - idle - (0 if self.tied else self.vocabulary * self.width)
        return 6.0 * used * self.sequence + 12.0 * self.blocks * self.width * self.sequence**2

    def refusal(self, strategy: Strategy) -> str:
        """The reason why the sizes cannot be divided. Empty if they can."""
        if self.heads % strategy.tensor or self.hidden % strategy.tensor:
            return f"{self.heads} heads cannot be split over {strategy.tensor} ranks"
        if (self.kv_heads or self.heads) % strategy.tensor:
            return f"{self.kv_heads} key heads cannot be split over {strategy.tensor} ranks"
        if self.sequence % (strategy.context * strategy.tensor):
            return f"a sequence of {self.sequence} cannot be split over {strategy.context * strategy.tensor} ranks"
        if strategy.expert > 1 and (self.experts % strategy.expert or strategy.data % strategy.expert):
            return f"{self.experts} experts cannot be split over {strategy.expert} ranks"
        return ""

    def layers(self, strategy: Strategy) -> Layers:
        """The work of one rank at the strategy's micro-batch."""
        split = _Split(self, strategy)
        width = strategy.precision.width_bytes
        routed = split.tokens * self.active_experts * self.width * width if strategy.expert > 1 else 0.0
        return Layers(
            block=split.block(),
            blocks=self.blocks,
            first=split.first(),
            last=split.last(),
            tensor_bytes=split.tokens * self.width * width if strategy.tensor > 1 else 0.0,
            context_bytes=2 * split.tokens * self.key_width * width / strategy.tensor,
            expert_bytes=routed,
            expert_parameters=self.experts * self.feed_forward_parameters / strategy.expert / strategy.tensor
            if strategy.expert > 1
            else 0.0,
        )


@dataclass(frozen=True, slots=True)
class _Split:
    """The operators of one rank."""

    model: Transformer
    strategy: Strategy

    @property
    def tokens(self) -> int:
        return self.strategy.micro_batch * self.model.sequence // self.strategy.context

    @property
    def fused(self) -> bool:
        """True unless normalization and GELU run as separate operators. Gated layers have neither."""
        return self.model.fused or self.model.gated or self.strategy.compiled

    @property
    def width(self) -> int:
        """Bytes of an activation."""
        return self.strategy.precision.width_bytes

    def product(self, rows: int, inner: int, columns: int) -> OperatorShape:
        """A matrix product."""
        return product(rows, inner, columns, self.strategy.precision)

    def product_backward(self, rows: int, inner: int, columns: int) -> tuple[OperatorShape, OperatorShape]:
        """The products for the gradients of the input and of the weight."""
        return self.product(rows, columns, inner), self.product(inner, rows, columns)

    def passing(self, numbers: float) -> OperatorShape:
        """An elementwise operator that reads and writes ``numbers`` activations in total."""
        return passing(numbers, self.strategy.precision)

    def block(self) -> LayerPart:
        model, ways, tokens = self.model, self.strategy.tensor, self.tokens
        attention_width, keys, hidden = model.width // ways, model.key_width // ways, model.hidden // ways
        routed = tokens * model.active_experts
        products = [(tokens, model.width, attention_width + 2 * keys), (tokens, attention_width, model.width)]
        products += [(routed, model.width, hidden)] * (2 if model.gated else 1)
        products += [(routed, hidden, model.width)]
        # Sequence parallelism: work that is not split by heads or hidden width is split by tokens.
        whole = tokens * model.width / ways
        inner, keyed = routed * hidden, tokens * (attention_width + keys)
        forward = [self.product(*sizes) for sizes in products]
        forward.append(attention(self.strategy, model, backward=False))
        forward += self._passes(whole, inner, keyed)
        backward = [one for sizes in products for one in self.product_backward(*sizes)]
        backward.append(attention(self.strategy, model, backward=True))
        backward += self._passes(whole, inner, keyed, backward=True)
        saved = self.width * self._saved_numbers(whole, inner, tokens, attention_width, keys)
        own_experts = model.experts / self.strategy.expert
        return LayerPart(
            tuple(forward),
            tuple(backward),
            # The block's backward pass does not need the output of the last product.
            (*forward[: len(products) - 1], *forward[len(products) :]),
            (model.attention_parameters + own_experts * model.feed_forward_parameters) / ways,
            saved,
            (saved - self._copied_bytes(whole)) / 2,
            whole * self.width,
        )

    def _saved_numbers(self, whole: float, inner: float, tokens: int, width: int, keys: int) -> float:
        """Kept numbers: inputs of products, normalizations, the activation function and attention, and its output."""
        # As separate operators, a normalization keeps two differences, its quotient and its output; GELU
        # keeps four numbers.
        norms = (4 if self.fused else 8) * whole
        activation = (2 if self.fused and not self.model.gated else 4) * inner
        rotated = 0 if self.model.learned_positions else tokens * (width + keys)
        return (
            norms
            + self._copied_bytes(whole) / self.width
            + rotated
            + tokens * (2 * width + 2 * keys)
            + activation
        )

    def _copied_bytes(self, whole: float) -> float:
        """Bytes of float32 copies of the inputs of two normalizations, which uncompiled RMS normalization makes."""
        copied = self.model.gated and not self.strategy.compiled and self.width < 4
        return 8 * whole if copied else 0.0

    def _passes(
        self, whole: float, inner: float, keyed: float, *, backward: bool = False
    ) -> list[OperatorShape]:
        """Elementwise operators as numbers read and written, in multiples of each operator's output."""
        gated, compiled = self.model.gated, self.strategy.compiled
        if gated and compiled:
            counts = [(whole, 9 if backward else 6), (inner, 5 if backward else 3), (keyed, 2)]
        elif gated:
            counts = [(whole, 42 if backward else 28), (inner, 8 if backward else 5), (keyed, 14)]
        elif self.fused:
            counts = [(whole, 17 if backward else 10), (inner, 4 if backward else 2)]
        else:
            counts = _written_out(whole, inner, backward=backward)
        if self.strategy.context > 1:
            # Each hop of the ring adds a part of the output to the sum, in float32.
            counts.append((whole * (self.strategy.context - 1), 6))
        return [self.passing(count * numbers) for numbers, count in counts]

    def first(self) -> LayerPart:
        model = self.model
        moved = self.tokens * model.width / self.strategy.tensor
        table = model.vocabulary * model.width / self.strategy.tensor
        positions = model.sequence * model.width if model.learned_positions else 0
        forward, backward = (self.passing(3 * moved),), (self.passing(4 * moved),)
        return LayerPart(forward, backward, (), table + positions, 0.0, 0.0, 0.0)

    def last(self) -> LayerPart:
        model, tokens = self.model, max(1, round(self.tokens * self.model.predicted))
        share = model.vocabulary // self.strategy.tensor
        logits = float(tokens * share)
        # Logits in 16 bits, converted to float32 for the loss. Compiled code keeps fewer copies.
        forward, backward = (4, 5) if self.strategy.compiled else (7, 9)
        kept = logits * (6 if self.strategy.compiled else 9)
        if self.width == 4:
            # The logarithm of the softmax is read and written. Its gradient takes one more pass.
            forward, backward, kept = 2, 3, logits * 8
        return LayerPart(
            (self.product(tokens, model.width, share), self.passing(forward * logits)),
            (*self.product_backward(tokens, model.width, share), self.passing(backward * logits)),
            (),
            0.0 if model.tied else model.vocabulary * model.width / self.strategy.tensor,
            kept,
            kept,
            tokens * model.width * self.width / self.strategy.tensor,
        )


def _written_out(whole: float, inner: float, *, backward: bool) -> list[tuple[float, int]]:
    """Numbers read and written by normalizations and GELU as separate operators, as in BERT's first code.

    Normalization: mean 1, difference 2, square 2, mean 1, difference 2, quotient 2, weight 2, bias 2, instead
    of 2 in one kernel; backward 28 instead of 3. GELU: quotient 2, error function 2, sum 2, half 2, product
    3, instead of 2; backward product 5, half 2, error function 11, quotient 2, sum of gradients 3, bias 1,
    instead of 4.
    """
    return [(whole, 17 + 2 * 25), (inner, 24)] if backward else [(whole, 10 + 2 * 12), (inner, 11)]


def product(rows: int, inner: int, columns: int, precision: Precision) -> OperatorShape:
    """A matrix product."""
    moved = precision.width_bytes * (rows * inner + inner * columns + rows * columns)
    number_format = precision.number_format
    return OperatorShape(
        "aten::mm",
        ((rows, inner), (inner, columns)),
        (number_format, number_format),
        ((rows, columns),),
        (number_format,),
        2 * rows * inner * columns,
        moved,
    )


def attention(strategy: Strategy, model: Transformer, *, backward: bool) -> OperatorShape:
    """Fused attention: two products forward, five backward. Causal attention covers half of the pairs of tokens."""
    sequence = model.sequence // strategy.context
    heads = model.heads // strategy.tensor
    query = (strategy.micro_batch, heads, sequence, model.head_width)
    pairs = strategy.micro_batch * heads * sequence * model.sequence // (2 if model.causal else 1)
    number_format = strategy.precision.number_format
    numbers = strategy.micro_batch * heads * sequence * model.head_width
    return OperatorShape(
        f"aten::_scaled_dot_product_flash_attention{'_backward' if backward else ''}",
        (query,) * 3,
        (number_format,) * 3,
        (query,) * (3 if backward else 1),
        (number_format,) * (3 if backward else 1),
        (5 if backward else 2) * 2 * pairs * model.head_width,
        strategy.precision.width_bytes * numbers * (8 if backward else 4),
    )


def passing(numbers: float, precision: Precision) -> OperatorShape:
    """An elementwise operator that reads and writes ``numbers`` activations in total."""
    count, formats = max(1, round(numbers / 2)), (precision.number_format,)
    moved = 2 * count * precision.width_bytes
    return OperatorShape("aten::mul", ((count,),), formats, ((count,),), formats, 0, moved)


def transformer_names() -> tuple[str, ...]:
    """The names of the transformers that come with Skyline."""
    return tuple(one.name for one in _known())


def transformer_named(name: str, sequence: int | None = None) -> Transformer:
    """A described transformer by name, at its usual sequence length or at ``sequence``, or one from a ``.json`` file.

    Raises:
        UsageError: the name is not known, or the file cannot be used.
    """
    if name.endswith(".json"):
        try:
            data = read_bounded(Path(name), _BYTES_OF_A_MODEL)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
        found = transformer_from(data, name)
        return found if sequence is None else msgspec.structs.replace(found, sequence=sequence)
    for one in _known():
        if one.name == name.casefold():
            return one if sequence is None else msgspec.structs.replace(one, sequence=sequence)
    raise UsageError(f"no model {name} is known", hint=f"Available: {', '.join(transformer_names())}.")


def transformer_from(data: bytes, where: str) -> Transformer:
    """A transformer described in JSON.

    Raises:
        UsageError: the text is no such description.
    """
    try:
        found = msgspec.json.decode(data, type=Transformer)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{where} does not describe a transformer: {error}") from None
    sizes = (
        found.blocks,
        found.width,
        found.heads,
        found.hidden,
        found.vocabulary,
        found.sequence,
        found.experts,
    )
    if min(sizes) < 1 or found.width % found.heads or not 1 <= found.active_experts <= found.experts:
        raise UsageError(f"{where}: sizes must be 1 or more, and heads must divide the width")
    if not 0 < found.predicted <= 1:
        raise UsageError(f"{where}: predicted must be a share of the tokens, more than 0 and at most 1")
    return found


def _known() -> tuple[Transformer, ...]:
    data = files("skyline.plan").joinpath("models", "transformers.json").read_bytes()
    return tuple(msgspec.json.decode(data, type=list[Transformer]))
