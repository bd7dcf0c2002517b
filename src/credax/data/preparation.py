"""How raw rows become inputs, read back from a run."""

from typing import Any

from credax.data.about import About
from credax.data.columns import Columns
from credax.data.pictures import Pictures
from credax.data.pixel_form import PixelForm
from credax.data.task_form import TaskForm
from credax.errors import DamagedFile

Prepared = Columns | Pictures | TaskForm | PixelForm


def read_preparation(about: About, where: Any) -> Prepared | None:
    """What a run's data set says of its preparation; None for runs whose rows are inputs."""
    content = about.preparation
    if not content:
        return None
    if content.get("kind") == "table" and len(about.input_shape) == 1:
        return Columns.from_json(content, where, about.input_shape[0])
    if content.get("kind") == "pictures" and len(about.input_shape) == 3:
        return Pictures.from_json(content, where, about.input_shape)
    if content.get("kind") == "tasks" and len(about.input_shape) == 2:
        return TaskForm.from_json(content, where, about.input_shape)
    if content.get("kind") == "pixels" and len(about.input_shape) == 3:
        return PixelForm.from_json(content, where, about.input_shape)
    raise DamagedFile(f"{where} describes a preparation that is not known; restore it")
