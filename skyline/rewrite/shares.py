"""Gives each rank its own share of the samples, through a sampler or through its own random numbers."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import add_keyword, keyword_of, replace_value
from skyline.rewrite.blocks import insert_after, insert_before, statement_of
from skyline.rewrite.catalogue.num_workers import training_loader, training_loader_fact
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.sites.iteration import Iteration
from skyline.rewrite.sites.model import ModelSite
from skyline.source.arguments import call_sites, is_method, passed, position_of, qualified_name
from skyline.source.batch_uses import is_loader, loader_calls
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.scope import parameters_of
from skyline.source.text import Function, TextEdit, dotted, last_name, text_of

_SAMPLER = "torch.utils.data.distributed:DistributedSampler"
_DRAWS = ("torch.randint", "torch.randperm", "torch.rand", "torch.randn", "torch.multinomial")
_SPLITS = ("random_split", "randperm", "train_test_split", "shuffle")
_REPEATS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.For, ast.While, ast.Lambda)


def shared(context: RewriteContext, within: Iteration, site: ModelSite) -> list[TextEdit]:
    """Uses a sampler if the program makes a loader or the run saw one, else random numbers."""
    made = any(is_loader(module, call.func) for module, call in loader_calls(context.program))
    if made or context.profile.loaders:
        return _shared_by_sampler(context, within)
    return _shared_by_chance(context, within, site)


def _shared_by_sampler(context: RewriteContext, within: Iteration) -> list[TextEdit]:
    """Adds a DistributedSampler to the training's loader, which takes over the shuffling, and counts epochs."""
    module, call = training_loader(context)
    dataset = _dataset(context, module, call)
    shuffle = keyword_of(call, "shuffle")
    shuffles = False
    if shuffle is not None:
        if not isinstance(shuffle.value, ast.Constant):
            raise refusal(
                f"`shuffle={text_of(shuffle.value)}` is computed when the script runs", module, shuffle.value
            )
        shuffles = bool(shuffle.value.value)
    name = _iterated(module, call, within)
    sampler = usable(module, _SAMPLER, call)
    given = f"sampler={sampler.text}({dataset}{'' if shuffles else ', shuffle=False'})"
    edits = list(sampler.edits)
    if shuffle is not None:
        edits.append(replace_value(module.source, shuffle, given))
    else:
        edits += add_keyword(module.source, call, given)
    if shuffles:
        _check_only_loader(context, module, call, within, name)
        # The sampler counts the epochs itself, since the loop may have no epoch number.
        edits += insert_before(
            within.module, within.loop, f"{name}.sampler.set_epoch({name}.sampler.epoch + 1)"
        )
    return edits


def _dataset(context: RewriteContext, module: Module, call: ast.Call) -> str:
    """The text of the loader's dataset; refused if the samples cannot be divided by index."""
    for name in ("sampler", "batch_sampler"):
        if keyword_of(call, name) is not None:
            raise refusal(
                f"The loader has a `{name}` of its own, which gives all ranks the same samples", module, call
            )
    frame, route = Frame(module, module.scope(call)), Route(KnobKind.CALL_ARGUMENT, "")
    for mapping in (keyword.value for keyword in call.keywords if keyword.arg is None):
        for name in ("shuffle", "sampler", "batch_sampler"):
            if holds(context.resolver, mapping, frame, name, route) is not False:
                message = f"`**{text_of(mapping)}` may set `{name}`, which goes to the sampler"
                raise refusal(message, module, call, hint="Write it in the call.")
    if "DataLoader" not in (last_name(call.func), qualified_name(module, call.func).rpartition(".")[2]):
        raise refusal(f"`{text_of(call.func)}` takes no sampler of PyTorch", module, call)
    if any(isinstance(each, _REPEATS) for each in module.around(call)):
        raise refusal(
            "More than one loader is made here", module, call, hint="Make the training's loader by itself."
        )
    given = passed(call, "dataset", 0).value
    simple = (
        given.value if isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Constant) else given
    )
    if given is None or not simple or not dotted(simple) or len(call.args) > 2:
        hint = (
            "Give the dataset a name first, and write `shuffle` by name: DataLoader(dataset, shuffle=True)."
        )
        raise refusal(f"`{text_of(call)}` is not given a dataset by name", module, call, hint=hint)
    fact = training_loader_fact(context)
    if (fact is not None and fact.dataset_size is None) or _is_stream(context, module, simple):
        hint = "Give each rank its part in the dataset's __iter__, by torch.distributed.get_rank()."
        raise refusal("The dataset is a stream, which no sampler can share out", module, call, hint=hint)
    return ast.unparse(given)


