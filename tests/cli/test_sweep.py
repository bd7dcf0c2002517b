"""A researcher's sweep from a file to a LaTeX table, figures and a page."""

import json

import numpy as np
import pytest

from credax.cli.main import main


@pytest.mark.slow
def test_a_sweep_of_a_table_from_file_to_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    lines = ["site;dose;when;response"]
    for i in range(80):
        dose = generator.normal(2, 1)
        site = ("north", "south")[i % 2]
        response = 3 * dose + 5 * (site == "north") + generator.normal(0, 0.3)
        dose, response = (f"{v:.3f}".replace(".", ",") for v in (dose, response))
        lines.append(f"{site};{dose if i % 9 else ''};{i % 28 + 1:02d}.03.2024;{response}")
    (tmp_path / "trial.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "grid.toml").write_text(
        "[all]\nepochs = 4\n[single]\nlearning_rate = [0.01, 0.03]\n[swag]\nsamples = 2\n"
    )
    words = "compare --data trial.csv --target response --kinds when=date-dmy --grid grid.toml"
    words = f"{words} --seeds 2 --quiet --out sweep".split()
    assert main([*words, "--figures", "svg"]) == 0, capsys.readouterr().err
    variants = ["single-epochs=4-learning_rate=0.01", "single-epochs=4-learning_rate=0.03"]
    variants.append("swag-epochs=4-samples=2")
    folders = {p.name for p in (tmp_path / "sweep").iterdir() if p.is_dir()}
    assert folders == {*(f"{name}_{seed}" for name in variants for seed in (0, 1)), "figures"}
    table = json.loads((tmp_path / "sweep" / "results.json").read_text())
    assert len(table["methods"]) == 3
    tex = (tmp_path / "sweep" / "results.tex").read_text()
    assert tex.count(r"\\") == 4  # the head and three variants
    assert tex.count(r"\pm") >= 3
    figures = {p.stem for p in (tmp_path / "sweep" / "figures").iterdir()}
    assert figures == {"interval_calibration", "risk_coverage", "learning_curves"}
    page = (tmp_path / "sweep" / "report.html").read_text()
    assert "learning rate 0.03" in page
    capsys.readouterr()
    # The same command again trains nothing and changes nothing.
    members = tmp_path / "sweep" / f"{variants[-1]}_1" / "members.safetensors"
    before = members.stat().st_mtime_ns
    assert main(words) == 0
    assert members.stat().st_mtime_ns == before
