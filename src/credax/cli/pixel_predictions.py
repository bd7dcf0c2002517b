"""Predictions for every pixel of new pictures: arrays in a file, or a folder of masks."""

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from credax.cli.pixel_rows import batches_of
from credax.cli.terminal import printable
from credax.errors import InputError
from credax.files import write_atomic
from credax.prediction import ClassPrediction
from credax.report.png import encode_png
from credax.runs import SavedRun


def predict_maps(saved: SavedRun, rows: Any, out: Path, calibration: str | None) -> None:
    """Write the label or mean and the uncertainty of every pixel, at the size of the inputs."""
    if calibration is not None:
        raise InputError(
            "calibration is given and the run predicts every pixel; leave it out, or calibrate in "
            "Python (credax.calibration)"
        )
    classes = saved.about.task == "classification"
    if out.suffix not in (".npz", "") or (out.suffix == "" and not classes):
        folder = ", or a folder for masks as PNG" if classes else ""
        raise InputError(
            f"out is {out} and the run predicts every pixel; give a name that ends in .npz{folder}"
        )
    parts = [_maps(prediction) for _, prediction in batches_of(saved.posterior(), rows.x)]
    maps = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if out.suffix == ".npz":
        buffer = io.BytesIO()
        names = {f"{name}s": np.asarray(values) for name, values in rows.names.items()}
        np.savez(buffer, **maps, **names)  # pyright: ignore[reportArgumentType]
        write_atomic(out, buffer.getvalue())
    else:
        _write_masks(out, maps, list(next(iter(rows.names.values()))))
    print(printable(f"maps of {len(rows.x)} pictures ({', '.join(maps)}) in {out}"))


def _maps(prediction: Any) -> dict[str, np.ndarray]:
    shared = {n: np.asarray(getattr(prediction, n)) for n in ("total", "aleatoric", "epistemic")}
    if isinstance(prediction, ClassPrediction):
        label = np.asarray(prediction.label).astype(np.int32)
        return {"label": label, "confidence": np.asarray(prediction.confidence), **shared}
    return {"mean": np.asarray(prediction.mean), **shared}


def _write_masks(out: Path, maps: dict[str, np.ndarray], names: list[Any]) -> None:
    """``NAME_label.png`` with class numbers, and uncertainty with 255 for its greatest value."""
    if maps["label"].max() > 255:
        raise InputError("there are more than 256 classes; give out a name that ends in .npz")
    stems = [Path(str(name)).stem for name in names]
    if len(set(stems)) < len(stems):
        stems = [f"{number}_{stem}" for number, stem in enumerate(stems)]
    with tempfile.TemporaryDirectory(dir=out.resolve().parent) as place:
        made = Path(place) / "maps"
        made.mkdir()
        for row, stem in enumerate(stems):
            shown = {"label": maps["label"][row].astype(np.uint8)}
            for name in ("aleatoric", "epistemic"):
                top = max(float(maps[name].max()), 1e-12)
                shown[name] = np.rint(255 * np.clip(maps[name][row] / top, 0, 1)).astype(np.uint8)
            for name, pixels in shown.items():
                (made / f"{stem}_{name}.png").write_bytes(encode_png(pixels[..., None]))
        os.rename(made, out)
