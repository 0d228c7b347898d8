"""The rules of the house: one-way imports, light start-up, exports that exist."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import astra_tacos
from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.run.backend import MODELS

PACKAGE = Path(astra_tacos.__file__).parent
LEVELS = (
    {"support"},
    {"network"},
    {"collective"},
    {"schedule"},
    {"run"},
    {"rules"},
    {"bounds"},
    {"synthesizer", "verifier", "replayer", "pages"},
    {"export"},
    {"solver"},
    {"planner"},
    {"workload"},
    {"study"},
    {"cli"},
)
"""Low to high; a module may import from lower levels and its own room."""
HEAVY = (
    "numba",
    "llvmlite",
    "scipy",
    "networkx",
    "matplotlib",
    "dask",
    "distributed",
    "pyarrow",
    "plotly",
    "jinja2",
    "google.protobuf",
    "rich",
    "yaml",
    "numpy",
)


@functools.cache
def nodes(path):
    """All parts of a file's syntax."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def level(room):
    return next(index for index, rooms in enumerate(LEVELS) if room in rooms)


@functools.cache
def imported_modules(path):
    modules = set()
    for node in nodes(path):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules |= {name.removeprefix("astra_tacos.") for name in names if name.startswith("astra_tacos.")}
    return modules


def imported_rooms(path):
    return {module.split(".")[0] for module in imported_modules(path)}


def test_imports_go_one_way():
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.name in ("__init__.py", "__main__.py") and len(place.parts) == 1:
            continue
        room = place.parts[0].removesuffix(".py")
        for other in imported_rooms(path):
            assert other == room or level(other) < level(room), f"{place} imports {other}"


def test_text_files_have_an_encoding():
    """Without one they are read and written in that of the user's locale."""
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func)
            keywords = {keyword.arg for keyword in node.keywords}
            is_binary = any(isinstance(a, ast.Constant) and isinstance(a.value, str) and "b" in a.value for a in node.args)
            is_text = function.endswith((".read_text", ".write_text")) or bool(keywords & {"text", "universal_newlines"})
            is_text |= (
                function.endswith(("open", ".fdopen"))
                and function not in ("os.open", "subprocess.Popen", "self._zip.open")
                and not is_binary
            )
            if is_text:
                assert "encoding" in keywords, f"{path}:{node.lineno}: {ast.unparse(node)[:80]}"


def test_every_room_has_its_level():
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name[0] != "_" and path.name != "py.typed"}
    assert rooms == set().union(*LEVELS)


THE_JUDGED = {"schedule.settle", "schedule.dependencies", "schedule._settle_kernels"}
"""Modules of rooms that the oracle may use, which make what it judges: the oracle orders and matches for itself."""


def test_the_oracle_shares_no_code_with_what_it_judges():
    for path in (PACKAGE / "verifier").rglob("*.py"):
        assert not imported_rooms(path) & {"synthesizer", "replayer", "export", "planner", "solver"}, path
        assert not imported_modules(path) & THE_JUDGED, path


def test_one_place_matches_messages_and_one_orders_ranks():
    """The graph of a run, and the oracle's own. The replay decides as it runs: it does not see the graph, nor does the oracle."""
    matchers, orderers = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        for node in nodes(path):
            matches = isinstance(node, ast.FunctionDef) and node.name in ("match_messages", "match_instances", "match_turns")
            matchers |= {place} if matches else set()
            sorts = isinstance(node, ast.ImportFrom) and any(alias.name == "topological_order" for alias in node.names)
            orderers |= {place} if sorts else set()
        if place.startswith(("replayer/", "verifier/")):
            assert not any(module.startswith("run.graph") for module in imported_modules(path)), place
    oracle = {"verifier/program_form.py", "verifier/program_order.py"}
    assert matchers == {"run/graph/messages.py", "run/graph/instances.py", "verifier/program_form.py"}
    assert orderers == {"run/graph/issue_order.py", "run/graph/merged_graph.py", "verifier/program_order.py"}
    assert {path for path in matchers | orderers if path.startswith("verifier/")} == oracle


def folder(module):
    """Of a module, by its name within the package; a package is a folder itself."""
    place = PACKAGE.joinpath(*module.split("."))
    return module if place.is_dir() else module.rpartition(".")[0]


