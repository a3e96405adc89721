"""ZeRO in marimo: whatever is dragged, the cells that use it run again.

marimo edit examples/04_marimo.py    # or: marimo run, for readers
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="full")


@app.cell
def _():
    import marimo as mo

    from zerowidget import ZeroExplorer

    return ZeroExplorer, mo


@app.cell
def _(mo):
    mo.md("""
    # ZeRO in marimo

    Drag a slider or click a bar: the sentence and the table below follow.
    """)
    return


@app.cell
def _(ZeroExplorer, mo):
    explorer = mo.ui.anywidget(ZeroExplorer(N=7.5e9, n=64))
    explorer
    return (explorer,)


@app.cell
def _(explorer, mo):
    # `explorer.value` holds the traits; reading it is what makes this cell run again.
    chosen = explorer.value
    mo.md(f"Stage **{chosen['stage']}** on **{chosen['n']}** GPUs: {explorer.widget.advice()['text']}")
    return


@app.cell
def _(explorer, mo):
    explorer.value
    mo.ui.table(explorer.widget.summary(), selection=None)
    return


if __name__ == "__main__":
    app.run()
