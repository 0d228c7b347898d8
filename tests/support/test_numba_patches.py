"""Where numba is changed: the same machine code from less work."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import subprocess
import sys

import numba
import pytest

from astra_tacos.support.kernels import numba_patches

COMPILE = """
import sys
from numba.core.typing.templates import AbstractTemplate
from astra_tacos.support.kernels.first_use import find
from astra_tacos.support.kernels.numba_patches import quicken
{before}
attempts, attempt = [], AbstractTemplate.apply
AbstractTemplate.apply = lambda *arguments: (attempts.append(None), attempt(*arguments))[1]
kernel = find("astra_tacos.synthesizer.symmetric._symmetric_kernels:earliest_starts")
kernel.compile()
print(*kernel._dispatcher.inspect_asm().values())
print(len(attempts), file=sys.stderr)
"""


def compiled(folder, before):
    """The machine code, and how often an implementation was asked whether it takes some types."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", COMPILE.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, int(done.stderr)


def instructions(assembly):
    """The instructions of each function but numba's own that count references, by name, without the numbers of labels."""
    names_and_bodies = re.split(r"\t\.type\t(\S+),@function\n", re.sub(r"(\.L[A-Za-z]+)[\d_]+", r"\1", assembly))
    bodies = dict(zip(names_and_bodies[1::2], names_and_bodies[2::2], strict=True))
    return {name: body.split("\t.size\t")[0] for name, body in bodies.items() if not name.startswith("NRT_")}


def test_the_machine_code_is_the_same_from_fewer_attempts(tmp_path):
    code, attempts = compiled(tmp_path / "usual", "")
    quick_code, quick_attempts = compiled(tmp_path / "quick", "quicken()")
    assert instructions(quick_code) == instructions(code) and len(code) > 10_000
    assert 0 < quick_attempts < attempts / 2


LOOKED_AT = "0.68"
"""The numba whose parts below were read, and which the changes were measured with."""
PARTS = {
    "core.targetconfig:TargetConfig.values": "12a29dc810f6a91b",
    "core.targetconfig:TargetConfig.__hash__": "4d15a6c75137a983",
    "core.targetconfig:TargetConfig.__eq__": "6d8774572d07d381",
    "core.types.functions:BaseFunction.get_call_type": "6559c167bfc0ad36",
    "core.base:BaseContext.get_abi_sizeof": "d62321a8ccf39a59",
    "core.codegen:CPUCodeLibrary.finalize": "4b4c34b83488a72f",
    "core.codegen:CPUCodeLibrary._optimize_final_module": "e405bd473752613b",
    "core.codegen:CPUCodeLibrary._finalize_final_module": "95bbf4fcbb90ed99",
    "core.codegen:JITCodeLibrary.get_pointer_to_function": "1bce3f385d25b31c",
    "core.codegen:JITCPUCodegen.set_env": "207cf44be0e03822",
    "core.cpu:CPUContext.get_executable": "3892c8a654a2ca69",
    "core.dispatcher:_DispatcherBase.get_call_template": "f15b62d0e9c0f605",
    "core.caching:_Cache": "ee22baec643aa063",
    "core.caching:Cache": "3d126e386d19f1c9",
    "core.datamodel.models:ArrayModel": "9282a9fe0e2bc34f",
    "core.pythonapi:PythonAPI.nrt_adapt_ndarray_from_python": "251a10dd14f20d8a",
    "core.types.npytypes:Array.__init__": "702a2fe85894adc0",
    "core.runtime.nrt:rtsys.initialize": "c2d8cc77063d1a47",
    "np.linalg:ensure_blas": "8eb05e44427d5eb8",
}
"""What of numba is replaced, called or imitated, and its source's digest."""


def source_of(name):
    """The source of a part of numba, `module:Class.method`."""
    module, _, path = name.partition(":")
    found = importlib.import_module(f"numba.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    return inspect.getsource(found)


def test_numba_is_the_one_that_the_changes_were_made_for():
    found = {name: hashlib.sha256(source_of(name).encode()).hexdigest()[:16] for name in PARTS}
    moved = {name: digest for name, digest in found.items() if digest != PARTS[name]}
    assert not moved, f"numba {numba.__version__} differs from {LOOKED_AT}: read these parts, then numba_patches.py: {moved}"
    assert numba.__version__.startswith(f"{LOOKED_AT}.") and numba_patches.are_on()


def test_all_that_is_replaced_is_among_those_parts():
    replaced = {
        f"{owner.__module__.removeprefix('numba.')}:{owner.__name__}.{name}" for owner, name, _ in numba_patches._changes()
    }
    assert replaced <= set(PARTS), replaced - set(PARTS)


def test_options_are_equal_where_numba_says_so(monkeypatch):
    from numba.core.compiler import Flags
    from numba.core.targetconfig import TargetConfig

    plain, same, other, explicit = Flags(), Flags(), Flags(), Flags()
    other.nrt = True
    explicit.nrt = Flags().nrt  # set, to what it is by default
    pairs = [(one, two) for one in (plain, same, other, explicit) for two in (plain, same, other, explicit, None)]
    expected = [one == two for one, two in pairs]
    hashes = [hash(one) for one, _ in pairs]
    values = [one.values() for one, _ in pairs]
    for owner, name, value in numba_patches._options(TargetConfig):
        monkeypatch.setattr(owner, name, value)
    assert [one == two for one, two in pairs] == expected and {True, False} == set(expected)
    assert [hash(one) for one, _ in pairs] == hashes
    assert [one.values() for one, _ in pairs] == values


@pytest.mark.skipif(not numba_patches.are_on(), reason="numba begins as it does")
def test_what_was_compiled_before_runs_without_the_compiler():
    program = """
import sys
from astra_tacos.support.kernels.first_use import find
kernel = find("astra_tacos.support.kernels.shared:topological_order")
kernel.compile()
print(not kernel._dispatcher._cache_hits or not {"numba.np.arraymath", "scipy.linalg"} & set(sys.modules))
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
