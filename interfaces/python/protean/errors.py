"""Exceptions of the library.

Each has a message that says what is wrong, what is allowed, and what to do. Numerical trouble in a solve is no
exception but the reason of the report. Every class is also one of Python's own, so that ``except ValueError`` catches
it.
"""

__all__ = ["Error", "BadArgument", "ShapeMismatch", "BadMatrix", "FormatRefused", "NotAvailable", "OutOfMemory"]


class Error(Exception):
    """Base class of all exceptions of the library."""


class BadArgument(Error, ValueError):
    """An unknown name, or a value out of range."""


class ShapeMismatch(Error, ValueError):
    """The sizes of two arguments do not fit together."""


class BadMatrix(Error, ValueError):
    """Arrays that are no matrix: an index out of range, a value that is not finite, a zero on the diagonal of M."""


class FormatRefused(Error, ValueError):
    """A storage format cannot store this matrix."""


class NotAvailable(Error, NotImplementedError):
    """Something that this build does not contain, or this machine does not have."""


class OutOfMemory(Error, MemoryError):
    """Not enough memory."""
