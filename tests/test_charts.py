"""The charts people own: their structure, their numbers, and that every text can be read."""

import itertools
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import altair as alt
import pytest
import vl_convert

from zerowidget import Setup, memory_rows, summary, timeline_rows, words
from zerowidget.charts import ladder_chart, matrix_chart, memory_chart, scaling_chart, timeline_chart
from zerowidget.charts.look import SIZES, THEMES, apart, breadth, ink_on, nice_above, ticks, wrapped
from zerowidget.charts.scaling import powers_to
from zerowidget.data import load
from zerowidget.timeline import step_of
from zerowidget.words import in_unit, say

ARTICLE = Setup(N=7.5e9, n=64)
ENCODING = load("encoding")
CHARTS = [memory_chart, timeline_chart, scaling_chart, ladder_chart, matrix_chart]
each_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.__name__)
NUMBERS = ("111.8", "29.2", "15.5", "1.7")
SVG = "{http://www.w3.org/2000/svg}"


def svg_of(chart):
    return vl_convert.vegalite_to_svg(chart.to_dict())


def rows_of(chart, mark, *columns):
    """The rows of all layers with that mark whose rows have these columns."""
    spec = chart.to_dict()
    found = []
    for layer in spec["layer"]:
        rows = spec["datasets"][layer["data"]["name"]]
        if layer["mark"]["type"] == mark and rows and set(columns) <= set(rows[0]):
            found += rows
    return found


