"""All classification metrics of a million rows, streamed, against scikit-learn and torchmetrics.

Chunks of predictions (members x rows x classes, log-probabilities in float32) are made one at a
time and forgotten; making them is not timed. Every way sees the same chunks in the same run:

- credax, all metrics: one `Collection`, each chunk read once, curves exact (one score and one bit
  per row are kept) and `ace`, `tace` in bins;
- credax, the metrics that the other way has as well;
- scikit-learn: the mixture's probabilities of all rows in memory, then its functions one by one;
- torchmetrics, if installed: its own streaming objects, fed with the mixture's probabilities.

The other ways are given the mean over members as numpy computes it, which is timed as part of them.
Memory is the growth of the process beyond its size after the first chunk, and must stay below the
bound that is printed. Then each metric alone: a chunk, and the end.

    python benchmarks/metrics.py --rows 1000000 --members 10 --classes 10
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np

from credax import metrics
from credax.prediction import ClassPrediction

try:
    import torch
    import torchmetrics
except ImportError:
    torch = torchmetrics = None

SHARED = (
    *("accuracy", "top_5_accuracy", "balanced_accuracy", "mean_iou", "nll", "member_nll", "brier"),
    *("ece", "sce", "auroc_correct"),
)
TORCH = ("accuracy", "balanced_accuracy", "top_5_accuracy", "mean_iou", "ece", "rmsce", "mce")
MEGABYTE = 2**20


def chunks(
    rows: int, size: int, members: int, classes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log-probabilities ``[members, size, classes]`` of an overconfident ensemble, and labels."""
    for start in range(0, rows, size):
        rng = np.random.default_rng(start)
        count = min(size, rows - start)
        shared = 1.5 * rng.standard_normal((count, classes), dtype=np.float32)
        logits = rng.standard_normal((members, count, classes), dtype=np.float32)
        logits += shared
        top = logits.max(-1, keepdims=True)
        logits -= top
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        noise = rng.gumbel(size=(count, classes)).astype(np.float32)
        yield logits, (shared + noise).argmax(-1)


def mixture(log_probs: np.ndarray) -> np.ndarray:
    """The mean over members as numpy does it, member by member so as not to copy all."""
    total = np.exp(log_probs[0])
    for member in log_probs[1:]:
        total += np.exp(member)
    return total / len(log_probs)


def resident() -> int:
    """The largest size that the process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Clock:
    """Adds up the time inside ``with``."""

    def __init__(self):
        self.seconds = 0.0

    def __enter__(self):
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self.start


def ours(collection: metrics.Collection, make: Callable[[], Iterator]) -> tuple:
    """Values, seconds, the state, and by how much the process grew after the first chunk."""
    clock, state, before = Clock(), collection.init(), 0
    for log_probs, y in make():
        with clock:
            state = collection.update(state, ClassPrediction(log_probs), y)
        before = before or resident()
    with clock:
        values = collection.finish(state)
    return values, clock.seconds, state, resident() - before


def sklearn_way(make: Callable[[], Iterator], classes: int) -> tuple[dict, float]:
    """The shared metrics from scikit-learn's functions on all rows."""
    from sklearn import metrics as sk
    from sklearn.calibration import calibration_curve

    clock, probs, labels, member_nll = Clock(), [], [], []
    every = range(classes)
    for log_probs, y in make():
        with clock:
            probs.append(mixture(log_probs))
            labels.append(y)
            picked = log_probs[:, np.arange(len(y)), y]
            member_nll.append(-picked.mean(0))
    with clock:
        p, y = np.concatenate(probs), np.concatenate(labels)
        label, confidence = p.argmax(-1), p.max(-1)
        right = label == y
        # scikit-learn warns of float32 rows, whose sums miss one by a rounding.
        exact = p.astype(np.float64)
        exact /= exact.sum(-1, keepdims=True)
        values = {
            "accuracy": sk.accuracy_score(y, label),
            "top_5_accuracy": sk.top_k_accuracy_score(y, p, k=5, labels=every),
            "balanced_accuracy": sk.balanced_accuracy_score(y, label),
            "mean_iou": sk.jaccard_score(y, label, average="macro"),
            "nll": sk.log_loss(y, exact, labels=every),
            "member_nll": np.concatenate(member_nll).mean(),
            "brier": sk.brier_score_loss(y, exact, labels=every),
            "auroc_correct": sk.roc_auc_score(right, confidence),
        }

        def gap(truth, score):
            accuracy, mean = calibration_curve(truth, score, n_bins=15)
            index = np.digitize(score, np.linspace(0, 1, 16)[1:-1], right=True)
            share = np.bincount(index, minlength=15) / len(score)
            return np.sum(share[share > 0] * np.abs(accuracy - mean))

        values["ece"] = gap(right, confidence)
        values["sce"] = np.mean([gap(y == k, p[:, k]) for k in every])
    return values, clock.seconds


