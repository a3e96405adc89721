"""Real systems in the picture: their knobs, and two of them side by side."""

import pytest
from tinygpt import tinygpt_shapes

from zerowidget import Setup, differences, summary

SMALL = {"N": 7.5e9, "n": 64, "layers": 4}


def frame(page):
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def knobs(view):
    """Labels of the controls behind the dots that are on show."""
    return view.locator(
        ".panel .control:visible label > span:first-child, .panel .check:visible > span"
    ).all_inner_texts()


def open_panel(view):
    view.locator("button.more[aria-expanded]:not([aria-haspopup])").click()


def test_the_system_is_a_switch_whose_difference_is_seen(page, open_widget):
    view = open_widget(page, **SMALL)
    for system in ("deepspeed", "fsdp2", "paper"):
        view.locator(".control.system select").select_option(system)
        frame(page)
        assert page.evaluate("model.get('system')") == system
        row = summary(Setup(**SMALL, system=system))[3]
        texts = view.locator("svg.bars text").all_text_contents()
        assert f"{row['rest'] / 2**30:.1f} GiB" in texts
        assert f"peak {row['peak'] / 2**30:.1f}" in texts
        name = {"deepspeed": "DeepSpeed", "fsdp2": "FSDP2"}.get(system)
        title = view.locator("section h4").nth(1).inner_text()
        assert title == ("One training step, stage 3" + (f" · {name}" if name else ""))


def test_knobs_are_shown_only_where_their_system_has_them(page, open_widget):
    view = open_widget(page, **SMALL)
    open_panel(view)
    assert not {"reshard_after_forward", "stage3_max_live_parameters"} & set(knobs(view))
    assert view.locator(".control.prefetch").is_visible()
    page.evaluate("model.receive({ system: 'fsdp2' })")
    frame(page)
    shown = set(knobs(view))
    assert {"reshard_after_forward", "Shard size (HSDP)", "Reduce dtype"} <= shown
    assert "stage3_max_live_parameters" not in shown
    page.evaluate("model.receive({ system: 'deepspeed' })")
    frame(page)
    shown = set(knobs(view))
    assert {"stage3_max_live_parameters", "reduce_bucket_size", "overlap_comm", "Parameter dtype"} <= shown
    assert "reshard_after_forward" not in shown
    assert not view.locator(".control.prefetch").is_visible()
    page.evaluate("model.receive({ compare: 'fsdp2' })")  # both are on show now
    frame(page)
    assert {"reshard_after_forward", "stage3_max_live_parameters"} <= set(knobs(view))


@pytest.mark.parametrize(
    ("typed", "value"), [("False", False), ("true", True), ("", None), ("8", 8), ("none", None)]
)
def test_reshard_after_forward_takes_what_torch_takes(page, open_widget, typed, value):
    view = open_widget(page, **SMALL, system="fsdp2", reshard_after_forward=2)
    open_panel(view)
    field = view.get_by_label("reshard_after_forward")
    field.fill(typed)
    field.press("Enter")
    assert page.evaluate("model.get('reshard_after_forward')") == value


def test_a_size_that_does_not_divide_is_refused_by_name_and_changes_nothing(page, open_widget):
    view = open_widget(page, **SMALL, system="fsdp2")
    open_panel(view)
    field = view.get_by_label("Shard size (HSDP)")
    field.fill("3")
    field.press("Enter")
    assert (
        "shard_size must be a divisor of 64, got 3" in view.locator(".panel .error:visible").all_inner_texts()
    )
    assert page.evaluate("model.get('shard_size')") is None
    page.evaluate("model.receive({ shard_size: 48, n: 48 })")
    frame(page)
    slider = view.locator(".control.n input[type=range]")
    slider.evaluate("range => { range.value = 8; range.dispatchEvent(new Event('input')); }")  # 256 GPUs
    assert "shard_size must be a divisor of 256, got 48" in view.locator(".control.n").inner_text()
    assert page.evaluate("model.get('n')") == 48


