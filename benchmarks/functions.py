"""Priors on functions beside scikit-learn, GPyTorch and plain PyTorch, in one run.

- ``exact``: condition a Gaussian process on rows and predict, hyper-parameters fixed, in float64.
- ``optimise``: hyper-parameters by the evidence from one start (RBF with a length-scale per column,
  signal variance and noise), scikit-learn's and ours by L-BFGS, GPyTorch's by 100 steps of Adam as
  in its documentation; the evidence reached is printed beside the time.
- ``svgp``: one training step of a sparse process, 100 inducing points, minibatches of 100.
- ``cnp``: one training step of a conditional neural process, 16 curves, hidden 128, an encoder of
  four layers, against the same network in PyTorch.

All runners of a part take turns in every round, after one round that compiles, so that ratios
survive a busy machine; times are medians over rounds, ratios medians of each round's ratio.

    pip install 'credax[bench]'
    python benchmarks/functions.py --parts exact optimise svgp cnp --rounds 5
"""

import argparse
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

import credax as cx
from credax.functions import GaussianProcess
from credax.functions.hyperparameters import Regression, optimise_regression
from credax.functions.kernels import named_kernel
from turns import show, take_turns

try:
    import torch
except ImportError:
    torch = None
try:
    import gpytorch
except ImportError:
    gpytorch = None

OURS = "credax"
COLUMNS = 8
NOISE = 0.1


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs ``[count, 8]`` and a smooth function of them with noise, in float64."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, COLUMNS))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + np.sqrt(NOISE) * rng.standard_normal(count)
    return x, (y - y.mean()) / y.std()


def sklearn_process(x: Any, y: Any, optimise: bool) -> GaussianProcessRegressor:
    """The regressor of scikit-learn after its fit."""
    kernel = ConstantKernel(1.0) * SklearnRBF(np.full(COLUMNS, 3.0)) + WhiteKernel(NOISE)
    optimiser = "fmin_l_bfgs_b" if optimise else None
    return GaussianProcessRegressor(kernel, alpha=1e-10, optimizer=optimiser).fit(x, y)


def gpytorch_process(x: Any, y: Any) -> tuple[Any, Any]:
    """An exact process of GPyTorch in float64 and its likelihood."""
    assert gpytorch is not None
    assert torch is not None

    class Exact(gpytorch.models.ExactGP):
        """Constant mean zero, scaled RBF with a length-scale per column."""

        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            rbf = gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS)
            self.kernel = gpytorch.kernels.ScaleKernel(rbf)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Exact(torch.as_tensor(x), torch.as_tensor(y), likelihood).double()
    model.kernel.base_kernel.lengthscale = 3.0
    model.kernel.outputscale = 1.0
    likelihood.noise = NOISE
    return model, likelihood


def ours_kernel() -> Any:
    """The same kernel here."""
    kernel = named_kernel("rbf", COLUMNS, True)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: np.log(3.0) + 0 * leaf if "scale" in str(path[-1]) else 0 * leaf, kernel
    )


def exact(count: int, rounds: int) -> None:
    """Condition and predict at fixed hyper-parameters."""
    (x, y), (new, _) = rows(count), rows(count, 1)

    def ours():
        return GaussianProcess(ours_kernel(), NOISE).condition(x, y).moments(new)

    runners: dict[str, Callable[[], Any]] = {
        OURS: ours,
        "scikit-learn": lambda: sklearn_process(x, y, False).predict(new, return_std=True),
    }
    found = {name: run() for name, run in runners.items()}
    if gpytorch is not None:

        def theirs():
            model, likelihood = gpytorch_process(x, y)
            model.eval(), likelihood.eval()
            # Cholesky up to the size at hand, as ours; conjugate gradients are another answer.
            with torch.no_grad(), gpytorch.settings.max_cholesky_size(10 * count):
                outputs = model(torch.as_tensor(new))
                return outputs.mean.numpy(), outputs.variance.numpy()

        runners["GPyTorch"] = theirs
        found["GPyTorch"] = theirs()
    mean = np.ravel(found[OURS][0])
    for name, other in found.items():
        print(
            f"{name:14} largest difference of the mean {np.abs(other[0].ravel() - mean).max():.1e}"
        )
    title = f"Fit and predict, {count} rows, fixed hyper-parameters"
    show(title, take_turns(runners, rounds), OURS)


