"""Generated training runs, and their traces as protobuf reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.lint_runs import bodies
from hypothesis import strategies as st

from astra_tacos.run.trace.schema import schema_module
from astra_tacos.workload.generator.model import Transformer
from astra_tacos.workload.generator.parallelism import AXES, Parallelism
from astra_tacos.workload.generator.step import Step

_schema: Any = schema_module()


def small_model(**changes: Any) -> Transformer:
    """Four layers, 64 wide."""
    sizes = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 8, "kv_heads": 8, "vocab": 512, "sequence": 64}
    return Transformer(**(sizes | changes))


@st.composite
def steps(draw: st.DrawFn, max_ranks: int = 16) -> Step:
    """Any step of a few ranks."""
    degrees = [(dp, tp, pp) for dp in (1, 2, 3, 4) for tp in (1, 2, 4) for pp in (1, 2, 4) if 2 <= dp * tp * pp <= max_ranks]
    dp, tp, pp = draw(st.sampled_from(degrees))
    has_experts = draw(st.booleans())
    ep = draw(st.sampled_from([ep for ep in (1, 2, 3, 4) if dp % ep == 0])) if has_experts else 1
    experts = {"experts": 12, "top_k": draw(st.integers(1, 3))} if has_experts else {}
    return Step(
        model=small_model(is_gated=draw(st.booleans()), kv_heads=draw(st.sampled_from((4, 8))), **experts),
        parallelism=Parallelism(dp, tp, pp, ep, tuple(draw(st.permutations(AXES)))),
        micro_batches=draw(st.integers(1, 5)),
        batch=draw(st.integers(1, 2)),
        schedule=draw(st.sampled_from(("1f1b", "gpipe"))),
        buckets=draw(st.integers(1, 4)),
        shards_optimizer=draw(st.booleans()),
        sequence_parallel=draw(st.booleans()),
    )


@dataclass(frozen=True)
class ParsedNode:
    """A node as protobuf reads it; attributes with the names of the fields that hold them."""

    id: int
    name: str
    kind: int
    duration_us: int
    data: list[int]
    ctrl: list[int]
    attributes: dict[str, Any]
    fields: dict[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


def parse_rank(folder: Path, rank: int) -> list[ParsedNode]:
    """The nodes of a rank, in the order of the file."""
    metadata, *messages = bodies((folder / "workload" / f"w.{rank}.et").read_bytes())
    assert _schema.GlobalMetadata.FromString(metadata).version == "0.0.4"
    return [_parsed(_schema.Node.FromString(message)) for message in messages]


def _parsed(node: Any) -> ParsedNode:
    fields = {attribute.name: attribute.WhichOneof("value") for attribute in node.attr}
    values = {attribute.name: getattr(attribute, fields[attribute.name]) for attribute in node.attr}
    assert len(values) == len(node.attr)
    return ParsedNode(
        node.id, node.name, node.type, node.duration_micros, list(node.data_deps), list(node.ctrl_deps), values, fields
    )


def write_network(path: Path, *dimensions: tuple[str, int] | str, bandwidth: float = 10.0, latency: float = 500.0) -> Path:
    """A network of these building blocks, each with its size, as a pair or as text."""
    pairs = [row.split() if isinstance(row, str) else row for row in dimensions]
    columns: dict[str, Sequence[object]] = {
        "topology": [block for block, _ in pairs],
        "npus_count": [size for _, size in pairs],
        "bandwidth": [bandwidth] * len(dimensions),
        "latency": [latency] * len(dimensions),
    }
    path.write_text("".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in columns.items()))
    return path
