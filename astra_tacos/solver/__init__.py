"""From a request to a verified solution: what `synthesize` does, on the command line and in Python.

Judges: how long schedules and runs take on each of ASTRA-sim's network models, whichever they were made for.
"""

from __future__ import annotations
