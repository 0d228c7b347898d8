"""Checks R: what the embedded replay of a run shows."""

from __future__ import annotations

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.rules.facts import Facts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.support.errors import ConfigError, ReplayError


@rule("R01", "replay stalls", settles_timing=True)
def stalled_replay(facts: Facts) -> Findings:
    """The embedded replay of the run does not come to its end.

    Some faults stall a run or not, depending on timing (A13, C05, C06, C07, M05, M06, S19), and are warnings. Where nothing else
    is wrong, `lint` replays the run on the network model that it is checked for, and this finding says where it stalls. A run
    that ends keeps the warnings: with other bandwidths or latencies it may still stall.

    Remedy: do what the warnings say.
    """
    try:
        replay_run(facts.inputs.run(), facts.inputs.backend)
    except ReplayError as error:
        yield Found(str(error), "do what the warnings say", facts.inputs.workload.prefix)
    except ConfigError:
        return  # it cannot be replayed: the warnings stand
