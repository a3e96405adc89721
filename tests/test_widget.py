"""The widget's Python side: traits that obey the rules of Setup, and what a front end is told."""

import gc
import json
import subprocess
import sys

import pytest
import traitlets

import zerowidget
from zerowidget import Setup, ZeroExplorer
from zerowidget.specs import FIELDS

BAD = [
    ("n", 0, "n must be at least 1, got 0"),
    ("n", 2.5, "n must be a whole number, got 2.5"),
    ("N", -1, "N must be at least 1, got -1"),
    ("N", float("nan"), "N must be a finite number, got nan"),
    ("stage", 4, "stage must be 0, 1, 2 or 3, got 4"),
    ("stage", "3", "stage must be 0, 1, 2 or 3, got '3'"),
    ("N", "7.5B", "N must be a finite number, got '7.5B'"),
    ("recompute", 1, "recompute must be True or False, got 1"),
    ("unit", "MB", "unit must be GiB or GB, got 'MB'"),
]


@pytest.mark.parametrize(("name", "value", "says"), BAD)
def test_a_bad_value_is_refused_by_the_constructor(name, value, says):
    with pytest.raises(traitlets.TraitError) as error:
        ZeroExplorer(**{name: value})
    assert str(error.value) == says


@pytest.mark.parametrize(("name", "value", "says"), BAD)
def test_a_bad_value_is_refused_by_assignment_and_changes_nothing(name, value, says):
    ex = ZeroExplorer(N=13e9, n=16, stage=2)
    heard = []
    ex.observe(heard.append, names=list(FIELDS))
    with pytest.raises(traitlets.TraitError) as error:
        setattr(ex, name, value)
    assert str(error.value) == says
    assert ex.setup == Setup(N=13e9, n=16, stage=2)
    assert heard == []


def test_an_unknown_name_is_a_type_error_that_suggests_the_nearest():
    with pytest.raises(TypeError, match="unknown field stag, did you mean stage"):
        ZeroExplorer(stag=3)


def test_fields_by_position_are_refused_with_an_example():
    with pytest.raises(TypeError) as error:
        ZeroExplorer(7.5e9, 64)
    says = "fields are given by name, as in ZeroExplorer(N=7.5e9, n=64); got (7500000000.0, 64)"
    assert str(error.value) == says


def test_rules_over_several_fields_hold_too():
    with pytest.raises(traitlets.TraitError, match="layers x accumulation must be at most 16384"):
        ZeroExplorer(layers=1024, accumulation=32)
    ex = ZeroExplorer(layers=1024)
    with pytest.raises(traitlets.TraitError, match="got 1024 x 32"):
        ex.accumulation = 32
    assert (ex.layers, ex.accumulation) == (1024, 1)
    with ex.hold_trait_notifications():  # both at once, as a front end sends them
        ex.accumulation = 256
        ex.layers = 64
    assert (ex.layers, ex.accumulation) == (64, 256)


def test_traits_mirror_the_setup_one_to_one():
    synced = {name for name in ZeroExplorer().traits(sync=True) if not name.startswith("_")}
    ipywidgets_own = {"layout", "tabbable", "tooltip"}
    assert synced - ipywidgets_own == set(FIELDS)
    assert ZeroExplorer().setup == Setup()


def test_results_are_never_synced():
    state = ZeroExplorer(N=70e9).get_state()
    own = {name: value for name, value in state.items() if name in FIELDS}
    assert len(json.dumps(own)) < 1200


def test_rows_follow_the_traits():
    ex = ZeroExplorer(N=7.5e9, n=64)
    assert ex.memory() == zerowidget.memory_rows(ex.setup)
    ex.n = 8
    ex.stage = 1
    assert ex.memory() == zerowidget.memory_rows(Setup(N=7.5e9, n=8))
    assert ex.communication() == zerowidget.communication_rows(ex.setup)
    assert ex.timeline() == zerowidget.timeline_rows(ex.setup)
    assert {row["stage"] for row in ex.timeline()} == {1}
    assert ex.summary() == zerowidget.summary(ex.setup)
    assert ex.advice() == zerowidget.advice(ex.setup)


def test_whole_floats_from_the_front_end_become_ints():
    ex = ZeroExplorer(n=64.0)  # JavaScript knows no other numbers
    ex.stage = 2.0
    assert isinstance(ex.n, int)
    assert isinstance(ex.stage, int)
    assert isinstance(ex.N, float)


def test_observe_and_link_work_as_with_any_widget():
    first, second = ZeroExplorer(), ZeroExplorer()
    link = traitlets.link((first, "n"), (second, "n"))
    heard = []
    second.observe(lambda change: heard.append((change["old"], change["new"])), names="n")
    first.n = 256
    assert second.n == 256
    assert heard == [(64, 256)]
    link.unlink()
    first.n = 8
    assert second.n == 256


def test_plain_text_has_the_numbers():
    ex = ZeroExplorer(N=7.5e9, n=64)
    bundle, _ = ex._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    for number in ("111.8 GiB", "29.2 GiB", "15.5 GiB", "1.7 GiB"):
        assert number in bundle["text/plain"]
    expected = "ZeroExplorer(N=7.5e9, n=64): 111.8, 29.2, 15.5, 1.7 GiB per GPU at rest, stages 0 to 3"
    assert repr(ex) == expected


def test_the_bundle_is_cheap_and_holds_a_png_only_when_asked():
    ex = ZeroExplorer(N=7.5e9, n=64)
    bundle, _ = ex._repr_mimebundle_()
    assert bundle["text/html"].startswith("<table>")
    assert "<iframe" in bundle["text/html"]
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    asked, _ = ex._repr_mimebundle_(include=["image/png"])
    assert asked["image/png"].startswith(b"\x89PNG")
    code = "import sys, zerowidget as z; z.ZeroExplorer()._repr_mimebundle_(); print('altair' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_repr_can_be_typed_back():
    ex = ZeroExplorer(N=1.5e9, n=16, stage=1, gpu="V100-32GB", hidden=1600, unit="GB")
    call = repr(ex).split(": ")[0]
    assert eval(call, {"ZeroExplorer": ZeroExplorer}).setup == ex.setup


def test_explain_speaks_both_languages():
    ex = ZeroExplorer(N=7.5e9, n=64)
    assert "(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = 1.875e9 bytes = 1.75 GiB" in ex.explain()
    assert "每个 GPU 常驻 1.7 GiB" in ex.explain("zh")
    assert ex.language == "en"
    with pytest.raises(ValueError, match="language must be en or zh, got 'fr'"):
        ex.explain("fr")


def test_closing_lets_go_of_the_widget():
    ex = ZeroExplorer()
    ex.close()
    gc.collect()
    assert ex.comm is None


def test_public_names_are_those_in_all():
    for name in zerowidget.__all__:
        assert getattr(zerowidget, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'ZeroExplore'"):
        _ = zerowidget.ZeroExplore
    assert zerowidget.__version__.count(".") == 2