def optimise(count: int, rounds: int) -> None:
    """Hyper-parameters by the evidence, from one start."""
    x, y = rows(count)
    reached: dict[str, float] = {}

    def ours():
        model = Regression(ours_kernel(), np.log(NOISE))
        reached[OURS] = optimise_regression(model, x, y[:, None], np.ones(count), restarts=1).value

    def sklearn():
        reached["scikit-learn"] = sklearn_process(x, y, True).log_marginal_likelihood_value_

    def theirs():
        model, likelihood = gpytorch_process(x, y)
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        descent = torch.optim.Adam(model.parameters(), lr=0.1)
        target, value = torch.as_tensor(y), 0.0
        with gpytorch.settings.max_cholesky_size(10 * count):
            for _ in range(100):
                descent.zero_grad()
                loss = -evidence(model(*model.train_inputs), target)
                loss.backward()
                descent.step()
                value = -float(loss) * count
        reached["GPyTorch"] = value

    runners: dict[str, Callable[[], Any]] = {OURS: ours, "scikit-learn": sklearn}
    if gpytorch is not None:
        runners["GPyTorch"] = theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = take_turns(runners, rounds)
    show(f"Hyper-parameters by the evidence, {count} rows", times, OURS)
    print("log evidence reached:", ", ".join(f"{n} {v:.2f}" for n, v in reached.items()))


def svgp(count: int, rounds: int, inducing: int = 100, batch: int = 100, steps: int = 200) -> None:
    """Training steps of a sparse process on minibatches."""
    x, y = (a.astype(np.float32) for a in rows(count))
    problem = cx.Problem(cx.networks.MLP((8,), outputs=1), cx.Gaussian())
    split = cx.Split(x, y)
    training = cx.Training(
        epochs=1, batch_size=batch, optimiser="adam", learning_rate=0.01, schedule="constant"
    )
    dynamics = cx.SVGP(inducing=inducing).dynamics(problem, split, training)
    first = dynamics.init(jax.random.key(0), problem.init(jax.random.key(0), x[:1]))
    order = np.random.default_rng(0).integers(0, count, (steps, batch))
    whole = problem.prepare(x, y)

    @eqx.filter_jit
    def many(dynamics, state, whole, order):
        def one(state, rows):
            part = jax.tree.map(lambda a: a[rows], whole)
            return dynamics.step(jax.random.key(0), state, part)[0], None

        return jax.lax.scan(one, state, order)[0]

    runners: dict[str, Callable[[], Any]] = {
        OURS: lambda: jax.block_until_ready(many(dynamics, first, whole, order))
    }
    if gpytorch is not None:
        runners["GPyTorch"] = lambda: _gpytorch_steps(x, y, inducing, order)
    show(
        f"{steps} steps of a sparse process, {inducing} inducing points",
        take_turns(runners, rounds),
        OURS,
    )


def _gpytorch_steps(x: Any, y: Any, inducing: int, order: np.ndarray) -> None:
    variational = gpytorch.variational

    class Sparse(gpytorch.models.ApproximateGP):
        """The published model: whitened Cholesky posterior at learned points."""

        def __init__(self, points):
            distribution = variational.CholeskyVariationalDistribution(len(points))
            super().__init__(variational.VariationalStrategy(self, points, distribution))
            self.mean = gpytorch.means.ZeroMean()
            rbf = gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS)
            self.kernel = gpytorch.kernels.ScaleKernel(rbf)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x, y = torch.as_tensor(x), torch.as_tensor(y)
    likelihood, model = gpytorch.likelihoods.GaussianLikelihood(), Sparse(x[:inducing].clone())
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))
    descent = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    for rows in torch.as_tensor(order):
        descent.zero_grad()
        loss = -bound(model(x[rows]), y[rows])
        loss.backward()
        descent.step()


