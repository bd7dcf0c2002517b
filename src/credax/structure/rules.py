"""The table of rules: what each operation does to labels and degrees; users may add their own."""

from collections.abc import Callable

from credax.structure import rules_contract as contract
from credax.structure import rules_elementwise as elementwise
from credax.structure import rules_shape as shape
from credax.structure.values import Context, Value

Rule = Callable[[Context, object, list[Value]], list[Value]]

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        [
            *elementwise.RELABEL,
            *elementwise.SAME_DEGREE,
            *elementwise.STEPS,
            *elementwise.POWERS,
            *elementwise.CURVED,
            "integer_pow",
            "convert_element_type",
        ],
        elementwise.unary,
    ),
    **dict.fromkeys(["add", "add_any", "sub", "max", "min"], elementwise.additive),
    **dict.fromkeys(["mul", "div"], elementwise.multiplicative),
    **dict.fromkeys(elementwise.CURVED_PAIRS, elementwise.curved_pair),
    **dict.fromkeys(elementwise.COMPARISONS, elementwise.comparison),
    "pow": elementwise.power,
    "select_n": elementwise.select,
    "clamp": elementwise.clamp,
    "broadcast_in_dim": shape.broadcast_in_dim,
    "transpose": shape.transpose,
    "squeeze": shape.squeeze,
    "expand_dims": shape.expand_dims,
    "reshape": shape.reshape,
    "concatenate": shape.concatenate,
    "stack": shape.stack,
    "split": shape.split,
    "slice": shape.slice_,
    "pad": shape.pad,
    "iota": shape.iota,
    "gather": shape.gather,
    "dynamic_slice": shape.dynamic_slice,
    "dynamic_update_slice": shape.dynamic_update_slice,
    **dict.fromkeys(
        ["scatter", "scatter-add", "scatter_add", "scatter_min", "scatter_max"], shape.scatter
    ),
    "rev": shape.reverse,
    "dot_general": contract.dot_general,
    "conv_general_dilated": contract.convolution,
    **dict.fromkeys(
        ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"],
        contract.reduction,
    ),
    **dict.fromkeys(
        [
            *("argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"),
            *("sort", "top_k"),
        ],
        contract.ordered,
    ),
    **dict.fromkeys(
        ["reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"],
        contract.window,
    ),
}


def register_rule(primitive: str, rule: Rule) -> None:
    """Teach the trace an operation: ``rule(context, equation, values) -> values`` of its results.

    The rule labels every axis of every result. Carrying the operand's labels says that the
    operation treats the indices of an axis alike; ``context.unscaled(label)`` says that the axis
    must not be rescaled, ``context.space.pin(label, reason)`` that its order matters.

    >>> register_rule("my_activation", lambda context, equation, values: [
    ...     Value(tuple(map(context.unscaled, values[0].axes)), data=values[0].data)])
    """
    RULES[primitive] = rule
