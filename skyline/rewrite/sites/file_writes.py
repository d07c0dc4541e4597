"""Statements that write files or show pictures: if several processes run one script, only one may run them."""

from __future__ import annotations

import ast

from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import statement_of, suite_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import last_name, text_of

_FUNCTIONS = {
    *("torch.save", "torch.jit.save", "torch.onnx.export", "pickle.dump", "json.dump", "yaml.dump"),
    *("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "safetensors.torch.save_file"),
    *("torchvision.utils.save_image", "matplotlib.pyplot.savefig", "matplotlib.pyplot.show", "os.mkdir"),
    *("os.makedirs", "shutil.copy", "shutil.copyfile", "shutil.copytree", "shutil.rmtree", "shutil.move"),
    *("os.remove", "os.rename", "os.replace"),
}
_METHODS = {
    "savefig", "save_pretrained", "push_to_hub", "to_csv", "to_json", "to_parquet", "write_text", "write_bytes",
    "mkdir", "unlink", "add_scalar", "add_scalars", "add_image", "add_images", "add_histogram", "add_figure",
    "add_graph", "add_text", "add_hparams", "add_embedding", "save",
}  # fmt: skip
_OPENERS = ("open", "gzip.open", "io.open", "bz2.open", "lzma.open")


@dataclass(frozen=True, slots=True, eq=False)
class FileWrite:
    """Neighbouring statements of one block that only write."""

    module: Module
    statements: tuple[ast.stmt, ...]


def file_writes(context: RewriteContext) -> tuple[FileWrite, ...]:
    """All such statements, grouped with their neighbours.

    Raises:
        RewriteRefused: a larger statement writes a file, or a file is open for longer than a block.
    """
    chosen: dict[int, tuple[Module, ast.stmt]] = {}
    for module, call in context.program.nodes_of(ast.Call):
        if _writes(module, call):
            statement = _alone(module, call)
            chosen[id(statement)] = (module, statement)
    outermost = [
        (module, statement)
        for module, statement in chosen.values()
        if not any(id(around) in chosen for around in module.around(statement))
    ]
    return _neighbours(outermost)


def _alone(module: Module, call: ast.Call) -> ast.stmt:
    """The statement of the call alone, or a ``with`` that opens the file."""
    statement = statement_of(module, call)
    opened = isinstance(statement, ast.With) and any(each.context_expr is call for each in statement.items)
    if opened or (isinstance(statement, ast.Expr) and statement.value is call):
        return statement
    hint = "Write it in a statement of its own, which the first rank alone can carry out."
    raise refusal(f"`{text_of(call)}` writes a file as part of a larger statement", module, call, hint=hint)


def _writes(module: Module, call: ast.Call) -> bool:
    name, last = qualified_name(module, call.func), last_name(call.func)
    if name in _FUNCTIONS:
        return not _may_be_there(call)
    if name in _OPENERS:
        return _is_for_writing(call, 1)
    if not isinstance(call.func, ast.Attribute):
        return False
    if last == "open":
        return _is_for_writing(call, 0)
    # ``Image.save(path)`` writes; ``self.save()`` is the script's own method and is followed elsewhere.
    own = last == "save" and not (call.args and len(call.args) < 3)
    return last in _METHODS and not own and not name.startswith("self.") and not _may_be_there(call)


def _may_be_there(call: ast.Call) -> bool:
    """True for a folder that several processes may make at once."""
    return any(
        each.arg == "exist_ok" and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in call.keywords
    )


def _is_for_writing(call: ast.Call, position: int) -> bool:
    given = [each.value for each in call.keywords if each.arg == "mode"] or call.args[position : position + 1]
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else ""
    return isinstance(mode, str) and bool(set(mode) & set("wax+")) and len(mode) <= 4


def _neighbours(found: list[tuple[Module, ast.stmt]]) -> tuple[FileWrite, ...]:
    groups: list[FileWrite] = []
    for module, statement in sorted(
        found, key=lambda pair: (pair[0].path, pair[1].lineno, pair[1].col_offset)
    ):
        suite = suite_of(module, statement)
        last = groups[-1] if groups else None
        if last is not None and last.module is module:
            index = suite.index(statement)
            if index and suite[index - 1] is last.statements[-1]:
                groups[-1] = FileWrite(module, (*last.statements, statement))
                continue
        groups.append(FileWrite(module, (statement,)))
    return tuple(groups)
