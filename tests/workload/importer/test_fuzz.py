"""Any change of a trace's JSON leads to a run that ends, or to one line."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from helpers.pytorch_traces import host_trace, training_step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.support.errors import AstraTacosError
from astra_tacos.workload.importer.import_run import import_run

SOUND = [
    training_step(0).document(),
    training_step(1).document(),
    host_trace([("allreduce", 1024)]),
    host_trace([("allreduce", 1024)], old=True),
]
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.integers(-2, 30),
    st.floats(),
    st.sampled_from(["", "0", "7", "nccl:send 0->1", "allreduce", "[1, 2]", "x" * 50]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.dictionaries(st.sampled_from(["a", "rank"]), st.integers(0, 3), max_size=2),
)


def places(value, path=()):
    """Paths to everything in a document."""
    found = [path] if path else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        found += places(entry, (*path, key))
    return found


@st.composite
def changed_documents(draw):
    chosen = draw(st.sampled_from([[0, 1], [0, 1, 2], [2], [3]]))
    documents = [copy.deepcopy(SOUND[number]) for number in chosen]
    for _ in range(draw(st.integers(1, 3))):
        document = draw(st.sampled_from(documents))
        path = draw(st.sampled_from(places(document) or [("nothing",)]))
        target: Any = document
        try:
            for key in path[:-1]:
                target = target[key]
            if draw(st.booleans()):
                target[path[-1]] = draw(values)
            else:
                del target[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    return documents


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(documents=changed_documents())
def test_damaged_traces_are_runs_or_one_line(documents):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = []
        for number, document in enumerate(documents):
            kind = "host" if "nodes" in document else "kineto"
            files.append(folder / f"{kind}_{number % 2}.json")
            files[-1].write_text(json.dumps(document))
        try:
            result = import_run(files, folder / "out")
        except AstraTacosError as error:
            assert "\n" not in str(error) and not (folder / "out").exists()
        else:
            assert (result.outcome.finish_ns >= 0).all()