def test_two_systems_stand_side_by_side_and_the_table_says_what_differs(page, open_widget):
    view = open_widget(page, **SMALL, system="deepspeed")
    assert view.locator("svg.lanes").count() == 1
    view.locator(".control.compare select").select_option("fsdp2")
    frame(page)
    assert view.locator("svg.lanes").count() == 2
    titles = view.locator("section h4").all_inner_texts()
    assert titles[1:] == [
        "One training step, stage 3 · DeepSpeed",
        "One training step, stage 3 · FSDP2",
        "What differs",
    ]
    rows = differences(Setup(**SMALL, system="deepspeed", compare="fsdp2"))
    shown = view.locator(".differences tbody tr").all_inner_texts()
    assert len(shown) == len(rows) > 8
    assert [text.split("\t")[-1] for text in shown] == [row["why"] for row in rows]
    assert "DeepSpeed: one for good: reduce_bucket_size" in view.locator(".differences").inner_text()
    names = view.locator("svg.bars text").all_text_contents()
    assert names.count("FSDP2") == 2  # stages 2 and 3
    assert names.count("DDP") == 2
    view.locator(".control.compare select").select_option("")
    frame(page)
    assert view.locator("svg.lanes").count() == 1
    assert view.locator(".differences").count() == 0
    assert page.evaluate("model.get('compare')") is None


def test_the_time_axis_is_one_for_both(page, open_widget):
    view = open_widget(page, **SMALL, system="deepspeed", compare="paper", stage=1)
    axes = view.locator("svg.lanes .axis").evaluate_all("all => all.map(axis => axis.getAttribute('d'))")
    assert axes[0] == axes[1]
    before = axes[0]
    view.locator("[data-zoom=zoom_in]").nth(1).click()
    frame(page)
    axes = view.locator("svg.lanes .axis").evaluate_all("all => all.map(axis => axis.getAttribute('d'))")
    assert axes[0] == axes[1] != before


def test_a_segment_says_its_knob_and_whether_it_falls(page, open_widget):
    view = open_widget(page, **SMALL, system="deepspeed")
    bars = view.locator("svg.bars")
    bars.focus()
    told = []
    for _ in range(12):
        bars.press("ArrowRight")
        told.append(view.locator(".tip").inner_text())
    bucket = next(text for text in told if "gradients to reduce" in text and "resting total" in text)
    assert "one for good: reduce_bucket_size" in bucket
    assert "does not fall with n" in bucket
    momentum = next(text for text in told if "momentum" in text)
    assert "sharded: 1/64 of it on each GPU" in momentum
    assert "\nfalls as n grows" in momentum


def test_replicas_reduce_on_a_lane_of_their_own(page, open_widget):
    view = open_widget(page, **SMALL, system="fsdp2", shard_size=8)
    lanes = view.locator("svg.lanes")
    lanes.focus()
    lanes.press("ArrowDown")
    lanes.press("ArrowDown")
    lanes.press("ArrowRight")
    text = view.locator(".tip").inner_text()
    assert text.startswith("all-reduce · layer ")
    assert "8 ranks, float32" in text


def test_what_stays_inside_a_node_is_drawn_thin(page, open_widget):
    view = open_widget(page, **SMALL, system="fsdp2", shard_size=8, gpus_per_node=8)
    widths = """svg => [...svg.querySelectorAll('path.spans')].filter(path => path.getAttribute('d'))
        .map(path => [path.style.stroke, path.getAttribute('stroke-width')])"""
    high = dict(view.locator("svg.lanes").evaluate(widths))
    assert float(high["var(--all_gather)"]) * 1.5 < float(high["var(--all_reduce)"])
    assert "thin: 450 GB/s over NVLink 4" in view.locator("section header span.note").nth(1).inner_text()


def test_the_shapes_of_a_model_decide_n_and_layers(page, open_widget):
    shapes = [[name, list(shape)] for name, shape in tinygpt_shapes().items()]
    view = open_widget(page, shapes=shapes, n=2, system="deepspeed")
    frame(page)
    assert view.locator(".control.N input[type=text]").input_value() == "3.69M"
    assert view.locator(".control.N input[type=range]").is_disabled()
    open_panel(view)
    assert view.get_by_label("Layers", exact=True).is_disabled()
    assert "outside the layers" not in view.locator(".error").first.inner_text()
    texts = view.locator("svg.bars text").all_text_contents()
    assert "0.96 GiB" in texts  # the bucket of stage 3, whatever the model
