"""The generated pages of the reference: which module's names are on which page.

docs_hook.py adds the pages to the site, where mkdocstrings replaces `::: name` by the signature and
the docstring. tests/meta/test_reference.py checks that each public name is on a page.
"""

import ast
from dataclasses import dataclass, field

import header_page
from public_names import names_of, path_of

EXECUTOR = ["PoplarExecutor"]
OPTIONS = [
    *("Options", "TensorLocationSettings", "ConfigFileError", "PipelinedExecution"),
    *("ShardedExecution", "ParallelPhasedExecution", "SerialPhasedExecution", "Stage", "Phase"),
]
GROUPS = [
    f"poptorch._impl.options.definitions.{group}Options"
    for group in ("Precision", "Training", "TensorLocation", "Emulator", "Distributed", "Jit")
]
POPXL_ERRORS = [
    f"popxl.errors.{name}"
    for name in (
        *("popart_exception", "poplar_application_runtime_error"),
        *("UnsupportedError", "UndefinedValue"),
    )
]
DATA = ["DataLoader", "AsynchronousDataAccessor"]


@dataclass(frozen=True)
class Page:
    """A page with the names of `modules`, or only with `chosen` names of the first one."""

    file: str
    title: str
    about: str
    modules: list[str]
    chosen: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


def _ops():
    return names_of("poptorch.ops")


def _enums():
    return names_of("poptorch.enums")


PAGES = [
    Page("poptorch", "poptorch", "Functions that wrap, load, plan and examine models, and errors.",
         ["poptorch"], without=[*EXECUTOR, *OPTIONS, *DATA, *_ops(), *_enums()]),
    Page("executor", "PoplarExecutor", "A wrapped model: trainingModel() and inferenceModel() "
         "return one.", ["poptorch"], chosen=EXECUTOR),
    Page("options-api", "Options and strategies", "The classes of options; "
         "[Options](../options.md) lists each option with its default.",
         ["poptorch"], chosen=OPTIONS, extra=GROUPS),
    Page("ops", "Ops and blocks", "Ops that torch lacks, and annotations of models.",
         ["poptorch.ops"]),
    Page("enums", "Enumerations", "Values that options and functions take.", ["poptorch.enums"]),
    Page("data", "Data loading", "Loaders of combined batches.", ["poptorch"], chosen=DATA),
    Page("optim", "poptorch.optim", "Optimisers with PopTorch's extra attributes.",
         ["poptorch.optim"]),
    Page("tools", "Collectives, testing, profiling", "Modules beside the main one.",
         ["poptorch.distributed", "poptorch.testing", "poptorch.profiling"]),
    Page("integrations", "poptorch.integrations", "Lightning, Hugging Face, TensorBoard and "
         "Weights & Biases; each module needs its library.",
         ["poptorch.integrations.lightning", "poptorch.integrations.transformers",
          "poptorch.integrations.loggers"]),
    Page("popxl", "popxl", "Programs written op by op.",
         ["popxl", "popxl.utils", "popxl.fp8_utils"], extra=POPXL_ERRORS),
    Page("popxl-ops", "popxl.ops", "The ops: functions on tensors of the current graph.",
         ["popxl.ops", "popxl.ops.collectives", "popxl.ops.var_updates"]),
    Page("popxl-transforms", "popxl.transforms", "Transforms of graphs.", ["popxl.transforms"]),
    Page("popxl-addons", "popxl_addons", "Modules with state, named collections and transforms.",
         ["popxl_addons", "popxl_addons.layers", "popxl_addons.optimizers", "popxl_addons.ops",
          "popxl_addons.transforms"]),
    Page("popdist", "popdist", "Programs of several processes.", ["popdist", "popdist.poptorch"]),
    Page("popart", "popart", "PopART's names that PopXL programs use.", ["popart"]),
]  # fmt: skip


def refused_names():
    """Returns the names of popart that raise UnsupportedError when they are used."""
    tree = ast.parse(path_of("popart.refused").read_text())
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    (names,) = (node.value for node in assignments if ast.unparse(node.targets[0]) == "NAMES")
    return [item.value for item in ast.walk(names) if isinstance(item, ast.Constant)]


def names_on(page):
    """Returns the names of a page by module."""
    if page.chosen:
        return {page.modules[0]: page.chosen}
    left_out = {*page.without, *(refused_names() if page.modules == ["popart"] else [])}
    return {
        module: [name for name in names_of(module) if name not in left_out]
        for module in page.modules
    }


def text_of(page):
    """Returns a page as Markdown, with instructions for mkdocstrings."""
    lines = [f"# {page.title}", "", page.about, ""]
    shown = set()
    for module, names in names_on(page).items():
        new = [name for name in names if name not in shown]
        shown |= set(names) if len(page.modules) > 1 and module == page.modules[0] else set()
        if len(page.modules) > 1:
            lines += [f"## {module}", ""]
        for name in new:
            lines += [f"::: {module}.{name}", ""]
    for path in page.extra:
        lines += [f"::: {path}", ""]
    if page.modules == ["popart"]:
        listed = ", ".join(f"`{name}`" for name in refused_names())
        lines += ["## Refused names", "", "These can be imported; using one raises "
                  f"UnsupportedError: {listed}.", ""]  # fmt: skip
    return "\n".join(lines)


def pages():
    """Yields (path on the site, text) of all generated pages."""
    for page in PAGES:
        yield f"reference/{page.file}.md", text_of(page)
    yield "reference/cpp.md", header_page.page()
