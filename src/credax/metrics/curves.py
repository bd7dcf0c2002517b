"""Areas under and points on curves over ranked rows: risk, receiver operation, precision."""

from typing import Any

from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import Blocks, harmonic


def area_of_risk(blocks: Blocks, *, rule: str = "mean") -> Any:
    """``(1/W) Σ_i w_i R_i`` with ``R`` the mean hit of the rows so far, or its trapezoids.

    Within a block of ``n`` rows the hits grow evenly, so its sum is closed: with ``C`` and ``E``
    the weight and hits before it, ``H + (E - C h) Σ_{j≤n} 1/(C/w + j)`` for mean hit ``h`` and
    mean weight ``w``.
    """
    xp = namespace(blocks)
    total = xp.sum(blocks.weight)
    before, hits = blocks.before
    mean, step = blocks.mean_hit, blocks.mean_weight
    start = ratio(before, step)
    excess = hits - before * mean
    steps = harmonic(start, blocks.count)
    right = xp.sum(blocks.hit + excess * steps)
    if rule == "mean":
        return right / total
    top = xp.argmax(blocks.count > 0)
    first, first_hit = step[top], step[top] * mean[top]
    one = xp.ones_like(start)
    earlier = steps + ratio(one, start) - ratio(one, start + blocks.count)
    left = xp.sum(blocks.hit + xp.where(before > 0, excess * earlier, 0)) - first_hit
    return _trapezoid(right - first_hit, left, total - first, right / total, xp)


def area_of_joint_risk(blocks: Blocks, *, rule: str = "mean") -> Any:
    """``(1/W) Σ_i w_i E_i/W`` with ``E`` the hits so far, or its trapezoids."""
    xp = namespace(blocks)
    total = xp.sum(blocks.weight)
    _, hits = blocks.before
    step = blocks.mean_weight
    right = xp.sum(blocks.weight * hits + blocks.hit * step * (blocks.count + 1) / 2) / total
    if rule == "mean":
        return right / total
    top = xp.argmax(blocks.count > 0)
    first = step[top]
    left = xp.sum(blocks.weight * hits + blocks.hit * step * (blocks.count - 1) / 2) / total
    first_hit = first * first * blocks.mean_hit[top] / total
    return _trapezoid(right - first_hit, left, total - first, right / total, xp)


def _trapezoid(right: Any, left: Any, width: Any, of_one_row: Any, xp: Any) -> Any:
    # A single row has no trapezoid: the curve is one point.
    return xp.where(width > 0, ratio((right + left) / 2, width), of_one_row)


def oracle_blocks(blocks: Blocks) -> Blocks:
    """The ranking that puts all rows that do not hit first."""
    xp = namespace(blocks)
    hit, total = xp.sum(blocks.hit), xp.sum(blocks.weight)
    rows = xp.sum(blocks.count)
    # Hits of equal weight are counted from their weight; a block may hold a part of each kind.
    wrong = xp.sum(ratio(blocks.hit * blocks.count, blocks.weight))
    pair = [
        (xp.ones_like(hit), xp.zeros_like(hit)),
        (rows - wrong, wrong),
        (total - hit, hit),
        (xp.zeros_like(hit), hit),
    ]
    return Blocks(*(xp.stack(p) for p in pair))


def coverage_below_risk(blocks: Blocks, *, risk: float) -> Any:
    """Largest share of the weight whose mean hit is at most ``risk``; NaN where there is none."""
    xp = namespace(blocks)
    before, hits = blocks.before
    mean, step = blocks.mean_hit, blocks.mean_weight
    slack = 1 + 8 * xp.finfo(blocks.weight.dtype).eps
    room = risk * slack * before - hits
    above = mean > risk * slack
    fit = xp.floor(ratio(room, xp.where(above, step * (mean - risk * slack), 0)) + 1e-6)
    whole = risk * slack * (before + blocks.weight) - hits - blocks.hit >= 0
    rows = xp.where(above, xp.clip(fit, 0, blocks.count), xp.where(whole, blocks.count, 0))
    reached = xp.where((rows > 0) & (blocks.count > 0), before + rows * step, 0)
    best = xp.max(reached)
    return xp.where(best > 0, best / xp.sum(blocks.weight), xp.nan)


def risk_within_coverage(blocks: Blocks, *, coverage: float) -> Any:
    """Mean hit of the first rows that hold at least the share ``coverage`` of the weight."""
    xp = namespace(blocks)
    before, hits = blocks.before
    wanted = coverage * xp.sum(blocks.weight) * (1 - 8 * xp.finfo(blocks.weight.dtype).eps)
    block = xp.argmax(before + blocks.weight >= wanted)
    step = blocks.mean_weight[block]
    rows = xp.clip(xp.ceil((wanted - before[block]) / step), 1, blocks.count[block])
    taken = rows * step
    return (hits[block] + taken * blocks.mean_hit[block]) / (before[block] + taken)


def deviation_within_blocks(blocks: Blocks) -> Any:
    """How far the hits so far may be, inside a block, from growing evenly."""
    return blocks.hit * (1 - blocks.mean_hit)


def auroc_of(blocks: Blocks) -> Any:
    """Probability that a hit scores above a miss, ties counting half; NaN without either."""
    xp = namespace(blocks)
    miss = blocks.weight - blocks.hit
    _, hits = blocks.before
    pairs = xp.sum(blocks.hit) * xp.sum(miss)
    area = xp.sum(miss * (hits + blocks.hit / 2))
    return xp.where(pairs > 0, ratio(area, pairs), xp.nan)


def average_precision_of(blocks: Blocks, *, rule: str = "step") -> Any:
    """``Σ_b (recall_b - recall_{b-1}) precision_b``, or its trapezoids from precision 1 at 0."""
    xp = namespace(blocks)
    total = xp.sum(blocks.hit)
    found, seen = xp.cumsum(blocks.hit), xp.cumsum(blocks.weight)
    precision = ratio(found, seen)
    if rule == "trapezoid":
        # Nothing found among nothing seen is a precision of one, also after empty blocks.
        known = xp.where(seen > 0, precision, 1)
        previous = xp.concat([xp.ones_like(known[:1]), known[:-1]])
        precision = (precision + previous) / 2
    area = xp.sum(blocks.hit * precision)
    proper = (total > 0) & (total < xp.sum(blocks.weight))
    return xp.where(proper, ratio(area, total), xp.nan)


def false_share_at_recall(blocks: Blocks, *, level: float) -> Any:
    """Share of misses at or above the highest threshold that catches ``level`` of the hits."""
    xp = namespace(blocks)
    miss = blocks.weight - blocks.hit
    total, others = xp.sum(blocks.hit), xp.sum(miss)
    enough = xp.cumsum(blocks.hit) >= level * total * (1 - 8 * xp.finfo(miss.dtype).eps)
    block = xp.argmax(enough)
    share = ratio(xp.cumsum(miss)[block], others)
    return xp.where((total > 0) & (others > 0), share, xp.nan)


def auroc_bound(blocks: Blocks) -> Any:
    """Largest error of `auroc_of` if the rows of a block are not really tied."""
    xp = namespace(blocks)
    miss = blocks.weight - blocks.hit
    return xp.sum(blocks.hit * miss) / (2 * xp.sum(blocks.hit) * xp.sum(miss))
