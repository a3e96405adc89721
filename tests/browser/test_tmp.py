import nbformat
def test_x(page, lab):
    o = nbformat.v4.new_output("execute_result", {"text/html": '<iframe srcdoc="&lt;p>hi" sandbox="allow-scripts">Stage 0 keeps 111.8 GiB\nStage 1 a &lt; b &amp; c</iframe>', "text/plain": "plain"}, execution_count=1)
    c = nbformat.v4.new_code_cell("1", outputs=[o], execution_count=1)
    o2 = nbformat.v4.new_output("execute_result", {"text/html": '<iframe srcdoc="&lt;p>hi" sandbox="allow-scripts"><table><tr><td>Stage 0</td><td>keeps 111.8 GiB</td></tr></table></iframe>', "text/plain": "plain"}, execution_count=1)
    c2 = nbformat.v4.new_code_cell("2", outputs=[o2], execution_count=1)
    nb = nbformat.v4.new_notebook(cells=[c, c2]); nb.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nb, lab.root/"i.ipynb")
    page.goto(lab.address("doc/tree/i.ipynb")+"&reset")
    out = page.locator(".jp-OutputArea-output"); out.nth(1).wait_for(state="attached")
    page.wait_for_timeout(3000)
    print(repr(out.nth(0).inner_html()), repr(out.nth(1).inner_html()))
