"""Exceptions of this package. Each message is one line: where, what was found, what was expected."""

from __future__ import annotations


class AstraTacosError(Exception):
    """Base of every error that a caller may want to catch.

    Examples
    --------
    >>> from astra_tacos import AstraTacosError, read_network
    >>> try:
    ...     read_network("none.yml")
    ... except AstraTacosError as error:
    ...     print(type(error).__name__)
    MissingFileError
    """


class ConfigError(AstraTacosError):
    """An input (file, option or argument) is not as expected.

    Examples
    --------
    >>> from astra_tacos import ConfigError, all_gather
    >>> try:
    ...     all_gather(0, 1 << 20)
    ... except ConfigError as error:
    ...     print(error)
    all-gather: found 0 NPUs, expected at least 2
    """


class MissingFileError(ConfigError):
    """An input file or directory does not exist.

    Examples
    --------
    >>> from astra_tacos import MissingFileError, read_network
    >>> try:
    ...     read_network("none.yml")
    ... except MissingFileError as error:
    ...     print(error)
    none.yml: cannot be read (No such file or directory), expected a text file
    """


class OutputError(ConfigError):
    """An output cannot be written, or must not take the place of what is there. The inputs are not at fault.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, OutputError, all_gather, build_topology, save_schedule, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> try:
    ...     save_schedule(schedule, "/proc/none/ring.npz")
    ... except OutputError as error:
    ...     print("cannot be written")
    cannot be written
    """


class MissingExtraError(AstraTacosError):
    """The operation needs a package that an optional extra of this package installs.

    Examples
    --------
    >>> from astra_tacos import ConfigError, MissingExtraError
    >>> issubclass(MissingExtraError, ConfigError)
    False
    """


class SynthesisError(AstraTacosError):
    """No schedule can be made, although each input is well-formed by itself.

    Examples
    --------
    >>> from astra_tacos import SynthesisError, all_gather, build_topology, read_network, synthesize
    >>> topology = build_topology(read_network("configs/network/torus_4x4.yml"))
    >>> try:
    ...     synthesize(topology, all_gather(16, 1 << 20), synthesizer="branchings")
    ... except SynthesisError as error:
    ...     print("refused")
    refused
    """


class VerificationError(AstraTacosError):
    """A schedule or trace does not compute its collective; raised by wrappers, `verify` itself returns violations.

    Examples
    --------
    >>> from astra_tacos import AstraTacosError, VerificationError
    >>> issubclass(VerificationError, AstraTacosError)
    True
    """


class ReplayError(AstraTacosError):
    """A replay cannot go on, for example because a trace deadlocks.

    Examples
    --------
    >>> from astra_tacos import AstraTacosError, ReplayError
    >>> issubclass(ReplayError, AstraTacosError)
    True
    """
