"""Collective algorithms for ASTRA-sim, synthesized for the network at hand.

`_PUBLIC` is the public API, the one list of it. Names load on first use, so that importing the package costs nothing; functions
among them check the types of their arguments (`support.argument_types`). What type
checkers and editors read (`__init__.pyi`) and the list in docs/api.md are written from it by `make api`; a test compares them.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

_PUBLIC = {
    "A collective for a network": {
        "solve": "solver.solve",
        "Request": "solver.solution",
        "SearchOptions": "synthesizer.search.search_options",
        "Solution": "solver.solution",
        "CompactSolution": "solver.solution",
        "compare": "solver.comparison",
        "Compared": "pages.comparison_table",
        "read_network": "network.network_config",
        "NetworkConfig": "network.network_config",
        "Dimension": "network.network_config",
        "LinkSpec": "network.network_config",
        "lower_bound": "bounds",
        "chunked_lower_bound": "bounds",
        "BOUNDS": "bounds",
        "CHUNKED_BOUNDS": "bounds",
        "Bound": "bounds.bound",
        "certify": "bounds.certificate",
    },
    "A training run": {
        "plan": "planner.plan",
        "PlanRequest": "planner.request",
        "Plan": "planner.plan",
        "PlanResult": "planner.plan_result",
        "ScheduleResult": "planner.retime.schedule_run",
        "lint": "workload.lint",
        "LintReport": "workload.lint",
        "Finding": "rules.rule",
        "make_plan": "planner.plan:plan",
        "divide_endpoint": "planner.endpoint.endpoint",
        "EndpointResult": "planner.endpoint.endpoint",
        "Npu": "planner.endpoint.npu",
        "Partition": "planner.endpoint.npu",
        "read_run": "run.run",
        "Run": "run.run",
        "RunInputs": "run.run",
        "CompactInputs": "run.directory",
        "compact": "run.compact_run",
        "expand": "run.compact_run",
        "read_compact": "run.compact_run",
        "replay_run": "replayer.run_replay",
        "RunOutcome": "run.outcome",
        "Backend": "run.backend",
        "BACKENDS": "run.backend",
    },
    "Studies: sweeps, splits of bandwidth, measured machines, pages": {
        "sweep": "study.sweep.sweep",
        "Swept": "study.sweep.sweep",
        "optimize": "study.optimizer.optimize",
        "Optimum": "study.optimizer.result",
        "ProblemFiles": "study.optimizer.problem",
        "calibrate": "study.calibrator.calibrate",
        "Calibration": "study.calibrator.calibrate",
        "report": "study.reporter.report",
        "Reported": "study.reporter.report",
    },
    "A run from a model": {
        "generate": "workload.generator.directory",
        "GeneratedRun": "workload.generator.directory",
        "Step": "workload.generator.step",
        "Parallelism": "workload.generator.parallelism",
        "Transformer": "workload.generator.model",
        "LayeredStep": "workload.generator.layered_step",
        "LayeredModel": "workload.generator.layered_model",
        "ModelLayer": "workload.generator.layered_model",
        "LAYERED_MODELS": "workload.generator.layered_model",
        "read_layer_file": "workload.generator.layered_model",
        "Device": "workload.generator.cost",
    },
    "Your own synthesizer, block, format, rule or policy": {
        "register_synthesizer": "synthesizer.registry",
        "register_building_block": "network.blocks.registry",
        "register_exporter": "export.registry",
        "register_rule": "workload.registry",
        "register_policy": "planner.retime.registry",
        "load_plugin": "support.plugins",
        "Problem": "schedule.problem",
        "SendGraph": "synthesizer.parts.send_graph",
        "dispatch": "synthesizer.parts.dispatch",
        "SYNTHESIZERS": "synthesizer",
        "Synthesizer": "synthesizer.synthesizer",
        "BUILDING_BLOCKS": "network.blocks",
        "BuildingBlock": "network.blocks.building_block",
        "BlockLinks": "network.blocks.building_block",
        "EXPORTERS": "export",
        "Exporter": "export.exporter",
        "Found": "rules.rule",
        "PolicyOption": "planner.retime.policy:Option",
    },
    "Schedules: verify, replay, write": {
        "Schedule": "schedule.schedule",
        "verify": "verifier.schedule_oracle",
        "Violation": "verifier.violation",
        "replay": "replayer.schedule_replay:replay_schedule",
        "ScheduleReplay": "replayer.schedule_replay",
        "save_schedule": "schedule.storage",
        "load_schedule": "schedule.storage",
        "export_schedule": "export.exporter",
        "Exported": "export.exporter",
        "write_run_directory": "export.run_directory",
        "RunDirectory": "export.run_directory",
        "export_chakra": "export.chakra",
        "export_msccl_xml": "export.msccl_xml",
        "schedule_trace": "export.chakra",
        "SymmetricTask": "schedule.symmetric_schedule",
        "SymmetricSchedule": "schedule.symmetric_schedule",
        "synthesize_symmetric": "synthesizer.symmetric.symmetric",
        "verify_symmetric": "verifier.symmetric_oracle",
        "save_symmetric_schedule": "schedule.symmetric_schedule",
        "load_symmetric_schedule": "schedule.symmetric_schedule",
    },
    "Traces and programs of others": {
        "read_trace": "run.trace.reader",
        "Trace": "run.trace.trace",
        "NodeType": "run.trace.schema",
        "CommType": "run.trace.schema",
        "replay_trace": "replayer.trace_replay",
        "TraceReplay": "replayer.trace_replay",
        "verify_trace": "verifier.program",
        "verify_msccl_xml": "verifier.program",
        "ProgramVerdict": "verifier.program",
    },
    "A search, step by step": {
        "build_topology": "network.composition",
        "Topology": "network.topology",
        "all_gather": "collective.patterns",
        "all_reduce": "collective.patterns",
        "all_to_all": "collective.patterns",
        "broadcast": "collective.patterns",
        "gather": "collective.patterns",
        "reduce": "collective.patterns",
        "reduce_scatter": "collective.patterns",
        "scatter": "collective.patterns",
        "make_collective": "collective",
        "COLLECTIVES": "collective",
        "Collective": "collective.collective",
        "synthesize": "solver.solve",
        "search": "synthesizer.search.search",
        "SearchResult": "synthesizer.search.search",
        "Timing": "schedule.timing",
        "compute_timing": "schedule.timing",
    },
    "Errors": {
        "AstraTacosError": "support.errors",
        "ConfigError": "support.errors",
        "MissingExtraError": "support.errors",
        "MissingFileError": "support.errors",
        "OutputError": "support.errors",
        "SynthesisError": "support.errors",
        "VerificationError": "support.errors",
        "ReplayError": "support.errors",
    },
}
"""By task, each name and the module that it is in, with its name there if that is another."""

_HOMES = {name: home for names in _PUBLIC.values() for name, home in names.items()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module(f"{__name__}.support.installation").package_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, _, original = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), original or name)
    if isinstance(value, FunctionType):
        value = importlib.import_module(f"{__name__}.support.argument_types").checked(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
