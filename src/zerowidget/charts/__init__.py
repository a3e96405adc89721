"""The charts people own: real Altair charts of the same rows, in the same order, colours and words.

Every function takes a ``Setup`` and returns an ``alt.LayerChart`` that composes with ``|``, ``&`` and
``.properties``. Nothing is configured, since configured charts cannot be concatenated, and colours are
literal, since concatenated charts share their scales: charts of different themes can stand side by side.
Altair is imported when a chart is asked for, not before.
"""

from __future__ import annotations

from .ladder import ladder_chart
from .matrix import matrix_chart
from .memory import memory_chart
from .scaling import scaling_chart
from .timeline import timeline_chart

__all__ = ["ladder_chart", "matrix_chart", "memory_chart", "scaling_chart", "timeline_chart"]
