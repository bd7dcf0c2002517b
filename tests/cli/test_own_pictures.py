"""A vision engineer with a folder of pictures: from files to predictions and a report."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from credax.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore:1 of 81 pictures are left out")
ENDINGS = ("png", "jpg", "webp", "bmp")
RNG = np.random.default_rng(0)


def shape(path, kind):
    """A bright disc or bar on a dark ground, of any size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = map(int, RNG.integers(20, 40, 2))
    image = Image.new("RGB", (width, height), tuple(map(int, RNG.integers(0, 80, 3))))
    draw = ImageDraw.Draw(image)
    middle, colour = min(width, height) // 3, tuple(map(int, RNG.integers(170, 256, 3)))
    x, y = width // 2, height // 2
    if kind == "disc":
        draw.ellipse((x - middle, y - middle, x + middle, y + middle), fill=colour)
    else:
        draw.rectangle((x - 2, 0, x + 2, height), fill=colour)
    image.save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    for kind in ("bar", "disc"):
        for number in range(40):
            shape(folder / "shapes" / kind / f"{number}.{ENDINGS[number % 4]}", kind)
            if number < 6:
                shape(folder / "new" / f"{kind}_{number}.{ENDINGS[number % 4]}", kind)
    (folder / "shapes" / "bar" / "broken.png").write_bytes(b"nothing")
    command = ["fit", "deep-ensemble", "--data", str(folder / "shapes"), "--size", "8"]
    command += ["--network", "mlp", "--network-options", "hidden=(16,)", "--epochs", "40"]
    command += ["--learning-rate", "0.01", "--members", "2", "--out", str(folder / "run")]
    assert main(command) == 0
    return folder


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    config = json.loads(Path("run/config.json").read_text())
    config["dataset"]["path"] = config["task"]["data"] = str(tmp_path / "work/shapes")
    Path("run/config.json").write_text(json.dumps(config))


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_is_predicted_file_by_file(work, capsys):
    (Path("new") / "broken.png").write_bytes(b"nothing")
    assert main(["predict", "run", "new"]) == 0
    said = capsys.readouterr()
    assert "1 of 13 pictures are left out because they cannot be read: new/broken.png" in said.err
    rows = table("predictions.csv")
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    right = [Path(row["path"]).name.startswith(row["label"]) for row in rows]
    assert len(right) == 12
    assert np.mean(right) > 0.8
    assert {row["trust"] for row in rows} <= {"yes", "no"}
    files = [row["path"] for row in rows[:3]]
    assert main(["predict", "run", *files, "--out", "some.csv"]) == 0
    for one, two in zip(table("some.csv"), rows[:3], strict=True):
        assert (one["path"], one["label"]) == (two["path"], two["label"])
        assert float(one["confidence"]) == pytest.approx(float(two["confidence"]), rel=1e-4)


def test_report_evaluate_and_a_changed_folder(work, capsys):
    assert main(["report", "run"]) == 0
    page = Path("run/report.html").read_text()
    assert "8 by 8, red, green, blue; cut around the centre, bilinear" in page
    assert "1 left out: they cannot be read" in page
    assert main(["evaluate", "run", "--json"]) == 0
    before = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert before["accuracy"] > 0.8
    for kind in ("bar", "disc"):
        for path in Path("new").glob(f"{kind}_*"):
            path.rename(
                Path("new").joinpath(kind).mkdir(exist_ok=True) or f"new/{kind}/{path.name}"
            )
    assert main(["evaluate", "run", "--data", "new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8
    for number in range(40):
        shape(Path("shapes/bar") / f"{number}.{ENDINGS[number % 4]}", "bar")
    assert main(["evaluate", "run"]) == 2
    assert "shapes is not as it was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["nowhere"], "which does not exist"),
        (["empty"], "holds no .png, .jpg, .webp or .bmp files"),
        (["bad"], "none is left"),
        (["new", "--keep", "id"], "the inputs are pictures"),
    ],
)
def test_inputs_without_pictures_are_one_sentence(work, capsys, inputs, words):
    for name in ("empty", "bad"):
        Path(name).mkdir()
    Path("bad/x.png").write_bytes(b"nothing")
    assert main(["predict", "run", *inputs]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
