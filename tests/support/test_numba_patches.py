"""Where numba is changed: the same machine code from less work."""

from __future__ import annotations

import os
import subprocess
import sys

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


def test_the_machine_code_is_the_same_from_fewer_attempts(tmp_path):
    code, attempts = compiled(tmp_path / "usual", "")
    quick_code, quick_attempts = compiled(tmp_path / "quick", "quicken()")
    assert quick_code == code and len(code) > 10_000
    assert 0 < quick_attempts < attempts / 2


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
