"""zerowidget: see what ZeRO does to the memory and the communication of every GPU.

>>> from zerowidget import bytes_per_gpu
>>> bytes_per_gpu(7.5e9, 64, 3)
1875000000.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .advice import advice
from .compare import differences
from .estimates import deepspeed_estimates
from .memory import bytes_per_gpu
from .rows import communication_rows, memory_rows, summary, timeline_rows
from .specs import Setup

if TYPE_CHECKING:
    from .widget import ZeroExplorer

__all__ = [
    "Setup",
    "ZeroExplorer",
    "advice",
    "bytes_per_gpu",
    "communication_rows",
    "deepspeed_estimates",
    "differences",
    "memory_rows",
    "summary",
    "timeline_rows",
]


def __getattr__(name: str) -> Any:
    # the widget brings Jupyter's machinery, which the model and the command line do without
    if name == "ZeroExplorer":
        from .widget import ZeroExplorer

        return ZeroExplorer
    if name == "__version__":
        from importlib.metadata import version

        return version("zerowidget")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
