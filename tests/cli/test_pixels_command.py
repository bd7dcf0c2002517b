"""Pictures and masks through the commands: fit, report, evaluate, predict, and what is refused."""

import json

import numpy as np
import pytest
from PIL import Image

from credax.cli.main import main
from credax.data import draw_depths, draw_shapes

ROWS = 10
OPTIONS = ("--epochs", "2", "--batch-size", "4", "--network-options", "channels=(2,)", "--quiet")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("pixels")
    shapes, depths = draw_shapes(0, ROWS, size=16), draw_depths(0, ROWS, size=16)
    for name, scenes, below in (("town", shapes, "masks"), ("room", depths, "depth")):
        for part in ("images", below):
            (root / name / part).mkdir(parents=True)
        for i in range(ROWS):
            Image.fromarray(scenes.x[i]).save(root / name / "images" / f"p{i}.png")
            scale, kind = (1, np.uint8) if name == "town" else (256, np.uint16)
            target = np.rint(scale * scenes.y[i]).astype(kind)
            Image.fromarray(target).save(root / name / below / f"p{i}.png")
    return root


@pytest.fixture(scope="module")
def run(folders):
    """A run whose data stays where it was."""
    out = folders / "run"
    flags = ("--data", str(folders / "town"), "--task", "segmentation", "--out", str(out))
    main(["fit", "single", *flags, *OPTIONS])
    return out


def test_a_run_is_reported_and_evaluated(run, capsys):
    capsys.readouterr()
    main(["evaluate", str(run), "--json", "--calibrate", "threshold"])
    values = json.loads(capsys.readouterr().out)
    assert {"accuracy", "mean_iou", "boundary/nll", "interior/nll", "iou/0"} <= set(values)
    assert 0.5 < values["calibrated/threshold/set_coverage"] <= 1
    main(["report", str(run)])
    page = (run / "report.html").read_text()
    assert "Where is it wrong, and where does it know?" in page
    assert "(segmentation)" in page


def test_maps_of_new_pictures(run, folders, tmp_path, capsys):
    images = str(folders / "town" / "images")
    main(["predict", str(run), images, "--out", str(tmp_path / "maps.npz")])
    maps = np.load(tmp_path / "maps.npz")
    assert maps["label"].shape == maps["epistemic"].shape == (ROWS, 16, 16)
    main(["predict", str(run), images, "--out", str(tmp_path / "masks")])
    mask = np.asarray(Image.open(tmp_path / "masks" / "p3_label.png"))
    np.testing.assert_array_equal(mask, maps["label"][3])
    capsys.readouterr()
    assert main(["predict", str(run), images, "--out", str(tmp_path / "maps.csv")]) == 2
    assert "ends in .npz, or a folder" in capsys.readouterr().err


def test_depths_are_trained_and_shown_from_the_run_alone(folders, capsys):
    """The kept rows have depths that are not known, which no file of numbers holds as NaN."""
    out = folders / "depth"
    flags = ("--data", str(folders / "room"), "--task", "pixel-regression", "--out", str(out))
    main(["fit", "single", *flags, *OPTIONS])
    capsys.readouterr()
    main(["evaluate", str(out), "--json"])
    own = json.loads(capsys.readouterr().out)
    main(["evaluate", str(out), "--json", "--stored"])
    assert json.loads(capsys.readouterr().out) == own
    assert {"rmse", "silog", "threshold_accuracy_1"} <= set(own)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--data", "digits", "--task", "segmentation"), "give a folder with images and masks"),
        (("--data", "pixels/depth", "--task", "segmentation"), "give a folder with images"),
        (("--data", "digits", "--ignore-label", "3"), "it is for --task segmentation"),
    ],
)
def test_tasks_that_do_not_fit_are_refused(flags, words, capsys):
    assert main(["fit", "single", *flags, "--quiet"]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error
    assert "\n" not in error
