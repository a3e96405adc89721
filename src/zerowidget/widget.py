"""The Jupyter widget: its traits are the fields of ``Setup``, and every number is derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from .advice import advice, explain
from .compare import differences
from .html import Slide, frame, numbers_table, to_html
from .rows import communication_rows, memory_rows, steps_of, summary, timeline_rows
from .specs import FIELDS, Setup, check, counted, unknown
from .text import as_text, headline

BUNDLE = Path(__file__).parent / "static" / "widget.js"
if not BUNDLE.exists():  # a checkout whose front end was never built; wheels always carry it
    msg = f"the front end is not built: {BUNDLE} is missing; run `make build` or `node js/build.mjs`"
    raise ImportError(msg)


class Field(traitlets.TraitType[Any, Any]):
    """A synced trait that obeys the rule of the ``Setup`` field of the same name."""

    def __init__(self, name: str) -> None:
        rule = FIELDS[name]
        super().__init__(check(name, rule["default"]), allow_none=rule.get("optional", False))
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> Any:
        """The value as stored; a TraitError that names field, rule and value."""
        try:
            return check(str(self.name), value)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None


class ZeroExplorer(anywidget.AnyWidget):
    """What ZeRO does to ``N`` parameters on ``n`` GPUs: bars of memory, a timeline of one step, a verdict.

    All fields of ``Setup`` are keyword arguments and traits: set them, observe them, link them.

    Raises TypeError for an unknown name, traitlets.TraitError for a value that its field cannot take;
    an assignment that fails leaves the old value in place.

    >>> ZeroExplorer(N=7.5e9, n=64)
    ZeroExplorer(N=7.5e9, n=64): 111.8, 29.2, 15.5, 1.7 GiB per GPU at rest, stages 0 to 3
    """

    _esm = BUNDLE

    N = Field("N")
    n = Field("n")
    stage = Field("stage")
    system = Field("system")
    compare = Field("compare")
    recipe = Field("recipe")
    layers = Field("layers")
    hidden = Field("hidden")
    shapes = Field("shapes")
    seq_len = Field("seq_len")
    micro_batch = Field("micro_batch")
    accumulation = Field("accumulation")
    recompute = Field("recompute")
    gpu = Field("gpu")
    gpus_per_node = Field("gpus_per_node")
    link = Field("link")
    utilization = Field("utilization")
    prefetch = Field("prefetch")
    param_dtype = Field("param_dtype")
    reduce_dtype = Field("reduce_dtype")
    grad_accum_dtype = Field("grad_accum_dtype")
    reshard_after_forward = Field("reshard_after_forward")
    shard_size = Field("shard_size")
    sync_every_micro_batch = Field("sync_every_micro_batch")
    stage3_prefetch_bucket_size = Field("stage3_prefetch_bucket_size")
    stage3_max_live_parameters = Field("stage3_max_live_parameters")
    stage3_max_reuse_distance = Field("stage3_max_reuse_distance")
    stage3_param_persistence_threshold = Field("stage3_param_persistence_threshold")
    reduce_bucket_size = Field("reduce_bucket_size")
    allgather_bucket_size = Field("allgather_bucket_size")
    overlap_comm = Field("overlap_comm")
    contiguous_gradients = Field("contiguous_gradients")
    use_multi_rank_bucket_allreduce = Field("use_multi_rank_bucket_allreduce")
    zero_hpz_partition_size = Field("zero_hpz_partition_size")
    zero_quantized_weights = Field("zero_quantized_weights")
    zero_quantized_gradients = Field("zero_quantized_gradients")
    offload = Field("offload")
    unit = Field("unit")
    language = Field("language")

    def __init__(self, *values: Any, **fields: Any) -> None:
        if values:
            raise TypeError(f"fields are given by name, as in ZeroExplorer(N=7.5e9, n=64); got {values!r}")
        for name in fields:
            if not self.has_trait(name):
                raise unknown(name)
        super().__init__(**fields)

    @traitlets.validate(*FIELDS)
    def _together(self, proposal: Any) -> Any:
        # rules over several fields, which Setup alone knows
        name, value = proposal["trait"].name, proposal["value"]
        try:
            if name == "shapes":
                Setup(**{**self._fields(), **(counted(value) if value else {}), "shapes": value})
            else:
                self.setup.but(**{name: value})
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None
        return value

    @traitlets.observe("shapes")
    def _count(self, change: Any) -> None:
        # N and layers follow from the shapes
        if self.shapes is not None:
            for name, value in counted(self.shapes).items():
                setattr(self, name, value)

    def _fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in FIELDS}
        if fields["shapes"] is not None:
            del fields["N"], fields["layers"]
        return fields

    @property
    def setup(self) -> Setup:
        """The traits as a frozen ``Setup``."""
        return Setup(**self._fields())

    @classmethod
    def from_shapes(cls, shapes: Any, **fields: Any) -> ZeroExplorer:
        """An explorer of the parameters of a real model; ``N`` and ``layers`` follow from them.

        ``shapes``: names with shapes in the order of the model, see ``Setup.from_shapes``.

        >>> ZeroExplorer.from_shapes({"tok.weight": (10, 4), "blocks.0.up.weight": (8, 4)}, n=2).N
        72.0
        """
        return cls(shapes=shapes, **fields)

    def memory(self) -> list[dict[str, Any]]:
        """Bytes per GPU, a row per stage, state and moment; see ``memory_rows``."""
        return memory_rows(self.setup)

    def communication(self) -> list[dict[str, Any]]:
        """What one step communicates, a row per stage, phase and collective; see ``communication_rows``."""
        return communication_rows(self.setup)

    def timeline(self) -> list[dict[str, Any]]:
        """One step of the selected stage in issue order; see ``timeline_rows``."""
        return timeline_rows(self.setup)

    def summary(self) -> list[dict[str, Any]]:
        """One row per stage: memory, communication, time; see ``summary``."""
        return summary(self.setup)

    def advice(self) -> dict[str, Any]:
        """The lowest stage that fits, and why; see ``advice``."""
        return advice(self.setup)

    def explain(self, language: str | None = None) -> str:
        """The selected stage in words, the formula filled in; ``language`` is the trait's by default."""
        setup = self.setup if language is None else self.setup.but(language=language)
        return "\n".join(explain(setup).values())

    def differences(self) -> list[dict[str, Any]]:
        """The selected stage of ``system`` against that of ``compare``, and why; see ``differences``."""
        return differences(self.setup)

    def _chart(self, name: str, look: dict[str, str]) -> Any:
        # most sessions draw no chart: what draws them is loaded when one is asked for
        from .export import CHARTS

        return CHARTS[name](self.setup, **look)

    def memory_chart(self, **look: str) -> Any:
        """Bars of memory, a real Altair chart.

        ``theme``: light, dark or print; ``size``: screen, slide or paper. Raises ValueError for any other,
        and ImportError with the command that installs Altair.
        """
        return self._chart("memory", look)

    def timeline_chart(self, **look: str) -> Any:
        """The step of the selected stage; see ``memory_chart`` for the look."""
        return self._chart("timeline", look)

    def scaling_chart(self, **look: str) -> Any:
        """Bytes per GPU against n, and the part of them that does not fall."""
        return self._chart("scaling", look)

    def ladder_chart(self, **look: str) -> Any:
        """Which shard sits on which GPU, stage by stage."""
        return self._chart("ladder", look)

    def matrix_chart(self, **look: str) -> Any:
        """The stages side by side, in words and numbers."""
        return self._chart("matrix", look)

    def save(self, path: str | PathLike[str], **options: Any) -> Path:
        """Write the picture or its numbers to a file, by its suffix; see ``export.save``."""
        from .export import save

        return save(self.setup, path, **options)

    def to_html(self, **options: Any) -> str:
        """The live picture as a page of its own, without kernel or network; see ``html.to_html``."""
        return to_html(self.setup, **options)

    def slide(
        self,
        height: int = 900,
        steps: Sequence[Mapping[str, Any]] | None = None,
        theme: str = "light",
    ) -> Slide:
        """A cell's output that stays alive in slides and pages made of the notebook, without a kernel.

        ``height``: pixels; in less than it needs, the picture shrinks. ``steps``: a story, each step the
        fields that change in it: buttons and the keys of a presenter walk through it. ``theme``: light, dark
        or auto.

        >>> ZeroExplorer().slide(steps=[dict(stage=0), dict(stage=1, n=64)])  # doctest: +ELLIPSIS
        <zerowidget slide, ... characters of HTML>
        """
        return Slide(self.setup, height=height, steps=steps, theme=theme)

    def __repr__(self) -> str:
        return f"ZeroExplorer{headline(self.setup)}"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        # the widget's own view comes first everywhere; the rest is for where there is no kernel or no widget:
        # the table of numbers survives sanitisers, the frame after it is alive
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None:
            setup = self.setup
            stages = steps_of(setup)
            rows = summary(setup, stages)
            bundle[0]["text/html"] = numbers_table(setup, rows=rows) + frame(setup, stages=stages)
            bundle[0]["text/plain"] = as_text(setup, rows=rows)
            if "image/png" in (kwargs.get("include") or ()):  # only when asked: it loads what draws charts
                from .export import as_picture

                bundle[0]["image/png"] = as_picture(self.memory_chart(), ".png")
        return bundle