def torch_way(make: Callable[[], Iterator], classes: int) -> tuple[dict, float]:
    """What torchmetrics streams, from its own objects."""
    from torchmetrics import classification as tm

    whole = {"num_classes": classes, "validate_args": False}
    objects = {
        "accuracy": tm.MulticlassAccuracy(average="micro", **whole),
        "balanced_accuracy": tm.MulticlassAccuracy(average="macro", **whole),
        "top_5_accuracy": tm.MulticlassAccuracy(average="micro", top_k=5, **whole),
        "mean_iou": tm.MulticlassJaccardIndex(**whole),
        "ece": tm.MulticlassCalibrationError(n_bins=15, norm="l1", **whole),
        "rmsce": tm.MulticlassCalibrationError(n_bins=15, norm="l2", **whole),
        "mce": tm.MulticlassCalibrationError(n_bins=15, norm="max", **whole),
    }
    clock = Clock()
    for log_probs, y in make():
        with clock:
            p, label = torch.from_numpy(mixture(log_probs)), torch.from_numpy(y)
            for metric in objects.values():
                metric.update(p, label)
    with clock:
        values = {name: float(metric.compute()) for name, metric in objects.items()}
    return values, clock.seconds


def compare(name: str, theirs: dict, mine: dict) -> None:
    """Say where two ways differ; float32 sums may by some millionths."""
    worst = max(theirs, key=lambda n: abs(theirs[n] - mine[n]))
    print(f"  largest difference to {name}: {abs(theirs[worst] - mine[worst]):.1e} ({worst})")


def each_metric(collection: metrics.Collection, state: metrics.State, chunk: tuple, rounds: int):
    """Each metric's own time for a chunk, and for its end with what it shares not counted."""
    prediction, y = ClassPrediction(chunk[0]), chunk[1]
    prepared = {}
    for statistic, total in zip(collection.statistics, state.totals, strict=True):
        only = metrics.Collection({"": metrics.Streaming(statistic, lambda state: 0.0)})
        start = time.perf_counter()
        prepared[statistic] = only.prepare(metrics.State(state.entries, (total,)))[statistic]
        seconds = time.perf_counter() - start
        if seconds > 0.01:
            users = [n for n, s in collection.streams.items() if s.statistic == statistic]
            print(f"  sorting for {', '.join(users)}: {1000 * seconds:.0f} ms once")
    print(f"  {'metric':32}{'ms per chunk':>12}{'ms at the end':>15}")
    for name, stream in collection.streams.items():
        times = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            stream.update(stream.init(), prediction, y)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        stream.conclude(prepared[stream.statistic])
        end = time.perf_counter() - start
        print(f"  {name:32}{1000 * min(times[1:]):12.1f}{1000 * end:15.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--chunk", type=int, default=31_250)
    parser.add_argument("--bound", type=int, default=200, help="megabytes that the stream may grow")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--each", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    shape = args.members, args.classes

    def make():
        return chunks(args.rows, args.chunk, *shape)

    whole = 4 * args.rows * args.members * args.classes / MEGABYTE
    print(
        f"{args.rows} rows x {args.classes} classes x {args.members} members: {whole:.0f} MB of "
        f"float32, in chunks of {args.chunk} rows; {jax.devices()[0].device_kind}"
    )
    everything = metrics.collect("all", "classification")
    first = next(make())
    start = time.perf_counter()
    everything.update(everything.init(), ClassPrediction(first[0]), first[1])
    print(f"compiled in {time.perf_counter() - start:.1f} s (not counted below)")
    values, seconds, state, growth = ours(everything, make)
    size = sum(a.nbytes if a.strides != (0,) else 0 for a in jax.tree.leaves(state.totals))
    print(f"credax, all {len(values)} metrics: {seconds:.2f} s")
    print(
        f"  memory: state {size / MEGABYTE:.1f} MB, process grew by {growth / MEGABYTE:.0f} MB "
        f"after the first chunk, bound {args.bound} MB"
    )
    if growth > args.bound * MEGABYTE:
        raise SystemExit("the stream outgrew its bound")
    for name, few, way in (
        ("scikit-learn", SHARED, sklearn_way),
        ("torchmetrics", TORCH, torch_way),
    ):
        if way is torch_way and torchmetrics is None:
            print("torchmetrics is not installed: pip install torchmetrics")
            continue
        same = metrics.collect(few, "classification")
        same.update(same.init(), ClassPrediction(first[0]), first[1])
        rounds = [(ours(same, make), way(make, args.classes)) for _ in range(args.rounds)]
        mine, theirs = rounds[-1][0][0], rounds[-1][1][0]
        my_seconds = [my[1] for my, _ in rounds]
        their_seconds = [their[1] for _, their in rounds]
        ratios = [t / m for m, t in zip(my_seconds, their_seconds, strict=True)]
        slowest = statistics.median(their_seconds)
        print(
            f"{name}, {len(few)} metrics: {slowest:.2f} s; credax, the same: "
            f"{statistics.median(my_seconds):.2f} s, {statistics.median(ratios):.1f} times faster; "
            f"all {len(values)} of credax against those {len(few)}: {slowest / seconds:.1f} times"
        )
        compare(name, theirs, mine)
    if args.each:
        each_metric(everything, state, first, args.rounds)


if __name__ == "__main__":
    main()
