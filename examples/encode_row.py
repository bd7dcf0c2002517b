"""A raw row of a table, encoded and predicted with jax alone: no credax on the server.

credax export runs/customers --out model.export
python examples/encode_row.py model.export '{"age": 41.5, "city": "Ulm", "since": "2021-03-14"}'
"""

import json
import pathlib
import sys
from datetime import datetime, timedelta

TRUE = ("true", "yes", "t", "y", "1")


def encode(row, columns):
    """The inputs of one row (name to value), by ``preparation.columns`` of the .json file.

    Dates are in ISO format. None and absent values are missing.
    """
    x = []
    for column in columns:
        value = row.get(column["name"])
        missing = value is None
        value = column["fill"] if missing else value
        own = []
        if column["kind"] == "number":
            own = [float(value) - column["offset"]]
        elif column["kind"] == "boolean":
            own = [float(str(value).lower() in TRUE)]
        elif column["kind"] == "category":
            if value not in column["levels"]:
                raise ValueError(f"{column['name']} has the unseen level {value!r}")
            own = [float(value == level) for level in column["levels"]]
        elif column["kind"] == "date":
            when = datetime.fromisoformat(value)
            days = (when - datetime(1970, 1, 1)) / timedelta(days=1) - column["offset"]
            parts = {"year": when.year, "month": when.month, "weekday": when.weekday()}
            own = [{**parts, "days": days}[part] for part in column["parts"]]
        if column["kind"] == "number" or not column["constant"]:
            x += own
        if column["missing"] and column["kind"] != "empty":
            x.append(float(missing))
    return x


if __name__ == "__main__":
    import jax
    import numpy as np

    path = pathlib.Path(sys.argv[1])
    about = json.loads(path.with_suffix(".json").read_text())
    x = np.array([encode(json.loads(sys.argv[2]), about["preparation"]["columns"])], np.float32)
    answer = jax.jit(jax.export.deserialize(path.read_bytes()).call)(x)
    print(json.dumps({name: np.asarray(value).tolist() for name, value in answer.items()}))
