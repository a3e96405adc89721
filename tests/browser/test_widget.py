"""The widget in a plain page, driven with mouse and keyboard."""

import itertools
import re

import pytest

from zerowidget import Setup, summary, timeline_rows
from zerowidget.words import say

ARTICLE = {"N": 7.5e9, "n": 64}
BOX = "element => { const b = element.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"


def text_of(view):
    return view.locator(".zw").inner_text()


def shown_numbers(view):
    return view.locator("svg.bars text").all_text_contents()


def time_axis(view):
    return view.locator("svg.lanes > g.note").first.locator("text:visible").all_text_contents()


def frame(page):
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def widths(view, stage):
    """Widths of the segments of a stage's bar, left to right."""
    paths = view.locator("svg.bars path.segments").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    boxes = [tuple(map(float, box)) for d in paths for box in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", d)]
    assert {(y - 20) // 42 for _, y, _ in boxes} == {0, 1, 2, 3}
    return [width for _, y, width in sorted(boxes) if (y - 20) // 42 == stage]


def span_point(view, lane_y, seconds):
    """Where a moment of the timeline is on the screen, by the axis' own tick marks."""
    x, y, width, _ = view.locator("svg.lanes").evaluate(BOX)
    axis = view.locator("svg.lanes .axis").get_attribute("d")
    left, right = map(float, re.match(r"M([\d.]+) [\d.]+H([\d.]+)", axis).groups())
    view_width = float(view.locator("svg.lanes").get_attribute("viewBox").split()[2])
    marks = [float(mark) for mark in re.findall(r"M([\d.]+) [\d.]+v4", axis)]
    ticks = time_axis(view)
    unit = ticks[0].split()[-1]
    values = [float(tick.split()[0]) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit] for tick in ticks]
    per_second = (marks[-1] - marks[0]) / (values[-1] - values[0])
    at = marks[0] + (seconds - values[0]) * per_second
    assert left <= at <= right
    return x + at * width / view_width, y + lane_y * width / view_width


COMPUTE_Y, NETWORK_Y = 42, 80


def test_every_bar_carries_the_number_of_the_article_and_its_unit(page, open_widget):
    view = open_widget(page, **ARTICLE)
    numbers = shown_numbers(view)
    for article in ("111.8 GiB", "29.2 GiB", "15.5 GiB", "1.7 GiB"):
        assert article in numbers
    page.evaluate("model.receive({ unit: 'GB' })")
    frame(page)
    numbers = shown_numbers(view)
    for paper in ("120.0 GB", "31.4 GB", "16.6 GB", "1.9 GB"):  # figure 1 of the ZeRO paper
        assert paper in numbers


def test_a_drag_moves_the_picture_and_saves_the_trait(page, open_widget):
    view = open_widget(page, **ARTICLE)
    x, y, width, height = view.locator(".control.n input[type=range]").evaluate(BOX)
    page.mouse.move(x + 8 + (width - 16) * 6 / 14, y + height / 2)
    page.mouse.down()
    page.mouse.move(x + 8 + (width - 16) * 10 / 14, y + height / 2, steps=5)
    frame(page)
    assert page.evaluate("model.get('n')") == 1024
    expected = summary(Setup(N=7.5e9, n=1024))[1]["rest"] / 2**30
    assert f"{expected:.1f} GiB" in shown_numbers(view)
    page.mouse.up()
    frame(page)
    assert page.evaluate("Object.assign({}, ...model.saves).n") == 1024
    assert view.locator(".control.n input[type=text]").input_value() == "1024"


def test_a_drag_moves_bars_and_not_the_axis(page, open_widget):
    view = open_widget(page, N=7.5e9, n=8)
    before = widths(view, 1)
    x, y, width, height = view.locator(".control.N input[type=range]").evaluate(BOX)
    at = (page.evaluate("Math.round((Math.log10(model.get('N')) - 6) * 200)")) / 1400
    start = x + 8 + (width - 16) * at  # the thumb is 16 pixels wide
    page.mouse.move(start, y + height / 2)
    page.mouse.down()
    page.mouse.move(start - (width - 16) * 60 / 1400, y + height / 2, steps=4)
    frame(page)
    ratio = page.evaluate("model.get('N')") / 7.5e9
    assert ratio < 0.6
    during = widths(view, 1)
    assert during[0] == pytest.approx(before[0] * ratio, abs=1.5)
    page.mouse.up()
    frame(page)
    after = widths(view, 1)
    assert after[0] == pytest.approx(before[0], abs=1.5)  # the scale of stage 0 again


def test_fields_take_counts_as_people_write_them(page, open_widget):
    view = open_widget(page, **ARTICLE)
    field = view.locator(".control.N input[type=text]")
    for text, N in (("70b", 70e9), ("7.5e9", 7.5e9), ("1.3B", 1.3e9), ("350 M", 350e6), ("1e12", 1e12)):
        field.fill(text)
        field.press("Enter")
        assert page.evaluate("model.get('N')") == N


@pytest.mark.parametrize(
    ("name", "typed", "says"),
    [
        ("n", "0", "n must be at least 1, got 0"),
        ("n", "2.5", "n must be a whole number, got 2.5"),
        ("N", "-1", "N must be at least 1, got -1"),
        ("N", "many", "not a number: 'many'"),
        ("prefetch", "-3", "prefetch must be at least 0, got -3"),
    ],
)
def test_a_bad_value_is_refused_without_losing_what_was_typed(page, open_widget, name, typed, says):
    view = open_widget(page, **ARTICLE, prefetch=1, stage=3)
    before = page.evaluate("['N', 'n', 'prefetch'].map((name) => model.get(name))")
    field = view.locator(f".control.{name} input[type=text]")
    field.fill(typed)
    field.press("Enter")
    assert says in view.locator(f".control.{name} .error").inner_text()
    assert field.input_value() == typed
    assert field.get_attribute("aria-invalid") == "true"
    page.evaluate("model.receive({ stage: 1 })")  # a redraw leaves it alone, too
    frame(page)
    assert field.input_value() == typed
    assert page.evaluate("['N', 'n', 'prefetch'].map((name) => model.get(name))") == before
    field.press("Escape")
    assert field.get_attribute("aria-invalid") is None
    assert view.locator(f".control.{name} .error").inner_text() == ""


def test_fields_that_do_not_go_together_are_refused(page, open_widget):
    view = open_widget(page, **ARTICLE, accumulation=32)
    view.locator("button[aria-expanded].more").last.click()
    field = view.get_by_label("Layers", exact=True)
    field.fill("1024")
    field.press("Enter")
    assert "layers x accumulation must be at most 16384, got 1024 x 32" in text_of(view)
    assert page.evaluate("model.get('layers')") in (None, 32)


def test_keys_0_to_3_choose_the_stage(page, open_widget):
    view = open_widget(page, **ARTICLE)
    view.locator(".control.stage input").nth(3).focus()
    for key in ("0", "2", "1"):
        page.keyboard.press(key)
        frame(page)
        assert page.evaluate("model.get('stage')") == int(key)
        assert view.locator("h3").inner_text().startswith(f"Stage {key} keeps")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('stage')") == 2


def test_clicking_a_bar_selects_its_stage(page, open_widget):
    view = open_widget(page, **ARTICLE)
    x, y, width, _ = view.locator("svg.bars").evaluate(BOX)
    page.mouse.click(x + width / 2, y + 20 + 42 * 1.5)
    frame(page)
    assert page.evaluate("model.get('stage')") == 1


def test_prefetch_moves_the_bar_and_the_timeline(page, open_widget):
    view = open_widget(page, **ARTICLE, prefetch=0)
    waiting = view.locator(".costs").inner_text()
    bar = widths(view, 3)
    page.evaluate("model.receive({ prefetch: 4 })")
    frame(page)
    assert sum(widths(view, 3)) > sum(bar)
    rows = [summary(Setup(**ARTICLE, prefetch=k))[3]["exposed"] for k in (0, 4)]
    assert rows[0] > 10 * rows[1]
    assert f"{rows[0] * 1e3:.0f} ms waiting" in waiting
    assert f"{rows[1] * 1e3:.2f} ms waiting" in view.locator(".costs").inner_text()


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_every_span_of_the_step_is_drawn(page, open_widget, stage):
    view = open_widget(page, N=7.5e9, n=64, stage=stage, layers=24, accumulation=2, recompute=True)
    lanes = view.locator("svg.lanes > path.spans").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    rows = timeline_rows(Setup(N=7.5e9, n=64, stage=stage, layers=24, accumulation=2, recompute=True))
    assert sum(d.count("M") for d in lanes) == len(rows)


def test_pointing_at_a_span_says_what_it_is_and_lights_what_it_waits_for(page, open_widget):
    view = open_widget(page, **ARTICLE, prefetch=0)
    rows = timeline_rows(Setup(**ARTICLE, prefetch=0))
    row = next(row for row in rows if row["op"] == "reduce_scatter" and row["group"] == "layer 19")
    page.mouse.move(*span_point(view, NETWORK_Y, (row["start"] + row["end"]) / 2))
    tip = view.locator(".tip").inner_text()
    assert "reduce-scatter · layer 19 · backward" in tip
    # 63 ring steps of 6 us + 468.75e6 B / 64 / 400 GB/s
    assert "447 MiB in 1.53 ms over InfiniBand NDR" in tip
    assert "waits for: backward · layer 19" in tip
    cause, ring = view.locator(".ring.cause"), view.locator("svg.lanes .ring:not(.cause)")
    assert cause.get_attribute("visibility") == "visible"
    end_of_cause = float(cause.get_attribute("x")) + float(cause.get_attribute("width"))
    assert end_of_cause == pytest.approx(float(ring.get_attribute("x")) + 1, abs=1.5)
    assert float(cause.get_attribute("y")) < float(ring.get_attribute("y"))


def test_the_keyboard_walks_spans_and_segments_aloud(page, open_widget):
    view = open_widget(page, **ARTICLE)
    view.locator("svg.lanes").focus()
    page.keyboard.press("ArrowRight")
    status = view.locator("[role=status]")
    assert "forward · layer 0" in status.text_content()
    page.keyboard.press("ArrowDown")
    assert "all-gather · layer 1" in status.text_content()
    page.keyboard.press("ArrowRight")
    assert "all-gather · layer 2" in status.text_content()
    view.locator("svg.bars").focus()
    page.keyboard.press("ArrowRight")
    assert "Stage 3 · parameters" in status.text_content()
    page.keyboard.press("ArrowUp")
    frame(page)
    assert page.evaluate("model.get('stage')") == 2
    page.keyboard.press("Escape")
    assert view.locator(".tip").is_hidden()


def test_126_layers_are_readable_once_zoomed(page, open_widget):
    view = open_widget(page, N=405e9, n=1024, layers=126)
    labels = view.locator("svg.lanes .figure text:visible")
    assert labels.count() == 0  # too thin, and no mush of overlapping numbers
    view.locator("svg.lanes").focus()
    for _ in range(4):
        page.keyboard.press("+")
    frame(page)
    texts = labels.all_text_contents()
    assert len(texts) > 10
    boxes = labels.evaluate_all(
        "all => all.map(t => { const b = t.getBoundingClientRect(); return [b.y, b.x, b.right]; })"
    )
    boxes.sort()
    for (y1, _, right), (y2, x, _) in itertools.pairwise(boxes):
        assert y1 != y2 or x >= right
    page.keyboard.press("0")
    frame(page)
    assert labels.count() == 0


def test_dragging_pans_a_zoomed_timeline(page, open_widget):
    view = open_widget(page, **ARTICLE)
    whole = time_axis(view)
    x, y, width, height = view.locator("svg.lanes").evaluate(BOX)
    page.mouse.move(x + width / 2, y + height / 3)
    page.mouse.down()
    page.mouse.move(x + width / 3, y + height / 3, steps=3)
    page.mouse.up()
    assert time_axis(view) == whole  # nothing to pan yet
    view.get_by_label("Zoom in").click()
    zoomed = time_axis(view)
    assert zoomed != whole
    page.mouse.move(x + width / 2, y + height / 3)
    page.mouse.down()
    page.mouse.move(x + width / 3, y + height / 3, steps=3)
    page.mouse.up()
    assert time_axis(view) not in (whole, zoomed)
    view.get_by_label("Whole step").click()
    assert time_axis(view) == whole


def test_the_wheel_scrolls_the_page_unless_ctrl_is_held(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.set_viewport_size({"width": 1280, "height": 500})
    whole = time_axis(view)
    page.evaluate("scrollTo(0, 150)")
    x, y, width, _ = view.locator("svg.lanes").evaluate(BOX)
    page.mouse.move(x + width / 2, y + 40)
    page.mouse.wheel(0, 60)
    page.wait_for_function("scrollY > 150")
    assert time_axis(view) == whole
    scrolled = page.evaluate("scrollY")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    view.locator("button[data-zoom=zoom_out]:enabled").wait_for()  # the wheel comes when it comes
    page.keyboard.up("Control")
    assert time_axis(view) != whole
    assert page.evaluate("scrollY") == scrolled


def test_zooming_to_the_selected_stage_shows_its_small_bar(page, open_widget):
    view = open_widget(page, **ARTICLE, stage=3)
    small = sum(widths(view, 3))
    view.get_by_role("button", name="Zoom to the selected stage").click()
    assert sum(widths(view, 3)) > 10 * small
    assert "111.8 GiB" in shown_numbers(view)  # cut off, and still labelled
    assert shown_numbers(view).count("»") == 3
    view.get_by_role("button", name="Back to the scale of stage 0").click()
    assert sum(widths(view, 3)) == pytest.approx(small)


def test_the_capacity_line_stands_where_the_gpu_is_full(page, open_widget):
    view = open_widget(page, **ARTICLE, gpu="A100-40GB", stage=0)
    x = float(re.match(r"M([\d.]+)", view.locator("svg.bars .limit").get_attribute("d")).group(1))
    first = view.locator("svg.bars path[data-state=parameters]").get_attribute("d")
    left, parameters = map(float, re.match(r"M([\d.]+) [\d.]+h([\d.]+)", first).groups())
    assert (x - left) / (parameters + 1) == pytest.approx(40326 * 2**20 / 15e9, rel=0.01)
    assert "A100 40 GB holds 39.4 GiB" in shown_numbers(view)


def test_views_of_one_model_agree_and_a_closed_one_leaves_nothing(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.evaluate("render()")
    other = page.locator("#views > div").nth(1)
    view.locator(".control.stage label").nth(1).click()
    frame(page)
    for each in (view, other):
        assert each.locator("h3").inner_text() == "Stage 1 keeps 29.2 GiB on each GPU"
        assert each.locator(".control.stage input").nth(1).is_checked()
    per_view = page.evaluate("model.listeners()")
    page.evaluate("cleanup(1)")
    half = page.evaluate("model.listeners()")
    assert per_view == {name: 2 * count for name, count in half.items()}
    page.evaluate("cleanup(0)")
    assert page.evaluate("model.listeners()") == {}
    assert page.locator("#views").inner_html() == ""
    page.evaluate("model.receive({ n: 8 })")  # nobody is there to stumble over it
    frame(page)


def test_the_picture_follows_the_kernel_without_answering(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.evaluate("model.receive({ N: 1e12, n: 1024, stage: 1 })")
    frame(page)
    assert "Stage 1" in view.locator("h3").inner_text()
    assert view.locator(".control.N input[type=text]").input_value() == "1T"
    assert page.evaluate("model.saves") == []


def test_a_state_that_cannot_be_says_so_instead_of_breaking(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.evaluate("model.receive({ stage: 7 })")
    frame(page)
    assert "stage must be 0, 1, 2 or 3, got 7" in text_of(view)
    page.evaluate("model.receive({ stage: 2 })")
    frame(page)
    assert "stage must be" not in text_of(view)


def test_dark_follows_jupyters_theme(page, open_widget):
    view = open_widget(page, **ARTICLE)
    zw = view.locator(".zw")
    blue = "getComputedStyle(document.querySelector('#views div div').shadowRoot.querySelector('path[data-state=parameters]')).fill"
    light = page.evaluate(blue)
    assert "dark" not in zw.get_attribute("class")
    page.evaluate(
        """() => {
          document.body.style.setProperty("--jp-content-font-color1", "rgba(255, 255, 255, 1)");
          document.body.dataset.jpThemeLight = "false";
        }"""
    )
    frame(page)
    assert "dark" in zw.get_attribute("class")
    assert page.evaluate(blue) != light


@pytest.mark.parametrize(("width", "scale"), [(300, 1), (420, 2), (853, 1.5), (1920, 1)])
def test_it_fits_the_width_it_gets(new_page, open_widget, width, scale):
    page = new_page(viewport={"width": width, "height": 900}, device_scale_factor=scale)
    view = open_widget(page, **ARTICLE)
    view.locator("button[aria-expanded].more").last.click()
    frame(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    view.locator("summary").click()
    frame(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = view.locator("svg text:visible").evaluate_all(
        "(all, width) => all.filter(t => { const b = t.getBoundingClientRect(); return b.width && (b.x < -1 || b.right > width + 1); }).map(t => t.textContent)",
        width,
    )
    assert outside == []


def test_a_view_that_was_hidden_at_first_gets_its_size_when_shown(page, open_widget):
    open_widget(page, **ARTICLE)
    page.evaluate("document.querySelector('#views').style.display = 'none'")
    page.evaluate("render()")
    page.evaluate("document.querySelector('#views').style.display = ''")
    frame(page)
    first, second = page.locator("#views > div").all()
    assert second.locator("svg.bars").get_attribute("viewBox") == first.locator("svg.bars").get_attribute(
        "viewBox"
    )


def test_the_table_says_the_same_as_the_model(page, open_widget):
    view = open_widget(page, **ARTICLE)
    view.locator("summary").click()
    frame(page)
    cells = view.locator("tbody tr").nth(3).locator("td").all_inner_texts()
    row = summary(Setup(**ARTICLE))[3]
    assert cells[0] == "1.7 GiB"
    assert cells[2] == f"{row['wire_bytes'] / 2**30:.1f} GiB (1.5×)"
    assert cells[3] == f"{row['step'] * 1e3:.0f} ms"


def test_chinese_is_chinese_throughout(page, open_widget):
    view = open_widget(page, **ARTICLE, language="zh")
    view.locator("button[aria-expanded].more").last.click()
    view.locator("summary").click()
    frame(page)
    text = text_of(view)
    assert "每个 GPU 常驻 1.7 GiB" in text
    for key in ("bars_title", "layers", "why", "lane_comm", "zoom_bars", "table_rest"):
        assert say(key, "zh") in text
        assert say(key, "en") not in text


def test_print_leaves_the_picture_and_drops_the_handles(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.emulate_media(media="print")
    assert view.locator(".controls").is_hidden()
    assert view.locator(".buttons").is_hidden()
    assert view.locator("svg.bars").is_visible()
    assert view.locator("h3").is_visible()


def test_nothing_moves_by_itself(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.evaluate("model.receive({ N: 70e9 })")
    frame(page)
    moving = view.locator(".zw").evaluate("root => root.getAnimations({ subtree: true }).length")
    assert moving == 0


def test_the_rest_of_the_controls_is_behind_more(page, open_widget):
    view = open_widget(page, **ARTICLE)
    assert view.get_by_label("Layers", exact=True).is_hidden()
    view.locator("button[aria-label='More settings']").click()
    assert view.get_by_label("Layers", exact=True).is_visible()
    view.locator("button[aria-label='More settings']").click()
    assert view.get_by_label("Layers", exact=True).is_hidden()


def test_every_control_has_a_name(page, open_widget):
    view = open_widget(page, **ARTICLE)
    view.locator("button[aria-expanded].more").last.click()
    frame(page)
    nameless = view.locator("input, select, button").evaluate_all(
        "all => all.filter(e => !(e.labels?.[0]?.innerText.trim() || e.getAttribute('aria-label') || e.innerText.trim())).map(e => e.outerHTML)"
    )
    assert nameless == []


def test_a_single_gpu_communicates_nothing(page, open_widget):
    view = open_widget(page, N=1e9, n=1)
    assert "there is only one GPU" in text_of(view)
    gathers = view.locator("svg.lanes > path[style*=all_gather]")
    assert {path.get_attribute("d") for path in gathers.all()} == {""}


def test_a_drag_that_ends_where_it_began_lets_go_of_the_scales(page, open_widget):
    view = open_widget(page, **ARTICLE)
    x, y, width, height = view.locator(".control.N input[type=range]").evaluate(BOX)
    at = x + 8 + (width - 16) * page.evaluate("Math.round((Math.log10(model.get('N')) - 6) * 200)") / 1400
    page.mouse.move(at, y + height / 2)
    page.mouse.down()
    page.mouse.move(at + 40, y + height / 2, steps=3)
    page.mouse.move(at, y + height / 2, steps=3)
    page.mouse.up()
    page.evaluate("model.receive({ N: 70e9 })")
    frame(page)
    assert shown_numbers(view).count("»") == 0
    assert sum(widths(view, 0)) > 800


def test_a_field_forgets_what_was_typed_and_taken_back(page, open_widget):
    view = open_widget(page, **ARTICLE)
    field = view.locator(".control.n input[type=text]")
    field.focus()
    page.keyboard.press("End")
    page.keyboard.type("1")
    page.keyboard.press("Backspace")
    field.blur()
    page.evaluate("model.receive({ n: 8192 })")
    frame(page)
    assert field.input_value() == "8192"


def test_a_refused_text_goes_when_the_value_is_set_elsewhere(page, open_widget):
    view = open_widget(page, **ARTICLE)
    field = view.locator(".control.n input[type=text]")
    field.fill("abc")
    field.press("Enter")
    assert field.input_value() == "abc"
    page.evaluate("model.receive({ n: 512 })")
    frame(page)
    assert field.input_value() == "512"
    assert view.locator(".control.n .error").inner_text() == ""


def test_a_zoomed_axis_still_names_its_unit(page, open_widget):
    view = open_widget(page, N=405e9, n=1024, layers=126)
    view.locator("svg.lanes").focus()
    for _ in range(5):
        page.keyboard.press("+")
    assert re.fullmatch(r"[\d.]+ (s|ms|µs)", time_axis(view)[0])


def test_the_tooltip_never_speaks_of_another_stage(page, open_widget):
    view = open_widget(page, **ARTICLE, prefetch=0)
    rows = timeline_rows(Setup(**ARTICLE, prefetch=0))
    page.mouse.move(*span_point(view, NETWORK_Y, (rows[0]["start"] + rows[0]["end"]) / 2))
    assert view.locator(".tip").is_visible()
    page.evaluate("model.receive({ stage: 1 })")
    frame(page)
    assert view.locator(".tip").is_hidden()
    assert view.locator("svg.lanes .ring:not(.cause)").get_attribute("visibility") == "hidden"


def test_typing_in_the_explorer_commands_nothing_else(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.evaluate("window.heard = []; document.addEventListener('keydown', (event) => heard.push(event.key))")
    view.locator(".buttons button").first.focus()
    for key in ("d", "d", "0", "0", "x"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == []
    page.keyboard.press("Tab")
    assert page.evaluate("heard") == ["Tab"]


def test_a_screen_reader_hears_news_only(page, open_widget):
    view = open_widget(page, **ARTICLE)
    status = view.locator("[role=status]")
    assert status.text_content() == ""
    view.locator("svg.lanes").focus()
    page.keyboard.press("ArrowRight")
    said = status.text_content()
    page.keyboard.press("+")
    frame(page)
    assert status.text_content() == said
    page.evaluate("model.receive({ stage: 1 })")
    frame(page)
    assert "Stage 1 keeps 29.2 GiB" in status.text_content()


def test_the_keys_of_a_chart_are_told_when_it_has_the_focus(page, open_widget):
    view = open_widget(page, **ARTICLE)
    page.keyboard.press("Tab")
    view.locator("svg.lanes").focus()
    page.keyboard.press("ArrowRight")
    help_text = view.locator("#lanes-help-0")
    assert help_text.inner_text() == say("time_help", "en")
    assert help_text.evaluate("e => e.offsetHeight") > 5
    view.locator("svg.bars").focus()
    assert help_text.evaluate("e => e.offsetHeight") <= 1
