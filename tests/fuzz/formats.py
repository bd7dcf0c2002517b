"""Every format credax reads: how to make small valid files of it, and the public reader."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from formats_data import (
    load,
    loaded,
    make_checkpoints,
    make_cifar10,
    make_cifar100,
    make_components,
    make_evidence,
    make_idx,
    make_inputs,
    make_mixed,
    make_mnist_npz,
    make_npz,
    make_pairs,
    make_pictures,
    make_shifted,
    make_splits,
    make_svhn,
    make_svhn_npz,
    make_table,
    make_tile,
    make_tiny,
    make_uci,
    make_zoo,
    read_checkpoints,
    read_components,
    read_evidence,
    read_new,
    read_pairs,
    read_pictures,
    read_shifted,
    read_tile,
    read_zoo,
    read_zoo_commands,
)
from formats_runs import (
    golden,
    make_calibrator,
    make_infinite,
    make_new_run,
    make_person,
    members,
    read_calibrator,
    read_config,
    read_infinite,
    read_list,
    read_person,
    read_rows,
    read_shift,
    read_show,
    read_state,
)


@dataclass(frozen=True)
class Format:
    """``make`` writes valid files into a folder; one of ``targets`` (a glob) is damaged; ``read``
    gives the numbers that came out, or None where a reader says in a warning that it read none."""

    name: str
    make: Callable[[Path], Any]
    targets: str
    read: Callable[[Path], Any]


RUNS = ("deep-ensemble", "swag", "laplace", "mc-dropout", "mean-field-vi", "regression", "hmc")
CALIBRATORS = ("temperature", "vector", "beta", "isotonic", "histogram", "aps", "raps")
CALIBRATORS += ("variance-scaling", "quantile-recalibration", "cqr", "normalised")

FORMATS = (
    *(
        Format(f"members {n}", partial(golden, n), "*/members.safetensors", partial(members, n))
        for n in RUNS
    ),
    Format("members infinite", make_infinite, "members.safetensors", read_infinite),
    Format("state", partial(golden, "unfinished"), "*/state*.safetensors", read_state),
    Format("config, show", partial(golden, "swag"), "*/config.json", partial(read_show, "swag")),
    Format("config, open", partial(golden, "swag"), "*/config.json", partial(read_config, "swag")),
    Format("config, new run", make_new_run, "run/config.json", partial(read_config, "run")),
    Format("rows of a run", make_new_run, "run/rows.safetensors", read_rows),
    Format("active run", make_person, "run/*", read_person),
    Format("metrics", partial(golden, "hmc"), "*/metrics.jsonl", partial(read_show, "hmc")),
    Format("list runs", partial(golden, "python"), "*/*.json*", read_list),
    Format("shift scores", partial(golden, "digits"), "*/shift.json", read_shift),
    *(
        Format(f"calibrator {n}", partial(make_calibrator, n), "*", partial(read_calibrator, n))
        for n in CALIBRATORS
    ),
    Format("npz", make_npz, "mine.npz", partial(load, "mine.npz")),
    Format("npz splits", make_splits, "mine.npz", partial(load, "mine.npz")),
    Format("csv", partial(make_table, "csv"), "mine.csv", partial(load, "mine.csv")),
    Format("tsv", partial(make_table, "tsv"), "mine.tsv", partial(load, "mine.tsv")),
    *(
        Format(f"mixed {e}", partial(make_mixed, e), "mixed.*", partial(load, f"mixed.{e}"))
        for e in ("csv", "parquet", "feather")
    ),
    Format("pictures", make_pictures, "pictures/*/*", read_pictures),
    Format("trust", make_evidence, "trust.safetensors", read_evidence),
    *(
        Format(f"predict {e}", partial(make_inputs, e), "new.*", partial(read_new, e))
        for e in ("npy", "npz", "csv")
    ),
    Format("idx", partial(make_idx, False), "mnist/*", loaded("mnist")),
    Format("idx gzip", partial(make_idx, True), "mnist/*", loaded("mnist")),
    Format("mnist npz", make_mnist_npz, "*.npz", loaded("mnist")),
    Format("cifar10 pickles", partial(make_cifar10, "python", False), "*/*", loaded("cifar10")),
    Format("cifar10 tar", partial(make_cifar10, "python", True), "*.gz", loaded("cifar10")),
    Format("cifar10 binary", partial(make_cifar10, "binary", False), "*/*", loaded("cifar10")),
    Format("cifar10 png", partial(make_cifar10, "png", False), "**/*.*", loaded("cifar10")),
    Format("cifar10 npm", partial(make_cifar10, "png", True), "*.tgz", loaded("cifar10")),
    Format("cifar100", make_cifar100, "*/*", loaded("cifar100")),
    Format("svhn mat", partial(make_svhn, False), "*.mat", loaded("svhn")),
    Format("svhn mat zlib", partial(make_svhn, True), "*.mat", loaded("svhn")),
    Format("svhn npz", make_svhn_npz, "*.npz", loaded("svhn")),
    Format("tiny zip", partial(make_tiny, True), "*.zip", loaded("tiny-imagenet")),
    Format("tiny folder", partial(make_tiny, False), "**/*.*", loaded("tiny-imagenet")),
    Format("uci folder", partial(make_uci, False), "**/*.txt", loaded("uci/concrete")),
    Format("uci tar", partial(make_uci, True), "*.xz", loaded("uci/concrete")),
    Format("cifar10-c", make_shifted, "*/*.npy", read_shifted),
    Format("histology", make_tile, "*.tif", read_tile),
    Format("pca", make_components, "pca.npz", read_components),
    Format("zoo manifest", make_zoo, "zoo/zoo.json", partial(read_zoo, False)),
    Format("zoo journal", make_zoo, "zoo/members.jsonl", partial(read_zoo, False)),
    Format("zoo shard", make_zoo, "zoo/shard*", partial(read_zoo, False)),
    Format("zoo shard, verified", make_zoo, "zoo/shard*", partial(read_zoo, True)),
    Format("zoo commands", make_zoo, "zoo/*", read_zoo_commands),
    Format(
        "checkpoints", partial(make_checkpoints, False), "*/*", partial(read_checkpoints, False)
    ),
    Format(
        "checkpoints tgz", partial(make_checkpoints, True), "*", partial(read_checkpoints, True)
    ),
    Format("pair sums", make_pairs, "*", read_pairs),
)
