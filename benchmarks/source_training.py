"""The training of generated scripts: loader, wrapper, optimizer, one iteration, and an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from source_model import Parts
from source_style import RAW, Block, Style


@dataclass
class Told:
    """Facts that a run would report about the choices made here."""

    wrapped: bool = False
    backend: str = "nccl"
    evaluates: bool = False
    records_gradients: bool = False
    workers: int = 0
    named_workers: int = 2
    """The value of the named constant for the number of workers."""
    seen_softmax: bool = False


def constants(style: Style, told: Told) -> list[Any]:
    """Constants that the setup uses by name."""
    return [
        "EPOCHS = 3",
        style.assign("BATCH", style.one("16", "0x10", "(16)", "1_6")),
        style.assign("WORKERS", str(told.named_workers)),
        *(["def noted(f): return f"] if "@noted" in style.names["decorators"] else []),
    ]


def setup(style: Style, parts: Parts, told: Told) -> list[Any]:
    """Device, settings, loader, model, wrapper, optimizer and criterion, in an order that works."""
    names = style.names
    torch, nn, model, device = (names[key] for key in ("torch", "nn", "model", "device"))
    kind = style.one("'cuda'", '"cpu"')
    made = f"{torch}.device({kind})"
    statements: list[Any] = [style.assign(device, style.one(made, made, '"cuda:0"'))]
    if style.sometimes():
        statements.append(
            style.one(
                f"{torch}.manual_seed(0)",
                f"{torch}.backends.cudnn.benchmark = False",
                f"{torch}.set_num_threads(1)",
                f"{torch}.set_float32_matmul_precision('highest')",
                f"{torch}.backends.cuda.matmul.allow_tf32 = False",
            )
        )
    statements += _loader(style, told)
    value = "Net()" if parts.any else style.call(f"{nn}.Sequential", [f"{nn}.Linear(8, 8)", f"{nn}.ReLU()"])
    moved = style.one("chained", "assigned", "in place", "no")
    statements.append(style.assign(model, value + (f".to({device})" if moved == "chained" else "")))
    if moved in ("assigned", "in place"):
        statements.append(
            f"{model} = {model}.to({device})" if moved == "assigned" else f"{model}.to({device})"
        )
    if style.sometimes():
        statements.append(_wrapped(style, model, told))
    statements.append(_optimizer(style, model))
    losses = style.one(*["CrossEntropyLoss"] * 9, "BCELoss")
    statements.append(style.assign(names["criterion"], f"{nn}.{losses}()"))
    return statements


def _loader(style: Style, told: Told) -> list[Any]:
    statements: list[Any] = []
    size = f"batch_size={style.one('BATCH', '16', '0x10')}"
    workers = style.one(
        "", "", "0", "2", "4", "WORKERS", "os.cpu_count()", "(2)", "int(WORKERS)", "EPOCHS and 2"
    )
    pinned = ["pin_memory=False"] if style.sometimes() else []
    keywords = [size, "shuffle=True", *pinned]
    where = style.one("keyword", "keyword", "keyword", "place", "dict call", "display", "item", "spread")
    dataset = style.one(
        "make_data()", "make_data()", f'make_data("""\n{RAW}  as it is\n""")', "list(range(64))"
    )
    first = [dataset]
    if workers and where == "place":
        first, keywords = [dataset, "16", "True", "None", "None", workers], pinned
    elif workers and where == "dict call":
        statements.append(
            style.assign("options", style.call("dict", [f"num_workers={workers}", "drop_last=True"]))
        )
        keywords.append("**options")
    elif workers and where == "display":
        display = style.one(
            f"{{'num_workers': {workers}, 'drop_last': True}}",
            f'{{\n    "num_workers": {workers},  # processes\n}}',
            f"{{'drop_last': True, 'num_' 'workers': {workers}}}",
        )
        statements.append(style.assign("options", display))
        keywords.append("**options")
    elif workers and where == "item":
        statements += ["options = {}", f"options['num_workers'] = {workers}"]
        keywords.append("**options")
    elif workers and where == "spread":
        keywords.append(f"**{{'num_workers': {workers}}}")
    else:
        keywords += [f"num_workers={workers}"] if workers else []
        if style.rarely():
            statements.append(style.one("options = dict(drop_last=True)", "options = make_options()"))
            keywords.append("**options")
    spread = [each for each in keywords if each.startswith("**")]
    keywords = style.mixed([each for each in keywords if each not in spread]) + spread
    if workers and where == "keyword" and style.rarely():
        keywords.insert(0, style.one("persistent_workers=False", "prefetch_factor=2"))
    named = str(told.named_workers)
    told.workers = int(
        {"": "0", "WORKERS": named, "int(WORKERS)": named, "os.cpu_count()": "8"}.get(
            workers, workers.strip("()EPOCHSand ")
        )
    )
    made = style.call(style.names["DataLoader"], [*first, *keywords])
    if style.rarely():
        statements.append(Block("def make_loader():", [f"return {made}"]))
        return [*statements, style.assign(style.names["loader"], "make_loader()")]
    return [*statements, style.assign(style.names["loader"], made)]


def _wrapped(style: Style, model: str, told: Told) -> str:
    told.wrapped = True
    told.backend = style.one("nccl", "gloo")
    options = style.mixed(
        [
            *(["device_ids=[0]"] if style.often() else []),
            *(["find_unused_parameters=False"] if style.sometimes() else []),
            *(["bucket_cap_mb=25"] if style.rarely() else []),
            *(["gradient_as_bucket_view=False"] if style.rarely() else []),
            *(["**{'static_graph': False}"] if style.chance(20) else []),
        ]
    )
    spread = [each for each in options if each.startswith("**")]
    ordered = [each for each in options if each not in spread] + spread
    return style.assign(model, style.call(style.names["wrapper"], [model, *ordered]))


def _optimizer(style: Style, model: str) -> Any:
    names = style.names
    rate = style.one("lr=1e-3", "lr=1e-3", "1e-3", "lr=(rate := 1e-3)")
    others = ["weight_decay=0.0"] if style.sometimes() else []
    if names["class"] == "SGD" and style.rarely():
        others.append("momentum=0.9")
    parameters = style.one(
        f"{model}.parameters()",
        f"{model}.parameters()",
        f"{model}.parameters()",
        f"[p for p in {model}.parameters() if p.requires_grad]",
        f"[{{'params': {model}.parameters()}}]",
    )
    ordered = [rate, *style.mixed(others)] if rate == "1e-3" else style.mixed([rate, *others])
    arguments = [parameters, *ordered]
    if style.rarely():
        arguments.append(style.one("**{'maximize': False}", "**extra()"))
    return style.assign(names["optimizer"], style.call(names["optim"], arguments))


def iteration(style: Style) -> list[Any]:
    """Transfers, clearing, forward, loss, backward, clipping, step, and sometimes a print."""
    names = style.names
    loss, model, optimizer = (names[key] for key in ("loss", "model", "optimizer"))
    statements = _transfers(style)
    clearing: Any = style.one(
        f"{optimizer}.zero_grad()",
        f"{model}.zero_grad()",
        f"{optimizer}.zero_grad(set_to_none=False)",
        style.call(f"{optimizer}.zero_grad", ["set_to_none=False"]),
        Block(f"for p in {model}.parameters():", [Block("if p.grad is not None:", ["p.grad.zero_()"])]),
    )
    first = style.often()
    statements += [clearing] if first else []
    statements += _loss(style)
    if style.rarely():
        statements.append(f"{loss} = {loss} / 2")
    statements.append(
        style.one(
            *[f"{loss}.backward()"] * 12,
            f"{loss}.mean().backward()",
            f"{loss}.backward(retain_graph=True)",
            f"({loss}).backward()",
        )
    )
    if style.sometimes():
        statements.append(
            style.call(f"{names['nn']}.utils.clip_grad_norm_", [f"{model}.parameters()", "1.0"])
        )
    stepped = f"{optimizer}.step()"
    odd = style.one(*range(20))
    if odd == 19:
        statements += [Block("try:", [stepped]), Block("except RuntimeError:", ["raise"])]
    elif odd == 18:
        statements.append(Block("if EPOCHS:", [stepped]))
    else:
        statements.append(f"{optimizer}.step(lambda: {loss})" if odd == 17 else stepped)
    if not first:
        statements.append(clearing)
    return [*statements, *(_report(style) if style.often() else [])]


def _transfers(style: Style) -> list[Any]:
    names = style.names
    x, y, device = names["x"], names["y"], names["device"]
    where = f"to({device})" if not names["model"].startswith("self.") else "cuda()"
    form = style.one("two", "two", "one", "call", "no", "keyword", "comprehension")
    if form == "two":
        return [f"{x} = {x}.{where}", style.assign(y, f"{y}.{where}")]
    if form == "one":
        return [f"{x}, {y} = {x}.{where}, {y}.{where}"]
    if form == "call":
        return [f"{x} = " + style.call(f"{x}.to", ["'cuda'"]), f"{y} = {y}.cuda(0)"]
    if form == "keyword":
        return [f"{x} = {x}.to(device='cuda', non_blocking=False); {y} = {y}.to(\n    'cuda',  # there\n)"]
    if form == "comprehension":
        return [f"{x}, {y} = (each.to('cuda') for each in ({x}, {y}))"]
    return []


def _loss(style: Style) -> list[Any]:
    """Forward pass and loss."""
    names = style.names
    x, y, out, loss, model, criterion = (
        names[key] for key in ("x", "y", "out", "loss", "model", "criterion")
    )
    plain = ["two"] * 8
    form = style.one(
        *plain, "one", "one", "condition", "text", "autocast", "wrapped", "nested", "suppressed", "walrus"
    )
    if form == "one":
        return [style.assign(loss, style.call(criterion, [f"{model}({x})", y]))]
    if form == "condition":
        return [
            Block("if EPOCHS > 2:", [f"{out} = {model}({x})"]),
            Block("else:", [f"{out} = {model}({x} * 2)"]),
            f"{loss} = {criterion}({out}, {y})",
        ]
    if form in ("autocast", "wrapped"):
        kind = f"{names['torch']}.autocast('cuda')" if form == "autocast" else "open('log') as log, lock"
        return [Block(f"with {kind}:", [f"{out} = {model}({x})", f"{loss} = {criterion}({out}, {y})"])]
    if form == "nested":
        both = [f"{out} = {model}({x})", f"{loss} = {criterion}({out}, {y})"]
        return [Block("if True:", [Block("for again in range(1):", both)])]
    if form == "suppressed":
        forward = style.assign(out, style.call(model, [x]))
        return [Block("try:", [forward]), Block("finally:", ["pass"]), f"{loss} = {criterion}({out}, {y})"]
    if form == "walrus":
        return [f"{loss} = {criterion}(({out} := {model}({x})), {y})"]
    statements: list[Any] = [style.assign(out, style.call(model, [x]))]
    if form == "text":
        statements.append(
            "\n".join(("note = '''", f"{RAW}  of {{x}} as it is", f"{RAW}''' + f\"{{1:>{{2}}}}\""))
        )
    return [*statements, style.assign(loss, style.call(criterion, [out, y]))]


def _report(style: Style) -> list[Any]:
    loss = style.names["loss"]
    return style.one(
        [f"print({loss}.item())"],
        [f'print(f"{{{loss}.item():.3f}}")'],
        [f"history = {loss}.item()"],
        [Block("if True:", [f"print({loss}.item(), end='\\n')"])],
        [style.call("print", [f"'loss {{}}'.format({loss}.item())"])],
        [f"seen = float({loss}.detach()) if {loss} is not None else 0.0"],
    )


def evaluation(style: Style, told: Told) -> tuple[list[Any], list[Any]]:
    """A function that evaluates and the statement that calls it, or evaluating statements among others."""
    names = style.names
    torch, model, loader = names["torch"], names["model"], names["loader"]
    told.evaluates = True
    if style.sometimes():
        told.records_gradients = True
        read = f"{model}(vx).sum().item()"
        plain = Block(f"for vx, vy in {loader}:", [f"print({read})"])
        return [], style.one([plain], [f"seen = [{read} for vx, vy in {loader}]"], [f"{model}.eval()", plain])
    off = style.one("", "", "", "with", "decorator")
    told.records_gradients = not off
    body: list[Any] = style.one(
        [Block("for vx, vy in batches:", ["model(vx)", "print(vy)"])],
        [
            "total = 0.0",
            Block(
                "for vx, vy in batches:",
                [style.assign("guess", style.call("model", ["vx"])), "total += guess.sum().item()"],
            ),
            "return total",
        ],
        ["found = [model(vx) for vx, vy in batches]", "return found"],
        ["for vx, _ in batches: last = model(vx)", "return last.mean().item()"],
        ["return sum(model(vx).sum().item() for vx, _ in batches)"],
        [Block("for vx, vy in batches:", ["yield model(vx)"])],
        [
            Block(
                "for vx, vy in batches:", [Block("if vx is None:", ["continue"]), "kept = model(\n  vx\n)"]
            ),
            Block("else:", ["return 0"]),
        ],
    )
    body = [*(["model.eval()"] if style.often() else []), *body]
    if off == "with":
        body = [Block(f"with {torch}.no_grad():", body)]
    decorator = (
        f"@{torch}.no_grad()"
        if off == "decorator"
        else style.one("", "", "", *names["decorators"].split("|"))
    )
    header = style.one(
        "def evaluate(model, batches):",
        "def evaluate(model, batches, *, limit=None) -> object:",
        "def evaluate(\n    model,\n    batches,  # of the test\n):",
    )
    return [Block(header, body, decorator)], [f"evaluate({model}, {loader})"]
