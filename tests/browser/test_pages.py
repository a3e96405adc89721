"""The live picture without a notebook: pages, frames and decks, with the network off."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zerowidget import Setup, memory_rows, summary, timeline_rows
from zerowidget.html import Slide, fragment, frame, to_html

ROOT = Path(__file__).parents[2]
ARTICLE = Setup(N=7.5e9, n=64)
STORY = [{"stage": 0}, {"stage": 1, "n": 8}, {"prefetch": 4, "stage": 3}]


@pytest.fixture
def show(page, bundle_code, tmp_path):
    """Open HTML from a file and wait for the picture."""

    def show(html, name="page.html", wait=True, fragment=""):
        path = tmp_path / name
        path.write_text(html, encoding="utf-8")
        page.goto(path.as_uri() + fragment)
        if wait:
            page.locator(".zw h3").first.wait_for()
        return page

    return show


def headline(page, index=0):
    return page.locator(".zw h3").nth(index).inner_text()


def frame_drawn(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_saved_page_lives_from_a_file_as_it_was_saved(show):
    page = show(to_html(Setup(N=7.5e9, n=64, stage=1, prefetch=3, gpu="A100-80GB")))
    assert headline(page) == "Stage 1 keeps 29.2 GiB on each GPU"
    assert page.locator(".control.gpu select").input_value() == "A100-80GB"
    slider = page.locator(".control.n input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    frame_drawn(page)
    assert f"{summary(Setup(N=7.5e9, n=32, stage=1))[1]['rest'] / 2**30:.1f} GiB" in headline(page)


def test_pages_are_small_and_ask_for_nothing():
    page = to_html(ARTICLE)
    assert len(page.encode()) < 60_000
    assert re.findall(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org)", page) == []


def test_explorers_on_one_page_share_the_script_and_nothing_else(show):
    html = to_html(ARTICLE, Setup(N=70e9, n=512, language="zh"))
    assert html.count("DecompressionStream") == 1
    page = show(html)
    page.wait_for_function("document.querySelectorAll('[data-started]').length === 2")
    assert headline(page, 1) == "阶段 3：每个 GPU 常驻 2.0 GiB"
    page.locator(".control.stage label").nth(0).click()
    assert headline(page, 0).startswith("Stage 0")
    assert headline(page, 1).startswith("阶段 3")


def test_fragments_may_each_bring_the_script(show):
    body = "".join(f"<article>{fragment(Setup(N=N, n=8))}</article>" for N in (1e9, 2e9, 3e9))
    page = show(f"<!doctype html><meta charset=utf-8>{body}")
    page.wait_for_function("document.querySelectorAll('[data-started]').length === 3")
    assert page.evaluate("document.scripts.length") == 4  # three loaders, the code once


def test_without_scripts_a_picture_and_the_numbers_remain(new_page, bundle_code, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(to_html(ARTICLE), encoding="utf-8")
    page = new_page(java_script_enabled=False)
    page.goto(path.as_uri())
    text = page.locator("body").inner_text()
    for number in ("111.8 GiB", "29.2 GiB", "15.5 GiB", "1.7 GiB", "41.3 GiB (1.5×)"):
        assert number in text
    assert page.locator("svg rect").count() == sum(1 for _ in memory_rows(ARTICLE))
    drawn = page.locator("svg path").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    assert sum(d.count("M") for d in drawn) == len(timeline_rows(ARTICLE))


def test_a_sandboxed_frame_is_alive(show):
    page = show(f"<!doctype html><meta charset=utf-8>{frame(ARTICLE, height=700)}", wait=False)
    inside = page.frame_locator("iframe")
    inside.locator(".zw h3").wait_for()
    inside.locator(".control.stage label").nth(2).click()
    assert inside.locator(".zw h3").inner_text() == "Stage 2 keeps 15.5 GiB on each GPU"
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts allow-downloads"


def test_a_story_is_walked_by_buttons_and_by_a_presenters_keys(show):
    page = show(to_html(ARTICLE, steps=STORY))
    place = page.locator(".story .note")
    assert place.inner_text() == "1 of 4"
    page.keyboard.press("PageDown")
    frame_drawn(page)
    assert headline(page).startswith("Stage 0")
    page.keyboard.press("ArrowRight")
    frame_drawn(page)
    assert (
        headline(page)
        == f"Stage 1 keeps {summary(Setup(N=7.5e9, n=8))[1]['rest'] / 2**30:.1f} GiB on each GPU"
    )
    page.locator(".story button").last.click()
    frame_drawn(page)
    assert place.inner_text() == "4 of 4"
    assert page.locator(".control.n input[type=text]").input_value() == "8"  # steps build on each other
    assert page.locator(".control.prefetch input[type=text]").input_value() == "4"
    assert page.locator(".story button").last.is_disabled()
    for _ in range(5):
        page.keyboard.press("PageUp")
    frame_drawn(page)
    assert place.inner_text() == "1 of 4"
    assert headline(page) == "Stage 3 keeps 1.7 GiB on each GPU"


def test_an_address_restores_the_state_and_lies_are_passed_over(show):
    page = show(to_html(ARTICLE), fragment="#zerowidget?n=8&stage=1&gpu=%22H1000%22&evil=1&N=%22x%22")
    assert (
        headline(page)
        == f"Stage 1 keeps {summary(Setup(N=7.5e9, n=8))[1]['rest'] / 2**30:.1f} GiB on each GPU"
    )
    assert page.locator(".control.gpu select").input_value() == "H100-80GB"


def action(page, name):
    page.get_by_label("Save or copy").click()
    return page.locator(f"[data-action={name}]")


def downloaded(page, name, tmp_path):
    item = action(page, name)
    with page.expect_download() as download:
        item.click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def copied(page, name):
    action(page, name).click()
    page.get_by_text("copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def reopened(page, link):
    page.goto("about:blank")
    page.goto(link)
    page.locator(".zw h3").wait_for()
    return headline(page)


def test_the_menu_saves_rows_as_the_model_has_them(show, tmp_path):
    page = show(to_html(ARTICLE))
    content = json.loads(downloaded(page, "save_json", tmp_path).read_text(encoding="utf-8"))
    assert content["memory"] == memory_rows(ARTICLE)
    assert content["summary"] == summary(ARTICLE)
    assert content["timeline"] == timeline_rows(ARTICLE)
    lines = downloaded(page, "save_memory", tmp_path).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "stage,state,device,when,nbytes,falls"
    assert len(lines) == 1 + len(memory_rows(ARTICLE))
    assert float(lines[1].split(",")[-2]) == memory_rows(ARTICLE)[0]["nbytes"]


def test_the_menu_saves_the_picture_as_it_is_on_screen(show, tmp_path, new_page):
    page = show(to_html(Setup(N=7.5e9, n=64, stage=2)))
    path = downloaded(page, "save_svg", tmp_path)
    text = path.read_text(encoding="utf-8")
    for word in ("Stage 2 keeps 15.5 GiB on each GPU", "29.2 GiB", "gradients to reduce", "Does it fit?"):
        assert word in text
    for leftover in ("var(--", "foreignObject", "class=", "<script", "<style", "color(", "rgba("):
        assert leftover not in text
    for hidden in (
        "Arrow keys",
        "arrow",
        "Parameters N",
        "Zoom to",
    ):  # what is not on screen, and the handles
        assert f">{hidden}" not in text
    alone = new_page()
    alone.goto(path.as_uri())
    drawn = (
        alone.locator("svg svg")
        .first.locator("path")
        .evaluate_all("all => all.map(p => getComputedStyle(p).fill)")
    )
    assert "rgb(61, 122, 194)" in drawn  # parameters, as data/encoding.json has them
    png = downloaded(page, "save_png", tmp_path).read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") > 2000


def test_the_menu_copies_a_call_and_a_link_that_restore_the_state(show, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(to_html(ARTICLE))
    page.locator(".control.stage label").nth(1).click()
    assert copied(page, "copy_call") == "ZeroExplorer(N=7.5e9, n=64, stage=1)"
    page.keyboard.press("Escape")
    assert reopened(page, copied(page, "copy_link")) == "Stage 1 keeps 29.2 GiB on each GPU"


def test_print_is_the_picture_on_one_page(show, tmp_path):
    page = show(to_html(ARTICLE))
    content = page.pdf(format="A4", landscape=True)
    assert len(re.findall(rb"/Type\s*/Page\b", content)) == 1


def test_a_link_says_all_that_its_page_has_otherwise(show, page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show(to_html(Setup(N=7.5e9, n=64, stage=1, unit="GB")))
    page.locator(".control.stage label").nth(3).click()
    page.locator(".control.unit label").nth(0).click()
    assert reopened(page, copied(page, "copy_link")) == "Stage 3 keeps 1.7 GiB on each GPU"
    page.evaluate("location.hash = '#zerowidget?stage=2'")  # pasted into the open page
    page.get_by_role("heading", name="Stage 2 keeps 16.6 GB on each GPU").wait_for()


def test_an_address_that_does_not_go_with_its_page_is_passed_over(show):
    page = show(to_html(Setup(layers=1024)), fragment="#zerowidget?accumulation=256")
    assert headline(page) == "Stage 3 keeps 1.7 GiB on each GPU"


def test_a_broken_fragment_keeps_its_static_picture_and_harms_no_other(show):
    broken = fragment(ARTICLE, script=False).replace(
        "{&quot;setup&quot;:{}", "{&quot;setup&quot;:{&quot;stage&quot;:9}", 1
    )
    torn = fragment(ARTICLE, script=False).replace("&quot;steps&quot;:[]}", "", 1)
    page = show(f"<!doctype html><meta charset=utf-8>{broken}{torn}{fragment(Setup(N=1e9, n=8))}")
    assert page.locator(".zw h3").count() == 1
    assert page.locator(".zerowidget-static svg").count() == 2


def test_keys_with_modifiers_are_the_browsers(show):
    page = show(to_html(ARTICLE, steps=STORY))
    page.keyboard.press("Control+ArrowRight")
    page.keyboard.press("Alt+PageDown")
    frame_drawn(page)
    assert page.locator(".story .note").inner_text() == "1 of 4"
    page.keyboard.press("Space")
    frame_drawn(page)
    assert page.locator(".story .note").inner_text() == "2 of 4"
    page.keyboard.press("Shift+Space")
    frame_drawn(page)
    assert page.locator(".story .note").inner_text() == "1 of 4"


@pytest.mark.parametrize(("width", "height"), [(960, 560), (1600, 700)])
def test_a_low_frame_shows_all_of_the_picture(show, width, height):
    page = show(
        f"<!doctype html><meta charset=utf-8><div style='width:{width}px'>{frame(ARTICLE, height=height, steps=STORY)}</div>",
        wait=False,
    )
    inside = page.frame_locator("iframe")
    inside.locator(".zw h3").wait_for()
    frame_drawn(page)
    bottom = inside.locator(".verdict").evaluate("e => e.getBoundingClientRect().bottom")
    assert 0.8 * height < bottom < height + 0.5


def test_a_frame_has_the_theme_it_is_given(new_page, bundle_code, tmp_path):
    page = new_page(color_scheme="dark")
    path = tmp_path / "page.html"
    light, dark = frame(ARTICLE), frame(ARTICLE, theme="dark")
    path.write_text(f"<!doctype html><meta charset=utf-8>{light}{dark}", encoding="utf-8")
    page.goto(path.as_uri())
    for index, wanted in enumerate(("zw", "zw dark")):
        root = page.frame_locator("iframe").nth(index).locator(".zw")
        root.locator("h3").wait_for()
        assert root.get_attribute("class").split(" narrow")[0] == wanted
    with pytest.raises(ValueError, match="theme must be auto, light or dark, got 'sepia'"):
        frame(ARTICLE, theme="sepia")


@pytest.mark.parametrize("deep", [{"layers": 1024}, {"layers": 64, "accumulation": 256, "recompute": True}])
def test_a_page_stays_small_however_long_the_step(deep):
    assert len(to_html(Setup(**deep)).encode()) < 60_000


EVIL = "</script><img src=x onerror=alert(1)><!-- \"' \u202e עברית 😀"


def test_names_are_text_wherever_they_go(show, monkeypatch):
    from zerowidget import specs

    monkeypatch.setitem(specs.GPUS["H100-80GB"], "label", EVIL)
    monkeypatch.setitem(specs.RECIPES["adam-mixed"]["label"], "en", EVIL)
    html = to_html(ARTICLE, title=EVIL)
    assert "<img src=x" not in html
    assert "<!-- " not in html
    page = show(html)
    assert page.title() == " ".join(EVIL.split())
    assert page.locator("img").count() == 0
    framed = show(f"<!doctype html><meta charset=utf-8>{frame(ARTICLE)}", wait=False)
    framed.frame_locator("iframe").locator(".zw h3").wait_for()


# a reveal.js deck


@pytest.fixture(scope="session")
def deck(tmp_path_factory, bundle_code):
    path = tmp_path_factory.mktemp("deck") / "deck.html"
    subprocess.run([sys.executable, str(ROOT / "examples/slides/build.py"), str(path)], check=True)
    return path


def open_deck(new_page, deck):
    """The deck with slides that stand as soon as they are shown: a box read in a
    moving slide is elsewhere when it is clicked."""
    page = new_page(viewport={"width": 1600, "height": 900})
    page.goto(deck.as_uri())
    page.wait_for_function("window.Reveal?.isReady()")
    page.evaluate("Reveal.configure({transition: 'none', backgroundTransition: 'none'})")
    return page


def slide(page):
    return page.evaluate("Reveal.getIndices().h")


def test_a_deck_holds_live_explorers(new_page, deck):
    page = open_deck(new_page, deck)
    page.wait_for_function("document.querySelectorAll('[data-started]').length === 2")
    page.keyboard.press("ArrowRight")
    assert slide(page) == 1

    # hidden at first, drawn at its size when shown
    first = page.locator("[data-started]").first
    first.locator(".zw h3").wait_for()
    width = float(first.locator("svg.bars").get_attribute("viewBox").split()[2])
    assert 1000 < width < 1250

    # a drag is as accurate as the slide is scaled
    scale = page.evaluate("Reveal.getScale()")
    assert scale > 1.1
    slider = first.locator(".control.n input[type=range]")
    x, y, wide, high = slider.evaluate(
        "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
    )
    thumb = 16 * scale
    at = lambda power: x + thumb / 2 + (wide - thumb) * power / 14  # noqa: E731
    page.mouse.move(at(6), y + high / 2)
    page.mouse.down()
    page.mouse.move(at(9), y + high / 2, steps=4)
    page.mouse.up()
    assert first.locator(".control.n input[type=text]").input_value() == "512"

    # its keys are its own, and the deck's are the deck's
    slider.focus()
    page.keyboard.press("ArrowRight")
    frame_drawn(page)
    assert first.locator(".control.n input[type=text]").input_value() == "1024"
    assert slide(page) == 1
    first.locator("svg.lanes").focus()
    page.keyboard.press("ArrowRight")
    assert slide(page) == 1
    page.keyboard.press("PageDown")  # on the explorer: its story
    frame_drawn(page)
    assert first.locator(".zw h3").inner_text().startswith("Stage 1")
    assert slide(page) == 1
    page.mouse.click(5, 5)
    page.evaluate("document.activeElement?.blur()")
    page.keyboard.press("ArrowRight")
    assert slide(page) == 2


def test_a_tooltip_in_a_scaled_slide_is_beside_its_span(new_page, deck):
    page = open_deck(new_page, deck)
    page.keyboard.press("ArrowRight")
    first = page.locator("[data-started]").first
    first.locator(".zw h3").wait_for()
    x, y, wide, high = first.locator("svg.lanes").evaluate(
        "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
    )
    page.mouse.move(x + wide * 0.5, y + high * 42 / 176)
    box = first.locator(".tip").evaluate(
        "e => { const b = e.getBoundingClientRect(); return [b.x, b.right, b.bottom]; }"
    )
    assert box[0] <= x + wide * 0.5 <= box[1]
    assert abs(box[2] - (y + high * 26 / 176)) < 25


def test_an_explorer_in_a_framed_slide_is_alive(new_page, deck):
    page = open_deck(new_page, deck)
    page.evaluate("Reveal.slide(3)")
    inside = page.frame_locator("iframe")
    inside.locator(".zw h3").wait_for()
    box = "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
    left, top, *_ = page.locator("iframe").evaluate(box)
    x, y, wide, high = inside.locator(".control.stage label").nth(0).evaluate(box)
    scale = page.evaluate("Reveal.getScale()")
    page.mouse.click(left + (x + wide / 2) * scale, top + (y + high / 2) * scale)
    inside.locator(".zw h3", has_text="Stage 0 keeps 1043 GiB on each GPU").wait_for()


def test_a_slide_is_its_own_output():
    shown = Slide(ARTICLE, height=500, steps=STORY)
    bundle = shown._repr_mimebundle_()
    assert bundle["text/html"].startswith("<iframe")
    assert "height:500px" in bundle["text/html"]
    assert "111.8 GiB" in bundle["text/plain"]
    with pytest.raises(ValueError, match="height must be a whole number from 100 to 10000, got 5"):
        Slide(ARTICLE, height=5, steps=None)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        Slide(ARTICLE, height=500, steps=[{"n": 0}])
    with pytest.raises(TypeError, match="unknown field stag, did you mean stage"):
        Slide(ARTICLE, height=500, steps=[{"stag": 0}])
    with pytest.raises(TypeError, match="steps must hold one mapping of fields per step, got 1"):
        Slide(ARTICLE, height=500, steps=[1])
