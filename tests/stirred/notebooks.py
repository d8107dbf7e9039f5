"""Running the notebooks of `examples` without Jupyter; `python -m tests.stirred.notebooks` stores their outputs."""

import base64
import io
import json
import os
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run(code: str, namespace: dict[str, Any]) -> str:
    """The output of a piece of code."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_cells(book: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each cell of code, run in the folder of the notebooks, with its outputs as Jupyter stores them."""
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib.pyplot as plt

    namespace: dict[str, Any] = {}
    with chdir(EXAMPLES):
        for cell in book["cells"]:
            if cell["cell_type"] != "code":
                continue
            # Without a screen, the following lines show a figure.
            printed = run("".join(cell["source"]).replace("plt.show()", ""), namespace)
            outputs: list[dict[str, Any]] = []
            if printed:
                outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
            if plt.get_fignums():
                picture = io.BytesIO()
                plt.savefig(picture, format="png", dpi=70)
                plt.close("all")
                data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
                outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
            yield cell, outputs


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        book = json.loads(notebook.read_text("utf-8"))
        for number, (cell, outputs) in enumerate(run_cells(book), start=1):
            cell |= {"execution_count": number, "outputs": outputs}
        notebook.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", "utf-8")