def private_imports(path):
    """What a file imports of another folder although its name begins with an underscore."""
    own = ".".join(path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in nodes(path):
        names = (
            [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) and node.module else []
        )
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            parts = name.split(".")
            private = next((index for index, part in enumerate(parts) if part.startswith("_")), None)
            if parts[0] == "astra_tacos" and private is not None and folder(".".join(parts[1:private])) != own:
                found.add(name)
    return found


def test_what_is_private_stays_in_its_folder():
    for path in PACKAGE.rglob("*.py"):
        assert private_imports(path) == set(), path.relative_to(PACKAGE)


PARTS = {"parts", "matching", "columns", "routing", "exchange", "symmetric"}
"""Of synthesizers: what algorithms are made of."""


def test_algorithms_are_made_of_parts_and_the_search_knows_the_registry_only():
    synthesizer = PACKAGE / "synthesizer"
    assert {path.name for path in synthesizer.iterdir() if path.is_dir() and path.name[0] != "_"} == PARTS | {
        "algorithms",
        "search",
    }
    for path in synthesizer.rglob("*.py"):
        place = path.relative_to(synthesizer).parts
        own = place[0] if len(place) > 1 else ""
        imported = {m.removeprefix("synthesizer").lstrip(".") for m in imported_modules(path) if m.split(".")[0] == "synthesizer"}
        rooms = {module.split(".")[0] for module in imported}
        if own in PARTS:
            assert not rooms & {"", "algorithms", "search"}, path
        elif own == "algorithms":
            assert not rooms & {"", "search"}, path
        elif own == "search":
            assert not rooms & (PARTS | {"algorithms"}), path
        else:
            assert "search" not in rooms, path


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_package_loads_nothing_heavy():
    loaded = run("import astra_tacos, astra_tacos.cli.main, sys; print(*sys.modules)").split()
    assert not [name for name in HEAVY if name in loaded]


NAMES_OF_OTHER_THINGS = {
    ("study/optimizer/libra_files.py", "Switch"): "a part that LIBRA's cost models price: the port of a switch"
}
"""Text that only looks like the name of a building block, and what it is."""


def test_only_a_blocks_own_file_knows_it_by_name():
    """Whoever asks for a name forgets the next block: the questions are methods of `BuildingBlock`."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[:2] == ("network", "blocks"):
            continue
        texts = {node.value for node in nodes(path) if isinstance(node, ast.Constant)}
        found |= {(place.as_posix(), name) for name in texts & set(BUILDING_BLOCKS)}
    assert found == set(NAMES_OF_OTHER_THINGS)


def is_kernel_file(path):
    return path.parent.name == "kernels" or (path.name.startswith("_") and path.name.endswith("_kernels.py"))


@functools.cache
def compiled_functions(path):
    """Functions of a file that numba compiles, and by which decorator."""
    return [
        (decorator.id, node)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Name) and decorator.id in MOST_PARAMETERS
    ]


def test_every_folder_is_a_package():
    """One without `__init__.py` imports here, and is missing from what is installed."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()]


MOST_FILES = 25
"""In a folder: more than that is several ideas."""


def test_a_folder_is_one_idea():
    folders = Counter(path.parent for path in PACKAGE.rglob("*.py"))
    crowded = {folder.relative_to(PACKAGE).as_posix(): count for folder, count in folders.items() if count > MOST_FILES}
    assert not crowded


MOST_PARAMETERS = {"kernel": 8, "helper": 8, "inlined": 12}
MOST_LINES = 200


def test_kernels_keep_to_their_files():
    for path in PACKAGE.rglob("*.py"):
        if not is_kernel_file(path):
            assert not compiled_functions(path), path
            assert "njit" not in path.read_text("utf-8"), path


def test_kernels_have_few_parameters_and_a_readable_size():
    for path in PACKAGE.rglob("*.py"):
        for decorator, node in compiled_functions(path):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert len(parameters) <= MOST_PARAMETERS[decorator], f"{path}: {node.name}"
            assert node.end_lineno is not None and node.end_lineno - node.lineno < MOST_LINES, f"{path}: {node.name}"
            if decorator == "kernel":
                assert all(parameter.annotation is not None for parameter in parameters), f"{path}: {node.name}"


def test_kernels_use_only_files_whose_change_has_them_compiled_anew():
    for path in PACKAGE.rglob("_*_kernels.py"):
        room = ".".join(path.parent.relative_to(PACKAGE).parts)
        for module in imported_modules(path):
            shared = module.startswith("support.kernels.")
            assert shared or (module.startswith(f"{room}._") and module.endswith("_kernels")), f"{path} imports {module}"


def test_one_module_prints():
    """`cli/shared/console.py` makes what others named harmless for a terminal; a print elsewhere would not."""
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE) == Path("cli/shared/console.py"):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                prints = name in ("print", "click.echo", "click.secho", "Console", "sys.stdout.write", "sys.stderr.write")
                assert not prints, f"{path}:{node.lineno}: {name}, expected what cli.shared.console has"


