"""Reads the products of a model from the code of its modules, with the sizes of the recorded operators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from skyline.source.dataflow import Made, Stretch, Value, stretches
from skyline.source.forms import function_at, parsed
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.whatif.catalogue.models.product_terms import Block, Op, Place, Size, Term, size_of, swapped

_PRODUCTS = re.compile(r"::(_?linear\w*|mkldnn_linear|matmul|b?mm|addmm|baddbmm)$")
_SUMS = re.compile(r"::add_?$")
_FACTORS = re.compile(r"::(mul|div)_?$")
_CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d")
_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


def blocks(profile: Profile) -> tuple[Block, ...]:
    """All blocks of the models with products whose sizes were recorded; equal blocks are merged into one."""
    modules = {module.path: module for module in profile.modules}
    written = list(_written(profile, modules))
    found: dict[Block, list[str]] = {}
    for phase in (Phase.FORWARD, *([Phase.OTHER] if _evaluates(profile) else [])):
        recorded = _Recorded(profile, phase)
        for path, stretch, file in written:
            made = _Reader(modules, recorded, path, file, stretch).block()
            if made is not None:
                found.setdefault(made, []).append(path)
    return tuple(replace(block, paths=tuple(dict.fromkeys(paths))) for block, paths in found.items())


def _evaluates(profile: Profile) -> bool:
    """True if the recorded iterations contain forward passes in evaluation mode."""
    return any(
        call.name == "eval forward" and call.options.get("training") is False for call in profile.calls
    )


def _written(profile: Profile, modules: Mapping[str, ModuleFact]) -> Iterator[tuple[str, Stretch, str]]:
    """The stretches of each module: from its ``forward``, or from the order of an ``nn.Sequential``."""
    texts = {source.path: source.text for source in profile.sources}
    known: dict[tuple[str, int], tuple[Stretch, ...]] = {}
    for path, module in modules.items():
        if module.library and module.class_name == "Sequential":
            yield from _sequential(module, modules)
        place = module.class_line
        if module.library or place is None or place.file not in texts or module.calls_per_iteration <= 0:
            continue
        key = place.file, place.line
        if key not in known:
            tree = parsed(texts[place.file])
            function = None if tree is None else function_at(tree, place.line)
            known[key] = () if function is None else stretches(function)
        for stretch in known[key]:
            yield path, stretch, place.file


def _sequential(module: ModuleFact, modules: Mapping[str, ModuleFact]) -> Iterator[tuple[str, Stretch, str]]:
    values = [Value(Made.GIVEN)]
    while (inner := modules.get(f"{module.path}.{len(values) - 1}")) is not None:
        last = len(values) - 1
        place = inner.created_line or module.created_line
        values.append(Value(Made.CALLED, str(last), (last,), line=0 if place is None else place.line))
    if len(values) > 2:
        file = "" if module.created_line is None else module.created_line.file
        yield module.path, Stretch(tuple(values), frozenset((len(values) - 1,))), file


@dataclass(frozen=True)
class _Recorded:
    """The operator calls of one phase, by module and line."""

    profile: Profile
    phase: Phase

    @cached_property
    def _by_place(self) -> dict[tuple[str, int], list[OperatorShape]]:
        """The calls in order by module and line (0: any line), from the first iteration with calls there."""
        trace = self.profile.trace
        found: dict[tuple[str, int], list[tuple[int, RecordKind, OperatorShape]]] = {}
        for record in trace.records:
            if record.phase is not self.phase or not 0 <= record.shape < len(trace.shapes):
                continue
            if record.kind not in (RecordKind.OPERATOR, RecordKind.KERNEL) or record.module < 0:
                continue
            call = record.iteration, record.kind, trace.shapes[record.shape]
            line = trace.lines[record.line].line if 0 <= record.line < len(trace.lines) else 0
            for each in {0, line}:
                found.setdefault((trace.modules[record.module], each), []).append(call)
        return {
            # On a GPU, an operator and its kernel are both recorded: only one kind counts.
            key: [shape for iteration, kind, shape in calls if (iteration, kind) == calls[0][:2]]
            for key, calls in found.items()
        }

    def calls(self, path: str, line: int, pattern: re.Pattern[str]) -> list[OperatorShape]:
        """The calls of the operators that match a pattern, in order."""
        return [one for one in self._by_place.get((path, line), ()) if pattern.search(one.operator)]

    def ran(self, path: str) -> bool:
        """True if any work of a module was recorded."""
        return (path, 0) in self._by_place


class _Reader:
    """Turns one stretch of one module into a block."""

    def __init__(
        self, modules: Mapping[str, ModuleFact], recorded: _Recorded, path: str, file: str, stretch: Stretch
    ) -> None:
        self._modules = modules
        self._recorded = recorded
        self._path = path
        self._file = file
        self._values = stretch.values
        self._read_elsewhere = stretch.needed
        self._evaluating = recorded.phase is Phase.OTHER
        self._terms: list[Term] = []
        self._of_value: dict[int, int] = {}
        self._sizes: dict[int, Size] = {}
        self._numbers: list[str] = []
        self._format = "float32"

    def block(self) -> Block | None:
        """The block; None if it has no term with a known size."""
        if self._changes_in_place():
            return None
        calls = self._calls()
        self._learn_sizes(calls)
        needed: set[int] = set()
        for index, value in enumerate(self._values):
            if value.made in (Made.GIVEN, Made.ATTRIBUTE):
                continue
            found = self._followed(value, calls.get(index))
            if found is None:
                needed.update(self._of_value[one] for one in value.arguments if one in self._of_value)
            else:
                self._of_value[index] = found
        needed.update(self._of_value[one] for one in self._read_elsewhere if one in self._of_value)
        operations = frozenset(one for one in needed if self._terms[one].op is not Op.LEAF)
        if not operations:
            return None
        return Block(tuple(self._terms), operations, tuple(self._numbers), self._format, self._evaluating)

    def _module(self, value: Value) -> ModuleFact | None:
        """The library module that computes a value, if any."""
        module = self._modules.get(f"{self._path}.{value.name}") if value.made is Made.CALLED else None
        return module if module is not None and module.library else None

    def _changes_in_place(self) -> bool:
        """True if a module changes a value in place that is read again later."""
        for index, value in enumerate(self._values):
            module = self._module(value)
            if module is None or not module.options.get("inplace"):
                continue
            later = (one for one in self._values[index + 1 :] if one.made not in (Made.GIVEN, Made.APPLIED))
            if any(value.arguments[0] in one.arguments for one in later):
                return True
        return False

    # Sizes.

    def _calls(self) -> dict[int, OperatorShape]:
        """The call that computed each value; several calls on one line are matched in the order of the code."""
        found: dict[int, OperatorShape] = {}
        for kinds, pattern in (
            ((Made.PRODUCT, Made.LINEAR), _PRODUCTS),
            ((Made.SUM,), _SUMS),
            ((Made.TIMES,), _FACTORS),
        ):
            by_line: dict[int, list[int]] = {}
            for index, value in enumerate(self._values):
                if value.made in kinds:
                    by_line.setdefault(value.line, []).append(index)
            for line, values in by_line.items():
                calls = self._recorded.calls(self._path, line, pattern)
                if len(calls) % len(values) == 0:
                    found |= dict(zip(values, calls, strict=False))
        for index, value in enumerate(self._values):
            module = self._module(value)
            if module is not None and module.class_name == "Linear":
                found.update((index, one) for one in self._recorded.calls(module.path, 0, _PRODUCTS)[:1])
        return found

    def _learn_sizes(self, calls: Mapping[int, OperatorShape]) -> None:
        """Store the sizes of the operands of recorded calls, also before an exchange of dimensions."""
        for index, call in calls.items():
            value = self._values[index]
            operands = call.inputs
            if value.made not in (Made.SUM, Made.TIMES):
                operands = _operands(call)
                self._format = next((one for one in call.dtypes if "float" in one), self._format)
            if value.made is Made.LINEAR or len(operands) != len(value.arguments):
                operands = operands[:1]
            for argument, size in zip(value.arguments, operands, strict=False):
                self._sizes.setdefault(argument, size)
        for index in range(len(self._values) - 1, -1, -1):
            value, size = self._values[index], self._sizes.get(index)
            before = swapped(size, value.dimensions) if value.made is Made.SWAPPED and size else None
            if before is not None:
                self._sizes.setdefault(value.arguments[0], before)

    # Terms.

    def _followed(self, value: Value, call: OperatorShape | None) -> int | None:
        """The term of a value; None if the value is not modelled."""
        place = Place("", value.line, self._file, Op.LEAF)
        match value.made:
            case Made.CALLED:
                return self._called(value, call)
            case Made.PRODUCT if call is not None:
                return self._operation(Op.PRODUCT, value.arguments, place)
            case Made.LINEAR if call is not None and len(_operands(call)) == 2:
                size = _operands(call)[1]
                given, weights, *biases = value.arguments
                weight = self._weight(weights, size)
                if not biases:
                    return self._operation(Op.PRODUCT, (given,), place, after=(weight,))
                bias = self._weight(biases[0], size[-1:])
                return self._operation(Op.AFFINE, (given,), place, before=(bias,), after=(weight,))
            case Made.SUM:
                return self._operation(Op.SUM, value.arguments, place)
            case Made.TIMES:
                return self._scaled(value, call, place)
            case Made.SWAPPED:
                size = self._size(value.arguments[0])
                if size is None or swapped(size, value.dimensions) is None or _wrong_rank(value, size):
                    return None
                dimensions = tuple(sorted(one % len(size) for one in value.dimensions))
                return self._operation(Op.SWAPPED, value.arguments, place, numbers=dimensions)
            case _:
                return None

    def _called(self, value: Value, call: OperatorShape | None) -> int | None:
        module = self._module(value)
        if module is None:
            return None
        place = Place(value.name, value.line, self._file, Op.LEAF)
        if self._evaluating and self._recorded.ran(module.path):
            kinds = ((Op.CONVOLVED, _CONVOLUTIONS), (Op.NORMED, _NORMS))
            op = next((one for one, names in kinds if module.class_name in names), None)
            if op is not None:
                self._sizes.setdefault(value.arguments[0], (1,))
                return self._operation(op, value.arguments, place)
        inputs, outputs = module.options.get("in_features"), module.options.get("out_features")
        if module.class_name != "Linear" or call is None:
            return None
        if not isinstance(inputs, int) or not isinstance(outputs, int):
            return None
        weight = self._parameter((inputs, outputs), value.name, module.trainable)
        if not module.options.get("bias"):
            return self._operation(Op.PRODUCT, value.arguments, place, after=(weight,))
        bias = self._parameter((outputs,), f"{value.name}.bias", module.trainable)
        return self._operation(Op.AFFINE, value.arguments, place, before=(bias,), after=(weight,))

    def _scaled(self, value: Value, call: OperatorShape | None, place: Place) -> int | None:
        """The term of a value times a plain number: a literal, or an attribute that is not a tensor."""
        arguments, text = value.arguments, value.name
        if len(arguments) == 2:
            if call is None or len(call.inputs) != 1:
                return None
            names = [self._values[one].name for one in arguments if self._values[one].made is Made.ATTRIBUTE]
            arguments = tuple(one for one in arguments if self._values[one].made is not Made.ATTRIBUTE)
            if len(names) != 1:
                return None
            text = f"self.{names[0]}"
            self._sizes.setdefault(arguments[0], call.inputs[0])
        if text not in self._numbers:
            self._numbers.append(text)
        return self._operation(Op.SCALED, arguments, place, numbers=(self._numbers.index(text),))

    def _operation(
        self,
        op: Op,
        arguments: tuple[int, ...],
        place: Place,
        *,
        before: tuple[int, ...] = (),
        after: tuple[int, ...] = (),
        numbers: tuple[int, ...] = (),
    ) -> int | None:
        """A term of values, with other terms before and after them; None if a size is not known."""
        if any(self._size(one) is None for one in arguments):
            return None
        children = (*before, *map(self._operand, arguments), *after)
        size = size_of(op, numbers, [self._terms[one].size for one in children])
        if size is None:
            return None
        if op in (Op.CONVOLVED, Op.NORMED):
            numbers = (len(self._terms),)
        return self._add(Term(op, children, numbers, size, replace(place, op=op)))

    def _size(self, value: int) -> Size | None:
        if value in self._of_value:
            return self._terms[self._of_value[value]].size
        return self._sizes.get(value)

    def _operand(self, value: int) -> int:
        """The term of a value; a leaf if no term computes it."""
        if value not in self._of_value:
            made = self._values[value]
            size = self._sizes[value]
            if made.made is Made.ATTRIBUTE and self._owner(made.name).parameter_count:
                self._of_value[value] = self._weight(value, size)
            else:
                self._of_value[value] = self._add(
                    Term(Op.LEAF, numbers=(len(self._terms),), size=size, name=made.name)
                )
        return self._of_value[value]

    def _owner(self, name: str) -> ModuleFact:
        """The module that owns an attribute."""
        front = name.rpartition(".")[0]
        own = self._modules[self._path]
        return self._modules.get(f"{self._path}.{front}", own) if front else own

    def _weight(self, value: int, size: Size) -> int:
        """A leaf for a weight in the form used by the product, with one row for each input."""
        name = self._values[value].name
        return self._parameter(size, name, self._owner(name).trainable)

    def _parameter(self, size: Size, name: str, trained: bool) -> int:
        return self._add(
            Term(Op.LEAF, (), (len(self._terms),), size, parameter=True, trained=trained, name=name)
        )

    def _add(self, term: Term) -> int:
        self._terms.append(term)
        return len(self._terms) - 1


def _operands(call: OperatorShape) -> tuple[Size, ...]:
    """The two factors of a product, the second in the form used by the product."""
    name = call.operator.rpartition("::")[2]
    matrices = call.inputs[1:3] if name in ("addmm", "baddbmm") else call.inputs[:2]
    if "linear" in name and len(matrices) == 2:
        return matrices[0], matrices[1][::-1]
    return matrices


def _wrong_rank(value: Value, size: Size) -> bool:
    """True for ``.T`` and ``t()`` of a tensor that is not a matrix."""
    return value.dimensions == (0, 1) and len(size) != 2
