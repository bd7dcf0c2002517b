"""Draws efficient-cost.svg: NLL of the experiment against costs measured on idle cores.

NLL is that of ``credax reproduce efficient-ensembles`` (three seeds), costs are ratios over one
network by ``python benchmarks/efficient_ensembles.py --cases cnn --rounds 7``.
"""

import tempfile
from pathlib import Path

from credax.experiments.cost_and_quality import cost_panels

# NLL, step and prediction over one network's.
MEASURED = {
    "Single network": (0.529, 1.0, 1.0),
    "Deep ensemble": (0.445, 3.25, 3.79),
    "BatchEnsemble": (0.469, 1.05, 3.26),
    "Rank-1 BNN": (0.527, 1.08, 3.92),
    "Node BNN": (0.498, 1.02, 3.25),
    "LP-BNN": (0.619, 1.07, 3.65),
    "Masksembles": (0.501, 0.97, 2.82),
    "Packed-Ensemble": (0.439, 1.08, 1.68),
    "MIMO": (0.641, 1.08, 0.84),
    "MNF": (0.548, 1.62, 5.05),
}


def main():
    nll, step, prediction = zip(*MEASURED.values(), strict=True)
    figure = cost_panels(list(MEASURED), list(nll), {"Training": step, "Prediction": prediction})
    with tempfile.TemporaryDirectory() as folder:
        drawn = figure.write(Path(folder)).read_text()
    Path(__file__).with_name("efficient-cost.svg").write_text(drawn)


if __name__ == "__main__":
    main()