def test_results_are_printed_in_one_room():
    """A command hands a result to `print_result`: a printer of its own would say figures in other words than a notebook."""
    shared = PACKAGE / "cli" / "shared"
    for path in (PACKAGE / "cli").rglob("*.py"):
        names = {node.name for node in nodes(path) if isinstance(node, ast.FunctionDef)}
        printers = {name for name in names if name.lstrip("_").startswith("print_")}
        assert path.is_relative_to(shared) or not printers, f"{path}: {printers}"
        no_result = {"print_json", "print_next", "print_warning", "print_warnings"}
        public = {name for name in printers if not name.startswith("_")}
        assert public <= {"print_result"} | no_result, f"{path}: {public - no_result}"


def test_one_module_spells_backends():
    spelled = {}
    for path in PACKAGE.rglob("*.py"):
        words = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
        spelled[path.relative_to(PACKAGE).as_posix()] = {word for word in words if isinstance(word, str)} & set(MODELS)
    assert {place: names for place, names in spelled.items() if names} == {"run/backend.py": set(MODELS)}


def test_names_of_groups_are_read_in_one_place():
    """The oracle reads for itself; nobody else makes a group of a name, or counts tags."""
    readers, counters = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        names = {alias.name for node in nodes(path) if isinstance(node, ast.ImportFrom) for alias in node.names}
        readers |= {place} if "group_id" in names else set()
        tags = any(
            isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value == 500_000_000
            for node in nodes(path)
        )
        counters |= {place} if tags else set()
    # Keys of the file, names of nodes, and names that have to become numbers; keys of the file of a compact run.
    assert readers == {"run/compact_run.py", "workload/mends/groups.py"}
    assert {place for place in counters if "routing" not in place} == {"run/patterns.py", "verifier/chakra_program.py"}


def test_nodes_are_built_in_one_place_as_messages_and_in_one_as_columns():
    messages, columns = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        called = {ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call)}
        messages |= {place} if any(name.endswith(".attr.add") or name == "schema_module" for name in called) else set()
        keys = {alias.name for node in nodes(path) if isinstance(node, ast.ImportFrom) for alias in node.names}
        columns |= {place} if "NodeTable" in called or "ATTRIBUTE_KEYS" in keys else set()
    assert messages == {"run/trace/node_bytes.py"}
    assert columns == set(), "NodeTable.of builds them"


def test_one_place_writes_runs_and_one_accepts_candidates():
    """A run that was made of another one is written in one place; a draft holds what no columns hold, and new runs are new."""
    writers, judges = set(), set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        called = {ast.unparse(node.func).rpartition(".")[2] for node in nodes(path) if isinstance(node, ast.Call)}
        writers |= {place} if called & {"write_groups", "write_ranks", "replace_nodes"} else set()
        judges |= {place} if "is_better_than" in called else set()
    assert writers == {"run/written.py", "workload/generator/directory.py", "workload/repairer/draft.py"}
    # A plan of a run with classes notes that the run before ends earlier.
    assert judges == {"planner/acceptance.py", "planner/classes/class_planning.py"}


def test_one_place_searches_native_settings():
    """Nobody else makes a native configuration, or another one of it; `native_configuration` reads that of a run."""
    settings = {"algorithms", "splits", "active_chunks", "optimization", "policy"}
    makers = set()
    for path in PACKAGE.rglob("*.py"):
        if "solver.native_configuration" not in imported_modules(path):
            continue
        calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
        makes = any(ast.unparse(call.func) == "NativeConfiguration" for call in calls)
        varies = any(
            ast.unparse(call.func) == "replace" and settings & {keyword.arg for keyword in call.keywords} for call in calls
        )
        makers |= {path.relative_to(PACKAGE).as_posix()} if makes or varies else set()
    assert makers == {"solver/native_search.py"}


def test_nobody_edits_the_texts_of_errors():
    """A file has its name before a text is made of it."""
    edits = {"replace", "removeprefix", "removesuffix", "partition", "rpartition", "translate", "sub"}
    editors = set()
    for path in PACKAGE.rglob("*.py"):
        for handler in (node for node in nodes(path) if isinstance(node, ast.ExceptHandler) and node.name):
            for call in (node for node in ast.walk(handler) if isinstance(node, ast.Call)):
                is_edit = isinstance(call.func, ast.Attribute) and call.func.attr in edits
                if is_edit and f"str({handler.name})" in ast.unparse(call):
                    editors.add(path.relative_to(PACKAGE).as_posix())
    # The linter takes a text apart, into a file and what is wrong with it. A sweep plans a run that it writes for the moment.
    allowed = {"rules/inputs.py", "study/sweep/evaluate.py"}
    assert {name for name in editors if not name.startswith("support/")} == allowed