def texts_of(svg):
    """(text, left, top, right, bottom) of every text, once; widths are estimated."""
    found = {}

    def walk(node, x, y):
        moved = re.match(r"translate\(([-\d.e]+),([-\d.e]+)\)", node.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        if node.tag == f"{SVG}text":
            size = float(node.get("font-size").removesuffix("px"))
            lines = [child for child in node if child.tag == f"{SVG}tspan"] or [node]
            for index, line in enumerate(lines):
                text = line.text or ""
                wide = 0.85 * breadth(text, size, bold=node.get("font-weight") == "bold")
                left = x - {"start": 0.0, "middle": wide / 2.0, "end": wide}[node.get("text-anchor", "start")]
                down = y + index * 1.2 * size
                found[text, round(left), round(down)] = (text, left, down - 0.7 * size, left + wide, down)
        for child in node:
            walk(child, x, y)

    root = ET.fromstring(svg)
    walk(root, 0.0, 0.0)
    return [box for box in found.values() if box[0].strip()], [
        float(part) for part in root.get("viewBox").split()
    ]


def check_texts(svg):
    """No text overlaps another or leaves the picture."""
    boxes, (_, _, width, height) = texts_of(svg)
    for text, left, top, right, bottom in boxes:
        assert left >= -1.0, (text, left)
        assert right <= width + 1.0, (text, right, width)
        assert top >= -1.0, (text, top)
        assert bottom <= height + 1.0, (text, bottom, height)
    for one, other in itertools.combinations(boxes, 2):
        apart_x = one[3] <= other[1] + 0.5 or other[3] <= one[1] + 0.5
        apart_y = one[4] <= other[2] + 0.5 or other[4] <= one[2] + 0.5
        assert apart_x or apart_y, (one, other)


@each_chart
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_chart_in_every_theme_and_size_draws_without_a_warning_and_no_text_overlaps(
    chart, language, capfd
):
    setup = ARTICLE.but(language=language)
    for theme, size in itertools.product(THEMES, SIZES):
        svg = svg_of(chart(setup, theme=theme, size=size))
        check_texts(svg)
        written = [text for text, *_ in texts_of(svg)[0]]
        if chart is not timeline_chart:
            for number in NUMBERS:
                assert any(re.search(rf"\b{re.escape(number)}\b", text) for text in written), number
            assert any("GiB" in text for text in written)
        _, (_, _, width, _) = texts_of(svg)
        assert width <= SIZES[size][0] + 1.0
    captured = capfd.readouterr()
    assert "WARN" not in captured.err + captured.out


@each_chart
@pytest.mark.parametrize(
    "fields",
    [
        {"n": 1},
        {"n": 2, "stage": 1},
        {"n": 8, "stage": 0, "unit": "GB"},
        {"N": 1e12, "n": 1000000, "gpu": "B200-180GB", "unit": "GB", "stage": 2},
        {"N": 405e9, "n": 10_000_000, "layers": 126, "stage": 3},
        {"N": 1, "n": 3, "recipe": "adafactor-bf16"},
        {"N": 70e9, "layers": 80, "recipe": "adam-main-grads", "recompute": True, "accumulation": 3},
        {"layers": 1, "prefetch": 0},
        {"N": 350e6, "n": 16, "gpu": "T4", "link": "Ethernet-10G", "stage": 2, "accumulation": 16},
    ],
    ids=str,
)
def test_texts_stay_apart_whatever_the_setup(chart, fields):
    check_texts(svg_of(chart(Setup(**fields), size="paper")))  # the tightest


def test_type_on_a_slide_is_read_from_the_last_row_and_type_in_a_paper_is_no_mush():
    for chart in CHARTS:
        for size, least in (("slide", 18.0), ("paper", 8.0)):
            svg = svg_of(chart(ARTICLE, size=size))
            assert min(float(found) for found in re.findall(r'font-size="([\d.]+)px"', svg)) >= least


@each_chart
def test_a_chart_survives_json(chart):
    made = chart(ARTICLE, theme="dark")
    again = alt.Chart.from_dict(json.loads(made.to_json()))
    assert svg_of(again) == svg_of(made)


@each_chart
def test_charts_compose_and_keep_their_colours(chart):
    light, dark = chart(ARTICLE), memory_chart(ARTICLE, theme="dark", size="paper").properties(title="mine")
    assert isinstance(light, alt.LayerChart)
    alone = set(re.findall(r'fill="(#\w{6})"', svg_of(light) + svg_of(dark)))
    for both in (light | dark, light & dark, alt.concat(dark, light)):
        assert set(re.findall(r'fill="(#\w{6})"', svg_of(both))) == alone
        assert "mine" in svg_of(both)


def test_two_charts_side_by_side_are_what_they_are_alone(capfd):
    both = svg_of(memory_chart(ARTICLE) | timeline_chart(ARTICLE.but(language="zh")))
    for alone in (memory_chart(ARTICLE), timeline_chart(ARTICLE.but(language="zh"))):
        assert {text for text, *_ in texts_of(svg_of(alone))[0]} <= {text for text, *_ in texts_of(both)[0]}
    assert "WARN" not in capfd.readouterr().err


def test_bars_add_up_to_the_model_and_are_in_the_order_and_colours_of_the_encoding():
    for setup, theme in ((ARTICLE, "light"), (ARTICLE.but(unit="GB", recipe="adam-main-grads"), "dark")):
        bars = rows_of(memory_chart(setup, theme=theme), "bar", "state")
        model = memory_rows(setup)
        assert [
            (row["stage"], row["state"], row["nbytes"]) for row in sorted(bars, key=lambda r: r["stage"])
        ] == [(row["stage"], row["state"], row["nbytes"]) for row in model]
        for row in bars:
            assert row["colour"] == ENCODING["states"][row["state"]][theme]
            assert row["end"] - row["start"] == pytest.approx(in_unit(row["nbytes"], setup.unit))
        for total in summary(setup):
            mine = [row for row in bars if row["stage"] == total["stage"]]
            assert max(row["end"] for row in mine) == pytest.approx(in_unit(total["peak"], setup.unit))


def test_the_bars_keep_the_scale_of_the_largest_and_the_peak_is_pale_with_a_dashed_edge():
    spec = memory_chart(ARTICLE).to_dict()
    rest, peak = [layer for layer in spec["layer"] if layer["mark"]["type"] == "bar"]
    assert rest["encoding"]["x"]["scale"]["domain"] == [
        0,
        max(row["peak"] for row in summary(ARTICLE)) / 2**30,
    ]
    assert "strokeDash" in peak["mark"]
    assert peak["mark"]["fillOpacity"] < 0.5
    assert "strokeDash" not in rest["mark"]
    assert "dashed" in say("chart_bars_note", "en")


def test_the_capacity_line_is_where_the_capacity_is_and_is_left_out_past_the_edge():
    (row,) = rows_of(memory_chart(ARTICLE), "rule", "end")
    assert row["end"] * 2**30 == 81089 * 2**20
    small = memory_chart(Setup(N=1e9, n=64))
    assert rows_of(small, "rule", "end") == []
    assert "H100 80 GB holds 79.2 GiB \u2192" in svg_of(small)


def test_spans_are_the_rows_of_the_timeline():
    for stage in (0, 1, 2, 3):
        setup = ARTICLE.but(stage=stage, layers=5)
        spans = rows_of(timeline_chart(setup), "rect", "index")
        rows = timeline_rows(setup)
        end = step_of(setup, stage).seconds
        scale = spans[-1]["end"] / rows[-1]["end"]
        assert scale in (pytest.approx(1e3), pytest.approx(1e6))
        assert len(spans) == len(rows)
        for span, row in zip(spans, rows, strict=True):
            assert (span["op"], span["group"], span["nbytes"]) == (row["op"], row["group"], row["nbytes"])
            assert span["start"] == pytest.approx(row["start"] * scale)
            assert span["end"] == pytest.approx(row["end"] * scale)
            assert span["colour"] == ENCODING["ops"][span["op"]]["light"]
        (domain,) = {
            tuple(layer["encoding"]["x"]["scale"]["domain"])
            for layer in timeline_chart(setup).to_dict()["layer"]
            if layer["encoding"].get("x", {}).get("field") == "start"
        }
        assert domain[0] == 0
        assert domain[1] == pytest.approx(nice_above(end) * scale)


def test_what_stays_inside_a_node_is_thin_where_something_leaves_it():
    hybrid = Setup(system="fsdp2", n=64, shard_size=8, layers=4)

    def heights(setup):
        spans = rows_of(timeline_chart(setup), "rect", "index")
        return {row["op"]: row["y2"] - row["y"] for row in spans if row["stream"] != "compute"}

    mixed, between = heights(hybrid), heights(hybrid.but(shard_size=None))
    assert mixed["all_gather"] == mixed["reduce_scatter"] < 0.7 * mixed["all_reduce"]
    assert between["all_gather"] > 1.5 * mixed["all_gather"]
    svg = svg_of(timeline_chart(hybrid))
    assert "thin: 450 GB/s over NVLink 4" in svg


def test_a_tooltip_says_what_how_much_how_long_and_what_it_waits_for():
    spans = rows_of(timeline_chart(ARTICLE), "rect", "index")
    gather = next(row for row in spans if row["op"] == "all_gather" and row["group"] == "layer 5")
    assert gather["what"] == "all-gather \u00b7 layer 5 \u00b7 forward"
    assert gather["size"] == "447 MiB"
    assert gather["waits"] == "forward \u00b7 layer 3"  # prefetch 1: the layer before the last must be freed
    assert gather["exposed"].endswith("s")


def test_the_shades_are_all_the_waiting_there_is():
    slow = ARTICLE.but(link="Ethernet-25G", gpus_per_node=1)
    chart = timeline_chart(slow)
    shades = [row for row in rows_of(chart, "rect", "start") if "op" not in row]
    total = summary(slow)[3]
    scale = rows_of(chart, "rect", "index")[-1]["end"] / timeline_rows(slow)[-1]["end"]
    waited = sum(row["end"] - row["start"] for row in shades) / scale
    assert waited == pytest.approx(total["step"] - total["compute"])


def test_layer_numbers_are_thinned_out_where_they_do_not_fit():
    def numbers(setup):
        rows = rows_of(timeline_chart(setup), "text", "start", "op")
        return [int(row["text"]) for row in rows if row["op"] in ("forward", "backward")]

    assert numbers(Setup(layers=4, stage=0)) == [0, 1, 2, 3, 3, 2, 1, 0]
    many = numbers(Setup(layers=126))
    assert 4 <= len(many) <= 40
    assert {number % 10 for number in many} == {0}


def test_a_timeline_of_1024_layers_is_drawn_whole_and_16384_layer_steps_are_thinned_out():
    spans = rows_of(timeline_chart(Setup(layers=1024)), "rect", "index")
    assert len(spans) == len(timeline_rows(Setup(layers=1024))) > 5000
    most = timeline_chart(Setup(layers=1024, accumulation=16))
    assert len(rows_of(most, "rect", "index")) < 6000
    assert len(most.to_json()) < 5e6


def test_totals_fall_with_n_down_to_a_floor_which_is_what_stays_whole():
    chart = scaling_chart(ARTICLE)
    lines = rows_of(chart, "line", "stage", "n", "nbytes")
    for stage in range(4):
        mine = [row for row in lines if row["stage"] == stage]
        assert [row["n"] for row in mine] == [2**k for k in range(11)]
        assert all(later["rest"] <= row["rest"] for row, later in itertools.pairwise(mine))
    floors = {row["stage"]: row["nbytes"] for row in rows_of(chart, "rule", "rest", "flat")}
    assert floors == {1: 4 * 7.5e9, 2: 2 * 7.5e9}
    here = {row["stage"]: row["nbytes"] for row in lines if row["n"] == 64}
    assert here == {row["stage"]: row["rest"] for row in summary(ARTICLE)}
    line, _ = (layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == "line")
    assert (line["encoding"]["x"]["scale"]["type"], line["encoding"]["y"]["scale"]["type"]) == ("log", "log")
    assert line["encoding"]["x"]["scale"]["domain"] == [1, 1024]


def test_at_its_peak_a_stage_falls_to_the_buffers_that_do_not():
    # two layers of 16-bit parameters gathered, one of 16-bit gradients on its way
    chart = scaling_chart(ARTICLE.but(stage=3, layers=32, prefetch=1))
    peaks = rows_of(chart, "line", "floor")
    assert [row["n"] for row in peaks] == [2**k for k in range(11)]
    assert {row["floor"] for row in peaks[1:]} == {3 * 2 * 7.5e9 / 32}
    for row in peaks[1:]:
        assert row["rest"] * 2**30 == pytest.approx(16 * 7.5e9 / row["n"] + row["floor"])
    assert rows_of(scaling_chart(ARTICLE.but(stage=0)), "line", "floor") == []


def test_shards_over_a_group_are_a_floor_from_the_size_of_the_group_on():
    # by hand: 16 bytes of 7.5e9 parameters over 8 ranks, whatever n
    setup = Setup(system="fsdp2", n=64, shard_size=8)
    chart = scaling_chart(setup)
    floors = {row["stage"]: (row["nbytes"], row["flat"]) for row in rows_of(chart, "rule", "rest", "flat")}
    assert floors[2] == floors[3] == (16 * 7.5e9 / 8, False)
    assert [text for text, *_ in texts_of(svg_of(chart))[0]].count("floor 14.0 GiB") == 2
    assert 12 in [
        row["n"] for row in rows_of(scaling_chart(setup.but(n=48, shard_size=12)), "line", "stage", "n")
    ]


def test_n_runs_to_1024_or_four_times_n_as_far_as_a_setup_goes():
    assert powers_to(1024)[-1] == 1024
    assert powers_to(4 * 300)[-1] == 2048
    assert powers_to(4 * 10_000_000)[-1] == 10_000_000
    assert 300 in [row["n"] for row in rows_of(scaling_chart(Setup(n=300)), "line", "stage", "n")]


def test_a_state_that_is_cut_is_one_slice_on_each_gpu_and_the_slices_make_the_whole():
    setup = ARTICLE.but(n=4)
    slices = rows_of(ladder_chart(setup), "rect", "shard")
    for stage in range(4):
        for gpu in range(4):
            held = sum(row["nbytes"] for row in slices if (row["stage"], row["gpu"]) == (stage, gpu))
            assert held == pytest.approx(summary(setup)[stage]["rest"])
    momentum = sorted(
        (row for row in slices if (row["stage"], row["state"]) == (1, "momentum")), key=lambda r: r["gpu"]
    )
    cuts = [(row["x"] - row["gpu"], row["x2"] - row["gpu"]) for row in momentum]
    assert cuts[0][0] == pytest.approx(0.05)
    assert cuts[-1][1] == pytest.approx(0.95)
    for (_, end), (start, _) in itertools.pairwise(cuts):
        assert end == pytest.approx(start)
    whole = {(row["stage"], row["state"]) for row in slices if row["shard"] == "1"}
    assert [len({state for at, state in whole if at == stage}) for stage in range(4)] == [5, 2, 1, 0]


@pytest.mark.parametrize(
    ("n", "size", "drawn"), [(1, "screen", 1), (8, "screen", 8), (64, "slide", 4), (8, "paper", 4)]
)
def test_the_ladder_draws_a_handful_of_gpus_and_says_so(n, size, drawn):
    chart = ladder_chart(Setup(n=n), size=size)
    assert {row["gpu"] for row in rows_of(chart, "rect", "shard")} == set(range(drawn))
    assert (f"drawn for {drawn} GPUs" in svg_of(chart)) == (drawn < n)


def test_the_matrix_says_what_is_cut_what_it_weighs_what_it_sends_and_when():
    def cells(**fields):
        return [text for text, *_ in texts_of(svg_of(matrix_chart(ARTICLE.but(**fields))))[0]]

    said = cells()
    for formula in ("2N + 2N + 12N", "2N + 2N + 12N/n", "2N + (2N + 12N)/n", "(2N + 2N + 12N)/n"):
        assert formula in said
    assert said.count("2N elements, 1\u00d7") == 3
    assert said.count("3N elements, 1.5\u00d7") == 1
    assert said.count("optimizer states") == 3
    assert "does not fit" in said
    assert {"29.2 GiB", "peak 29.2 GiB"} <= set(said)
    assert cells(n=1).count("nothing to send") == 4


def test_the_selected_stage_is_bold_and_on_a_band():
    for chart in (memory_chart, matrix_chart):
        bold = [
            re.search(r">([^<]+)</text>", text)[1]
            for text in re.findall(
                r'<text[^>]*font-weight="bold"[^>]*>[^<]+</text>', svg_of(chart(ARTICLE.but(stage=1)))
            )
        ]
        assert "Stage 1" in bold
        assert "29.2 GiB" in bold
        assert "Stage 2" not in bold
        assert THEMES["light"]["band"] in svg_of(chart(ARTICLE.but(stage=1)))


def test_neighbours_in_a_bar_differ_in_grey_too():
    def grey(colour):
        return sum(part * int(colour[at : at + 2], 16) for part, at in ((0.299, 1), (0.587, 3), (0.114, 5)))

    states = [row["state"] for row in memory_rows(ARTICLE) if row["stage"] == 0 and row["when"] == "rest"]
    greys = [grey(ENCODING["states"][state]["light"]) for state in states]
    assert all(abs(one - other) > 25 for one, other in itertools.pairwise(greys))
    (bars, _) = [
        x for x in memory_chart(ARTICLE, theme="print").to_dict()["layer"] if x["mark"]["type"] == "bar"
    ]
    assert bars["encoding"]["stroke"]["value"] == "#000000"


@each_chart
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"theme": "x"}, "theme must be light, dark or print, got 'x'"),
        ({"size": "huge"}, "size must be screen, slide or paper, got 'huge'"),
        ({"theme": None}, "theme must be light, dark or print, got None"),
        ({"size": ["paper"]}, r"size must be screen, slide or paper, got \['paper'\]"),
    ],
)
def test_a_wrong_theme_or_size_is_refused_with_its_rule(chart, arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        chart(ARTICLE, **arguments)


@each_chart
def test_without_altair_one_line_says_how_to_get_it(chart, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r'^charts need Altair: pip install "zerowidget\[charts\]"$'):
        chart(ARTICLE)


def test_importing_the_charts_does_not_import_altair():
    code = "import sys, zerowidget, zerowidget.charts, zerowidget.export; print({'altair', 'vl_convert'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


HOSTILE = (
    "</script><img onerror=alert(1)> \"quoted\" 'single' \\n {x} \u05e9\u05dc\u05d5\u05dd \U0001f680 <!--"
)


@each_chart
def test_hostile_words_stay_text(chart, monkeypatch):
    shown = (
        "parameters",
        "stage_0",
        "lane_compute",
        "chart_matrix_sharded",
        "bars_title",
        "n",
        "holds",
        "chart_gpu",
    )
    for key in shown:
        monkeypatch.setitem(words.WORDS, key, {"en": HOSTILE, "zh": HOSTILE})
    made = chart(ARTICLE)
    assert json.loads(made.to_json())["layer"]
    svg = svg_of(made)
    root = ET.fromstring(svg)
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
        "svg",
        "g",
        "path",
        "rect",
        "text",
        "tspan",
        "line",
        "defs",
    }
    assert "<img" not in svg
    assert "</script>" not in svg
    assert any(
        "onerror" in (node.text or "") for node in root.iter() if node.tag in (f"{SVG}text", f"{SVG}tspan")
    )


