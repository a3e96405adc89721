"""Take the pictures of the README: `python scripts/picture.py` writes docs/images/*.png."""

import subprocess
import sys
import tempfile
from pathlib import Path

import bundle
import chromium
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
HOST = ROOT / "tests/browser/host.html"
THEMES = {
    "light": "body { margin: 12px; background: #fff }",
    "dark": "body { margin: 12px; background: #17191d; color: #e6e7ea; --jp-layout-color0: #17191d }",
}


def main() -> None:
    """Show the article's example, its timeline pointed at, and two systems side by side, in both themes."""
    bundle.build_if_stale(ROOT)
    code = (ROOT / bundle.BUNDLE).read_text(encoding="utf-8")
    images = ROOT / "docs/images"
    images.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find(), args=["--no-sandbox", "--disable-gpu"]
        )
        for theme, style in THEMES.items():
            page = browser.new_page(viewport={"width": 1180, "height": 400}, device_scale_factor=2)
            page.goto(HOST.as_uri())
            page.add_style_tag(content=style)
            page.evaluate("([code, state]) => start(code, state)", [code, {"N": 7.5e9, "n": 64}])
            page.evaluate("document.fonts.ready")
            lanes = page.locator("svg.lanes").bounding_box()
            page.set_viewport_size({"width": 1180, "height": 760})
            page.mouse.move(lanes["x"] + lanes["width"] * 0.53, lanes["y"] + 78)
            page.screenshot(path=images / f"explorer-{theme}.png", full_page=True)
            page.mouse.move(0, 0)
            page.evaluate("model.receive({ system: 'deepspeed', compare: 'fsdp2', layers: 8 })")
            page.wait_for_timeout(200)
            page.screenshot(path=images / f"systems-{theme}.png", full_page=True)
        with tempfile.TemporaryDirectory() as folder:
            deck = Path(folder) / "deck.html"
            subprocess.run([sys.executable, str(ROOT / "examples/slides/build.py"), str(deck)], check=True)
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.goto(deck.as_uri())
            page.wait_for_function("window.Reveal?.isReady()")
            page.keyboard.press("ArrowRight")
            page.locator("[data-started] .zw h3").first.wait_for()
            page.locator("[data-step='1']").first.click()
            page.screenshot(path=images / "deck.png")
        browser.close()


if __name__ == "__main__":
    main()
