"""Exceptions of this package. Each message is one line: where, what was found, what was expected."""

from __future__ import annotations


class AstraTacosError(Exception):
    """Base of every error that a caller may want to catch."""


class ConfigError(AstraTacosError):
    """An input (file, option or argument) is not as expected."""


class MissingFileError(ConfigError):
    """An input is not there: nothing but its name is at fault."""


class OutputError(ConfigError):
    """An output cannot be written, or must not take the place of what is there. The inputs are not at fault."""


class MissingExtraError(AstraTacosError):
    """The operation needs a package that an optional extra of this package installs."""


class SynthesisError(AstraTacosError):
    """No schedule can be made, although each input is well-formed by itself."""


class VerificationError(AstraTacosError):
    """A schedule or trace does not compute its collective; raised by wrappers, `verify` itself returns violations."""


class ReplayError(AstraTacosError):
    """A replay cannot go on, for example because a trace deadlocks."""