def cnp(count: int, rounds: int, curves: int = 16, points: int = 40, steps: int = 100) -> None:
    """Training steps of a conditional neural process; the tasks are few, the steps the same."""
    data = cx.data.load("tasks/gp-rbf", train=min(count, 2000), test=1, points=points)
    problem = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())
    training = cx.Training(
        epochs=1, batch_size=curves, optimiser="adam", learning_rate=1e-3, schedule="constant"
    )
    published: Any = {"aggregate": "mean", "set_blocks": 0, "activation": "relu", "frequencies": 0}
    record = cx.CNP(**published, largest_context=20, smallest_context=3)
    dynamics = record.dynamics(problem, data.train, training)
    first = dynamics.init(jax.random.key(0), problem.init(jax.random.key(0), data.train.x[:1]))
    order = np.random.default_rng(0).integers(0, len(data.train), (steps, curves))
    whole = problem.prepare(data.train.x, data.train.y)

    @eqx.filter_jit
    def many(dynamics, state, whole, order):
        def one(carry, rows):
            state, key = carry
            key, own = jax.random.split(key)
            part = jax.tree.map(lambda a: a[rows], whole)
            return (dynamics.step(own, state, part)[0], key), None

        return jax.lax.scan(one, (state, jax.random.key(0)), order)[0][0]

    runners: dict[str, Callable[[], Any]] = {
        OURS: lambda: jax.block_until_ready(many(dynamics, first, whole, order))
    }
    if torch is not None:
        x, y = (torch.as_tensor(np.asarray(a)) for a in (data.train.x, data.train.y))
        runners["PyTorch"] = lambda: _torch_steps(x, y, order)
    else:
        print("PyTorch is not installed, so its row is missing")
    title = f"{steps} steps of a conditional neural process, {curves} curves of {points} points"
    show(title, take_turns(runners, rounds), OURS)


def _torch_steps(x: Any, y: Any, order: np.ndarray) -> None:
    """The same network: mean of a four-layer encoder over random contexts, decoder 2 + 1."""
    nn = torch.nn

    def dense(*sizes: int) -> Any:
        layers = [layer for a, b in itertools.pairwise(sizes)
                  for layer in (nn.Linear(a, b), nn.ReLU())]  # fmt: skip
        return nn.Sequential(*layers[:-1])

    encoder, decoder = dense(2, 128, 128, 128, 128), dense(129, 128, 128, 2)
    descent = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for rows in torch.as_tensor(order):
        own_x, own_y = x[rows], y[rows]
        size = torch.randint(3, 21, (len(rows), 1))
        context = (torch.rand(own_y.shape).argsort(1).argsort(1) < size).float()[..., None]
        encoded = encoder(torch.cat([own_x, own_y[..., None]], -1))
        r = (encoded * context).sum(1, keepdim=True) / context.sum(1, keepdim=True)
        mean, raw = decoder(torch.cat([r.expand(-1, own_x.shape[1], -1), own_x], -1)).chunk(2, -1)
        std = 0.1 + 0.9 * nn.functional.softplus(raw)
        loss = -torch.distributions.Normal(mean, std).log_prob(own_y[..., None]).mean()
        descent.zero_grad()
        loss.backward()
        descent.step()


PARTS = {"exact": exact, "optimise": optimise, "svgp": svgp, "cnp": cnp}


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if gpytorch is None:
        print("GPyTorch is not installed, so its rows are missing: pip install 'credax[bench]'")
    for name in arguments.parts:
        PARTS[name](arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