def test_a_text_is_broken_at_spaces_or_between_chinese_characters():
    assert wrapped("one two three", 10.0, 40.0) == ["one two", "three"]
    assert wrapped("2N + (2N + 12N)/n", 10.0, 60.0) == ["2N + (2N", "+ 12N)/n"]
    assert wrapped("\u653e\u5f97\u4e0b\uff1a\u6700\u7b80\u5355", 10.0, 40.0) == [
        "\u653e\u5f97\u4e0b\uff1a",
        "\u6700\u7b80\u5355",
    ]
    assert wrapped("indivisible", 10.0, 5.0) == ["indivisible"]
    assert wrapped("", 10.0, 5.0) == [""]


def test_places_are_moved_as_little_as_it_takes():
    assert apart([10.0, 50.0], 20.0, 0.0, 100.0) == [10.0, 50.0]
    assert apart([50.0, 50.0, 50.0], 20.0, 0.0, 100.0) == [50.0, 70.0, 90.0]
    assert apart([95.0, 99.0], 20.0, 0.0, 100.0) == [80.0, 100.0]


def test_an_axis_has_round_numbers():
    assert ticks(1000.0, 8) == [0, 200, 400, 600, 800, 1000]
    assert ticks(0.3, 4) == [0, 0.1, 0.2, 0.3]
    assert nice_above(0.95) == 1.0
    assert nice_above(1.0) == 1.0
    assert nice_above(8.4) == 10.0


def test_ink_can_be_read_on_its_colour():
    assert ink_on("#ffffff") == "#16181c"
    assert ink_on("#000000") == "#ffffff"