def _is_stream(context: RewriteContext, module: Module, dataset: ast.expr) -> bool:
    streams = {
        node.name
        for _, node in context.program.nodes_of(ast.ClassDef)
        if any(last_name(base) == "IterableDataset" for base in node.bases)
    }
    found = module.scope(dataset).lookup(dotted(dataset)) if dotted(dataset) else None
    values = [each.value for each in found[1]] if found else []
    return any(isinstance(value, ast.Call) and last_name(value.func) in streams for value in values)


def _iterated(made_in: Module, call: ast.Call, within: Iteration) -> str:
    """The training loop's name for the loader."""
    loop, module = within.loop, within.module
    source = loop.iter if isinstance(loop, ast.For | ast.AsyncFor) else loop.test
    for _ in range(3):
        used = [
            each for each in ast.walk(source) if isinstance(each, ast.Name | ast.Attribute) and dotted(each)
        ]
        by_name = [each for each in used if dotted(each).rpartition(".")[2] in _names_of(made_in, call)]
        handed_on = [each for each in used if "loader" in dotted(each).lower()]
        if found := (by_name or handed_on)[:1]:
            return dotted(found[0])
        # ``bar = tqdm(loader)`` before ``for batch in bar``.
        names = [each for each in used if isinstance(each, ast.Name)]
        bound = [module.scope(loop).bindings.get(each.id, []) for each in names]
        value = next((each[0].value for each in bound if len(each) == 1 and each[0].value is not None), None)
        if value is None:
            break
        source = value
    hint = "Go over it with `for batch in loader:`."
    raise refusal("The training loop does not go over the loader by name", module, loop, hint=hint)


def _names_of(module: Module, call: ast.Call) -> set[str]:
    statement = statement_of(module, call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {ast.unparse(target).rpartition(".")[2] for target in targets}


def _check_only_loader(
    context: RewriteContext, made_in: Module, call: ast.Call, within: Iteration, name: str
) -> None:
    """Refuses a loop that also goes over another loader, as in a function for both training and evaluation."""
    module = within.module
    function = next((each for each in module.around(within.loop) if isinstance(each, Function)), None)
    if function is None or name not in {each.arg for each in parameters_of(function)}:
        return
    position = position_of(function, name, bound=is_method(module, function))
    for site in call_sites(context.program, module, function):
        given = passed(site.call, name, position).value
        known = given is not None and dotted(given).rpartition(".")[2] in _names_of(made_in, call)
        if not known and given is not None and len(call_sites(context.program, module, function)) > 1:
            message = f"`{function.name}` is also given `{text_of(given)}`, whose sampler counts no epochs"
            raise refusal(message, site.module, site.call)


def _is_of_model(module: Module, call: ast.Call) -> bool:
    """True in a class with a forward pass, whose random numbers are noise and not a batch."""
    return any(
        isinstance(each, Function) and each.name == "forward"
        for around in module.around(call)
        if isinstance(around, ast.ClassDef)
        for each in around.body
    )


def _shared_by_chance(context: RewriteContext, within: Iteration, site: ModelSite) -> list[TextEdit]:
    """Gives each rank its own random numbers, for a script that draws its batches at random.

    Raises:
        RewriteRefused: the loop does not use PyTorch's generator, or the data is split at random later on.
    """
    draws = [
        call
        for region, call in within.nodes(ast.Call)
        if qualified_name(region.module, call.func) in _DRAWS
        and keyword_of(call, "generator") is None
        and not _is_of_model(region.module, call)
    ]
    if not draws:
        hint = "Use a DataLoader: its sampler gives each rank a share of the samples."
        message = "There is no DataLoader, and no batch that torch.randint or the like draws"
        raise RewriteRefused(message, file=context.profile.script, line=within.loop.lineno, hint=hint)
    training = {id(call) for _, call in within.nodes(ast.Call)}
    for module, call in context.program.nodes_of(ast.Call):
        later = module is site.module and call.lineno > (site.statement.end_lineno or site.statement.lineno)
        if later and last_name(call.func) in _SPLITS and id(call) not in training:
            message = (
                f"`{text_of(call)}` divides the data after the model was made, when each rank has its "
                "own random numbers"
            )
            raise refusal(message, module, call, hint="Divide it before the model is made.")
    torch = usable(site.module, "torch", site.statement, behind=True)
    distributed = usable(site.module, "torch.distributed", site.statement, behind=True)
    line = f"{torch.text}.manual_seed({torch.text}.initial_seed() + {distributed.text}.get_rank())"
    return [*torch.edits, *distributed.edits, *insert_after(site.module, site.statement, line)]
