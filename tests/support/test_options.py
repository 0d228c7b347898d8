"""Options of requests: a terminal user and a Python user read the same words, and what does not count is refused to both."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from astra_tacos.cli.main import COMMANDS, cli
from astra_tacos.cli.shared.command import FieldOption
from astra_tacos.cli.shared.request_options import request_options
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.planner.request import PlanRequest
from astra_tacos.run.run import RunInputs
from astra_tacos.solver.solution import Request
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.options import (
    Choice,
    Flag,
    Number,
    Text,
    Whole,
    check_needs,
    check_values,
    described,
    needs_field,
    option,
    options_of,
    without_useless,
)
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.workload.generator.request import StepRequest

REQUESTS = (SearchOptions, PlanRequest, StepRequest)
INPUTS = RunInputs(*(f"{name}" for name in ("w", "s.json", "n.yml")))


@described
@dataclass(frozen=True)
class Lunch:
    """Lunch."""

    main: str = option("soup", Choice(("soup", "rice")), "Main course.")
    spoons: int | None = option(
        None, Whole(most=9), "Spoons for soup.", needs=needs_field("main", "soup"), in_python="None: any."
    )
    size: float = option(1.0, Number("l"), "Size.")
    salted: bool = option(False, Flag(), "With salt.")
    name: str | None = option(None, Text(alone="guest"), "Whose it is.", name="of")
    where: str | None = None

    def __post_init__(self):
        check_values(self)
        check_needs(self)


def invoke(arguments):
    eaten = []

    @click.command()
    @request_options(Lunch, "lunch_of", without=("size",))
    def eat(lunch_of):
        eaten.append(lunch_of(where="here"))

    done = CliRunner().invoke(eat, arguments)
    return eaten[0] if eaten else done.output.splitlines()[-1]


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("request_class", REQUESTS)
def test_the_words_of_the_command_line_are_those_of_python(request_class):
    commands = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    shown = {(each.name, each.help) for command in commands for each in command.params if isinstance(each, FieldOption)}
    for name, each in options_of(request_class).items():
        assert (name, each.help) in shown
        assert words(request_class.__doc__).count(words(each.help)) == 1


def test_a_field_is_an_option_of_a_command():
    assert invoke([]) == Lunch(where="here")
    assert invoke(["--main", "soup", "--spoons", "2", "--salted", "--of"]) == Lunch("soup", 2, 1.0, True, "guest", "here")
    assert "in the range 1<=x<=9" in invoke(["--spoons", "10"])
    assert invoke(["--main", "rice", "--spoons", "1"]) == "Error: --spoons: needs --main soup."
    assert "--size" in invoke(["--size", "1"])
    assert "spoons\n    Spoons for soup. None: any.\n" in Lunch.__doc__


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"main": "tea"}, "main: found 'tea', expected soup or rice"),
        ({"main": "rice", "spoons": 1}, "spoons: needs main soup"),
        ({"spoons": 10}, "spoons: found 10, expected 1 to 9"),
        ({"spoons": True}, "spoons: found True, expected a whole number"),
        ({"size": 0.0}, "size: found 0.0, expected more than 0 l"),
        ({"size": float("nan")}, "size: found nan"),
        ({"salted": 1}, "salted: found 1, expected True or False"),
        ({"name": 1}, "of: found 1, expected a string"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        Lunch(**values)


NETWORK = NetworkConfig("n", (Dimension("Ring", 4, 50.0, 500.0),))
STILL = sorted(name for name, entry in SYNTHESIZERS.items() if not entry.is_random)
ONE = {"synthesizer": "ring", "chunks_per_npu": 2, "link_model": "blocking"}
RUN = "--workload w --system s.json --network n.yml --output out"
SYNTHESIZE = "synthesize --network n.yml --size 1MiB --synthesizer"


@pytest.mark.parametrize("name", STILL)
def test_seeds_are_for_random_synthesizers(name):
    for option_name in ("seed", "trials"):
        options = SearchOptions(name, "auto", **{option_name: 3})
        with pytest.raises(ConfigError, match=f"{option_name}: the schedule of synthesizer {name} does not depend on seeds"):
            Request(NETWORK, "all-gather", 1 << 20, options=options)
        with pytest.raises(ConfigError, match=f"{option_name}: the schedule of"):
            PlanRequest(INPUTS, options=options)
        assert without_useless(options) == SearchOptions(name, "auto")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((f"{SYNTHESIZE} {name} --trials 1", f"--trials: the schedule of --synthesizer {name} does not") for name in STILL),
        (f"{SYNTHESIZE} ring --seed 0", "--seed: the schedule of --synthesizer ring does not depend on seeds."),
        (
            f"{SYNTHESIZE} ring --chunks-per-npu 2 --link-model blocking --budget 1M",
            "--budget: --synthesizer ring with its chunks",
        ),
        (f"{SYNTHESIZE} ring --chunks-per-npu 2 --link-model pipelined --time-limit 9", "--time-limit: --synthesizer ring with"),
        (f"{SYNTHESIZE} permutations --link-model blocking --budget 1M", "--budget: --synthesizer permutations with its chunks"),
        (f"{SYNTHESIZE} auto --msccl-xml", "--msccl-xml needs --output"),
        (f"{SYNTHESIZE} auto --no-msccl-xml", "--no-msccl-xml needs --output"),
        ("compare --network n.yml --sizes 1MiB --synthesizers ring,direct --seed 1", "--seed: the schedule of"),
        (f"plan {RUN} --synthesizer ring --trials 4", "--trials: the schedule of --synthesizer ring does not depend on seeds."),
        (f"plan {RUN} --schedule-replays 80", "--schedule-replays: needs --schedule search."),
        (f"plan {RUN} --schedule fuse --schedule-replays 8", "--schedule-replays: needs --schedule search."),
        (f"plan {RUN} --per-iteration", "--per-iteration: needs --schedule."),
        (f"plan {RUN} --keep-collectives", "--keep-collectives: needs --schedule."),
        (f"plan {RUN} --astra-sim-bin x", "--astra-sim-bin needs --backend astra-sim or ns-3."),
        ("generate --output out --dp 2 --first-bucket-mb 1", "--first-bucket-mb: needs --bucket-mb."),
        (f"replay {RUN} --astra-sim-bin x --backend congestion-aware", "--astra-sim-bin needs --backend astra-sim or ns-3."),
    ],
)
def test_what_does_not_count_is_refused_in_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2 and message in words(done.output.splitlines()[-1])
    assert not list(tmp_path.iterdir())


def test_what_counts_for_one_of_several_is_taken():
    for arguments in ("--synthesizers ring,tacos --seed 1", "--synthesizers ring --budget 1M"):
        done = CliRunner().invoke(cli, f"compare --network no_such.yml --sizes 1MiB {arguments}")
        assert "no_such.yml" in str(done.exception) and "--seed" not in done.output
