"""Exceptions of this package. Each message is one line: where, what was found, what was expected."""

from __future__ import annotations


class AstraTacosError(Exception):
    """Base of every error that a caller may want to catch."""


class ConfigError(AstraTacosError):
    """An input (file, option or argument) is not what it should be."""


class MissingExtraError(AstraTacosError):
    """What was asked for needs a package that an optional extra of this package brings."""


class SynthesisError(AstraTacosError):
    """No schedule can be made from inputs that are well-formed one by one."""


class VerificationError(AstraTacosError):
    """A schedule or trace does not compute its collective; raised by wrappers, `verify` itself returns violations."""


class ReplayError(AstraTacosError):
    """A replay cannot go on, for example because a trace deadlocks."""
