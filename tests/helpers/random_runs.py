"""Random runs: nodes with any attributes, plausible ones among them, systems, groups and networks."""

from __future__ import annotations

from helpers.lint_runs import Node, RunFiles, node
from hypothesis import strategies as st

values = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-2, 5),
    st.booleans(),
    st.none(),
    st.sampled_from(["", "0", "1", "2", "tp"]),
    st.lists(st.booleans(), max_size=3),
    st.tuples(st.just("double_val"), st.floats(allow_nan=False)),
)
names = (
    "is_cpu_op",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "num_ops",
    "tensor_size",
    "pg_name",
    "involved_dim",
)
nodes = st.builds(
    lambda id, kind, deps, us, attributes: node(id, kind, deps, us=us, **attributes),
    st.integers(0, 6),
    st.integers(0, 9),
    st.lists(st.integers(0, 7), max_size=2),
    st.one_of(st.integers(0, 3), st.integers(0, (1 << 64) - 1)),
    st.dictionaries(st.sampled_from(names), values, max_size=6),
)
plausible = st.builds(
    lambda id, kind, deps, attributes: node(id, kind, deps, **attributes),
    st.integers(0, 9),
    st.sampled_from((4, 5, 6, 7, 7)),
    st.lists(st.integers(0, 4), max_size=1),
    st.fixed_dictionaries(
        {
            "comm_type": st.sampled_from((0, 2, 5, 6, 7)),
            "comm_size": st.sampled_from((0, 1, 64, 4096)),
            "comm_tag": st.integers(0, 2),
            "comm_src": st.integers(0, 3),
            "comm_dst": st.integers(0, 3),
        },
        optional={"pg_name": st.sampled_from(("1", "2", "3"))},
    ),
)


def distinct(trace: list[Node]) -> list[Node]:
    return list({message.id: message for message in trace}.values())


traces = st.lists(st.lists(st.one_of(plausible, nodes), max_size=7).map(distinct), min_size=1, max_size=4)
algorithms = st.sampled_from(("ring", "direct", "halvingDoubling", "doubleBinaryTree", "oneRing"))
systems = st.fixed_dictionaries(
    {},
    optional={
        "all-reduce-implementation-custom": st.just(["collective/a"]),
        "all-gather-implementation": st.lists(algorithms, min_size=1, max_size=3),
        "preferred-dataset-splits": st.integers(-1, 4),
        "roofline-enabled": st.integers(0, 1),
        "peak-perf": st.integers(0, 900),
        "local-mem-bw": st.integers(0, 50),
        "replay-only": st.integers(0, 1),
        "track-local-mem": st.integers(0, 1),
        "endpoint-delay": st.integers(0, 1),
        "collective-optimization": st.none(),
    },
)
groups = st.dictionaries(st.sampled_from(("1", "2", "3", "0")), st.lists(st.integers(0, 5), unique=True, max_size=4), max_size=4)
networks = st.sampled_from(((("Ring",), None), (("Switch",), None), (("Ring", "Switch"), (2, 2)), (("FullyConnected",), (6,))))
per_node = st.one_of(st.none(), st.dictionaries(st.integers(0, 9), st.sampled_from(("collective/a", "collective/b")), min_size=1))


@st.composite
def broken_runs(draw: st.DrawFn) -> RunFiles:
    """Runs of which hardly one is sound."""
    topology, npus = draw(networks)
    return RunFiles(
        draw(traces.filter(lambda ranks: len(ranks) > 1)),
        {"collective/a": draw(traces)},
        draw(systems),
        draw(st.one_of(st.none(), groups)),
        topology,
        npus,
        per_node=draw(per_node),
    )
