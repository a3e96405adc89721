"""The widget in a real JupyterLab: the browser and the kernel agree."""

from pathlib import Path

import nbformat
import pytest

QUICKSTART = Path(__file__).parents[2] / "examples/01_quickstart.ipynb"
RECORD_VIEWS = """() => {
  window.shadows = [];
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const shadow = attach.call(this, options);
    window.shadows.push(shadow);
    return shadow;
  };
}"""
RUN = """async (code) => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  let text = "";
  const future = kernel.requestExecute({ code });
  future.onIOPub = (message) => { text += message.content.text ?? message.content.evalue ?? ""; };
  await future.done;
  return text.trim();
}"""


def pictures(page):
    """Headlines of the explorers, those on the page and those that were taken out of it."""
    return page.evaluate(
        """() => {
          const ours = shadows.filter((shadow) => shadow.querySelector(".zw h3"));
          const headline = (shadow) => shadow.querySelector("h3").textContent;
          return {
            live: ours.filter((shadow) => shadow.host.isConnected).map(headline),
            gone: ours.filter((shadow) => !shadow.host.isConnected).map(headline),
          };
        }"""
    )


@pytest.fixture
def notebook(tmp_path):
    cells = ["from zerowidget import ZeroExplorer\nex = ZeroExplorer(N=7.5e9, n=64)\nex", "ex"]
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    content.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "round_trip.ipynb"
    nbformat.write(content, path)
    return path


def test_browser_and_kernel_agree(page, run_notebook, notebook, drag_gpus_to_1024):
    page.add_init_script(f"({RECORD_VIEWS})()")
    run_notebook(page, notebook)
    page.wait_for_function("shadows.filter((s) => s.querySelector('.zw h3')).length === 2")

    # a drag in the browser is seen by Python
    drag_gpus_to_1024(page)
    page.wait_for_timeout(300)
    assert page.evaluate(RUN, "print(ex.n)") == "1024"

    # what Python sets is seen in both views
    assert page.evaluate(RUN, "ex.stage = 1; ex.n = 64") == ""
    page.wait_for_function(
        "shadows.filter((s) => s.querySelector('h3')?.textContent === 'Stage 1 keeps 29.2 GiB on each GPU').length === 2"
    )

    # a bad assignment says why, and changes nothing
    error = "n must be a whole number, got 2.5"
    assert error in page.evaluate(RUN, "ex.n = 2.5")
    assert page.evaluate(RUN, "print(ex.n)") == "64"

    # running the second cell again and again leaves one view of it, and none that still listens
    for _ in range(5):
        page.evaluate(
            """async () => {
              const { content, sessionContext } = jupyterapp.shell.currentWidget;
              content.activeCellIndex = 1;
              await jupyterapp.commands.execute("notebook:run-cell");
            }"""
        )
    page.wait_for_function("shadows.filter((s) => s.querySelector('.zw h3')).length === 7")
    page.wait_for_function(
        "shadows.filter((s) => s.querySelector('.zw h3') && s.host.isConnected).length === 2"
    )
    assert page.evaluate(RUN, "ex.stage = 2") == ""
    page.wait_for_function(
        "shadows.filter((s) => s.host.isConnected && s.querySelector('h3')?.textContent.startsWith('Stage 2')).length === 2"
    )
    assert pictures(page)["gone"] == ["Stage 1 keeps 29.2 GiB on each GPU"] * 5


def test_lab_themes_are_followed(page, run_notebook, notebook):
    run_notebook(page, notebook)
    root = page.locator(".zw").first
    root.wait_for()
    assert "dark" not in root.get_attribute("class")
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    page.locator(".zw.dark").first.wait_for()
    page.evaluate("jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })")
    page.locator(".zw:not(.dark)").first.wait_for()


def test_the_quickstart_runs_from_top_to_bottom(page, run_notebook):
    run_notebook(page, QUICKSTART)
    page.locator(".zw h3").first.wait_for()
