# Written by `make api` from the list in __init__.py.

from astra_tacos.bounds import BOUNDS, CHUNKED_BOUNDS, chunked_lower_bound, lower_bound
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import COLLECTIVES, make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_gather, all_reduce, all_to_all, broadcast, gather, reduce, reduce_scatter, scatter
from astra_tacos.export import EXPORTERS
from astra_tacos.export.chakra import export_chakra, schedule_trace
from astra_tacos.export.exporter import Exported, Exporter, export_schedule
from astra_tacos.export.msccl_xml import export_msccl_xml
from astra_tacos.export.registry import register_exporter
from astra_tacos.export.run_directory import RunDirectory, write_run_directory
from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock
from astra_tacos.network.blocks.registry import register_building_block
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig, read_network
from astra_tacos.network.topology import Topology
from astra_tacos.pages.comparison_table import Compared
from astra_tacos.planner.endpoint.endpoint import EndpointResult, divide_endpoint
from astra_tacos.planner.endpoint.npu import Npu, Partition
from astra_tacos.planner.plan import Plan, plan
from astra_tacos.planner.plan import plan as make_plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.retime.policy import Option as PolicyOption
from astra_tacos.planner.retime.registry import register_policy
from astra_tacos.planner.retime.schedule_run import ScheduleResult
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.schedule_replay import ScheduleReplay
from astra_tacos.replayer.schedule_replay import replay_schedule as replay
from astra_tacos.replayer.trace_replay import TraceReplay, replay_trace
from astra_tacos.rules.rule import Finding, Found
from astra_tacos.run.backend import BACKENDS, Backend
from astra_tacos.run.compact_run import compact, expand, read_compact
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.schedule.symmetric_schedule import (
    SymmetricSchedule,
    SymmetricTask,
    load_symmetric_schedule,
    save_symmetric_schedule,
)
from astra_tacos.schedule.timing import Timing, compute_timing
from astra_tacos.solver.comparison import compare
from astra_tacos.solver.solution import CompactSolution, Request, Solution
from astra_tacos.solver.solve import solve, synthesize
from astra_tacos.study.calibrator.calibrate import Calibration, calibrate
from astra_tacos.study.optimizer.optimize import optimize
from astra_tacos.study.optimizer.problem import ProblemFiles
from astra_tacos.study.optimizer.result import Optimum
from astra_tacos.study.reporter.report import Reported, report
from astra_tacos.study.sweep.sweep import Swept, sweep
from astra_tacos.support.errors import (
    AstraTacosError,
    ConfigError,
    MissingExtraError,
    MissingFileError,
    OutputError,
    ReplayError,
    SynthesisError,
    VerificationError,
)
from astra_tacos.support.plugins import load_plugin
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.registry import register_synthesizer
from astra_tacos.synthesizer.search.search import SearchResult, search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric
from astra_tacos.synthesizer.synthesizer import Synthesizer
from astra_tacos.verifier.program import ProgramVerdict, verify_msccl_xml, verify_trace
from astra_tacos.verifier.schedule_oracle import verify
from astra_tacos.verifier.symmetric_oracle import verify_symmetric
from astra_tacos.verifier.violation import Violation
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import GeneratedRun, generate
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS, LayeredModel, ModelLayer, read_layer_file
from astra_tacos.workload.generator.layered_step import LayeredStep
from astra_tacos.workload.generator.model import Transformer
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step
from astra_tacos.workload.lint import LintReport, lint
from astra_tacos.workload.registry import register_rule

__all__ = [
    "BACKENDS",
    "BOUNDS",
    "BUILDING_BLOCKS",
    "CHUNKED_BOUNDS",
    "COLLECTIVES",
    "EXPORTERS",
    "LAYERED_MODELS",
    "SYNTHESIZERS",
    "AstraTacosError",
    "Backend",
    "BlockLinks",
    "Bound",
    "BuildingBlock",
    "Calibration",
    "Collective",
    "CommType",
    "CompactInputs",
    "CompactSolution",
    "Compared",
    "ConfigError",
    "Device",
    "Dimension",
    "EndpointResult",
    "Exported",
    "Exporter",
    "Finding",
    "Found",
    "GeneratedRun",
    "LayeredModel",
    "LayeredStep",
    "LinkSpec",
    "LintReport",
    "MissingExtraError",
    "MissingFileError",
    "ModelLayer",
    "NetworkConfig",
    "NodeType",
    "Npu",
    "Optimum",
    "OutputError",
    "Parallelism",
    "Partition",
    "Plan",
    "PlanRequest",
    "PlanResult",
    "PolicyOption",
    "Problem",
    "ProblemFiles",
    "ProgramVerdict",
    "ReplayError",
    "Reported",
    "Request",
    "Run",
    "RunDirectory",
    "RunInputs",
    "RunOutcome",
    "Schedule",
    "ScheduleReplay",
    "ScheduleResult",
    "SearchOptions",
    "SearchResult",
    "SendGraph",
    "Solution",
    "Step",
    "Swept",
    "SymmetricSchedule",
    "SymmetricTask",
    "SynthesisError",
    "Synthesizer",
    "Timing",
    "Topology",
    "Trace",
    "TraceReplay",
    "Transformer",
    "VerificationError",
    "Violation",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "build_topology",
    "calibrate",
    "certify",
    "chunked_lower_bound",
    "compact",
    "compare",
    "compute_timing",
    "dispatch",
    "divide_endpoint",
    "expand",
    "export_chakra",
    "export_msccl_xml",
    "export_schedule",
    "gather",
    "generate",
    "lint",
    "load_plugin",
    "load_schedule",
    "load_symmetric_schedule",
    "lower_bound",
    "make_collective",
    "make_plan",
    "optimize",
    "plan",
    "read_compact",
    "read_layer_file",
    "read_network",
    "read_run",
    "read_trace",
    "reduce",
    "reduce_scatter",
    "register_building_block",
    "register_exporter",
    "register_policy",
    "register_rule",
    "register_synthesizer",
    "replay",
    "replay_run",
    "replay_trace",
    "report",
    "save_schedule",
    "save_symmetric_schedule",
    "scatter",
    "schedule_trace",
    "search",
    "solve",
    "sweep",
    "synthesize",
    "synthesize_symmetric",
    "verify",
    "verify_msccl_xml",
    "verify_symmetric",
    "verify_trace",
    "write_run_directory",
]
__version__: str
