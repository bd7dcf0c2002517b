"""What posteriors cost: beside a deep ensemble, modes at once or in turn, laplace-torch and laplax.

- ``methods``: a fit of each method over one of a deep ensemble with as many gradient steps.
- ``modes``: all modes in one program over one fit a mode.
- ``laplace``: Kronecker-factored Laplace around the same network (all weights), fit and predict,
  over laplace-torch (pip install 'credax[bench]').
- ``full``: the whole Gauss-Newton matrix of a small network, fit and variances of the linearised
  outputs, beside laplace-torch and laplax (pip install laplax).

A library that is not installed is left out with a line that says so. The microcanonical sampler of
sklearn-contrib-bde, which needs another blackjax, stands beside ours in `benchmarks/mile.py`.

All runners of a part take turns in every round of one run, after one round that compiles, so that
ratios survive a busy machine; times are medians over rounds, ratios medians of each round's ratio.

    python benchmarks/posteriors.py --parts methods modes laplace full --rounds 5
"""

import argparse
from collections.abc import Callable

import jax
import numpy as np

import credax as cx
from credax.methods.laplace.fit import NotConverged
from credax.posterior import population
from turns import show, take_turns

try:
    import torch
    from laplace import Laplace as TorchLaplace
except ImportError:
    torch = TorchLaplace = None
try:
    import laplax
    from laplax.eval import pushforward
except ImportError:
    laplax = pushforward = None

METHODS = {
    "deep ensemble": lambda n: cx.DeepEnsemble(members=n),
    "SWA": lambda n: cx.SWA(modes=n),
    "SWAG": lambda n: cx.SWAG(modes=n),
    "snapshots": lambda n: cx.SnapshotEnsemble(modes=n),
    "MC dropout": lambda n: cx.MCDropout(modes=n),
    "SGHMC": lambda n: cx.SGHMC(modes=n),
    "mean-field VI": lambda n: cx.MeanFieldVI(modes=n),
    "Laplace, last layer": lambda n: cx.Laplace(modes=n),
    "Laplace, all weights": lambda n: cx.Laplace(modes=n, subset="all"),
}


def digits():
    """The task of the first two parts: a small network on handwritten digits."""
    data = cx.data.load("digits").train
    problem = cx.Problem(cx.networks.MLP((64, 64), outputs=10), cx.Categorical(), weight_decay=1e-3)
    return problem, data


def fitted(problem, method, data, epochs: int, key: int = 0):
    """A fit, waited for."""
    training = cx.Training(epochs=epochs, batch_size=128)
    posterior = cx.fit(problem, method, data, key=key, training=training, progress=False)
    jax.block_until_ready(jax.tree.leaves(posterior.variables))
    return posterior


def measure_methods(rounds: int, epochs: int, modes: int) -> None:
    """Fits with equal numbers of gradient steps."""
    problem, data = digits()
    runners = {
        name: lambda build=build: fitted(problem, build(modes), data, epochs)
        for name, build in METHODS.items()
    }
    times = take_turns(runners, rounds)
    show(f"{modes} networks, {epochs} epochs of digits each", times, "deep ensemble")


def measure_modes(rounds: int, epochs: int, modes: int) -> None:
    """All modes in one program, and one after another."""
    problem, data = digits()
    for name in ("SWAG", "SGHMC", "Laplace, last layer"):
        build = METHODS[name]

        def in_turn(build=build):
            return [fitted(problem, build(1), data, epochs, key) for key in range(modes)]

        runners = {
            "in turn": in_turn,
            "at once": lambda build=build: fitted(problem, build(modes), data, epochs),
        }
        show(f"{name}: {modes} modes", take_turns(runners, rounds), "in turn")


class LaplaceCase:
    """The same network in both libraries, and rows to fit and to predict."""

    def __init__(self, network: str, rows: int, predicted: int):
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, 10, rows)
        if network == "mlp":
            self.x = rng.normal(size=(rows, 784)).astype(np.float32)
            self.network = cx.networks.MLP((200, 200), outputs=10)
        else:
            self.x = rng.normal(size=(rows, 28, 28, 1)).astype(np.float32)
            self.network = cx.networks.CNN(10)
        self.name, self.predicted = network, predicted

    def ours(self) -> dict[str, Callable]:
        """Fit and predict."""
        problem = cx.Problem(self.network, cx.Categorical(), weight_decay=1e-3)
        variables = problem.init(jax.random.key(0), self.x)
        one = jax.tree.map(lambda leaf: leaf[None], variables)
        networks = population(problem, one, self.x)
        data = cx.Split(self.x, self.y)
        record = cx.Laplace(
            subset="all", prior_precision=10.0, link="probit", around=networks, memory=2.0
        )
        kept = {}

        def fit():
            kept["posterior"] = fitted(problem, record, data, 1)

        def predict():
            return np.asarray(kept["posterior"].predict(self.x[: self.predicted]).probs)

        return {"fit": fit, "predict": predict}

    def torchs(self) -> dict[str, Callable]:
        """The same by laplace-torch."""
        nn = torch.nn
        if self.name == "mlp":
            layers = [nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU()]
            network, x = nn.Sequential(*layers, nn.Linear(200, 10)), self.x
        else:
            layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            layers += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
            layers += [nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)]
            network, x = nn.Sequential(*layers), np.moveaxis(self.x, -1, 1)
        x, y = torch.tensor(np.ascontiguousarray(x)), torch.tensor(self.y)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, y), batch_size=256, shuffle=False
        )
        kept = {}

        def fit():
            approximation = TorchLaplace(
                network,
                "classification",
                subset_of_weights="all",
                hessian_structure="kron",
                prior_precision=10.0,
            )
            approximation.fit(loader)
            kept["approximation"] = approximation

        def predict():
            # Its Jacobians are of all weights: 64 rows of the larger network take a gigabyte.
            approximation, starts = kept["approximation"], range(0, self.predicted, 64)
            parts = [approximation(x[i : i + 64], link_approx="probit") for i in starts]
            return torch.cat(parts).numpy()

        return {"fit": fit, "predict": predict}


def measure_laplace(rounds: int, rows: int, predicted: int, networks: list[str]) -> None:
    """Fit all rows and predict some, each library in turn."""
    for name in networks:
        case = LaplaceCase(name, rows, predicted)
        ours = case.ours()
        theirs = case.torchs() if TorchLaplace is not None else {}
        for part in ("fit", "predict"):
            runners = {"credax": ours[part]}
            runners |= {"laplace-torch": theirs[part]} if theirs else {}
            count = {"fit": rows, "predict": predicted}[part]
            title = f"Laplace, Kronecker factors, {name}: {part} {count} rows"
            show(title, take_turns(runners, rounds), list(runners)[-1])


class FullCase:
    """The whole curvature of the same small network, MLP 64-16-10, in three libraries."""

    def __init__(self, rows: int, predicted: int):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(rows, 64)).astype(np.float32)
        self.y, self.some = rng.integers(0, 10, rows), self.x[:predicted]
        self.problem = cx.Problem(
            cx.networks.MLP((16,), outputs=10), cx.Categorical(), weight_decay=1e-3
        )
        self.variables = self.problem.init(jax.random.key(0), self.x)
        self.kept = {}

    def ours(self, structure: str) -> dict[str, Callable]:
        """By the matrix, or by the kernel matrix of the rows."""
        one = jax.tree.map(lambda leaf: leaf[None], self.variables)
        networks = population(self.problem, one, self.x)
        data, key = cx.Split(self.x, self.y), f"credax, {structure}"
        record = cx.Laplace(
            structure=structure, subset="all", prior_precision=10.0, around=networks, memory=4.0
        )

        def fit():
            self.kept[key] = fitted(self.problem, record, data, 1)

        def predict():
            covariance = self.kept[key].function_moments(self.some)[1][0]
            return np.diagonal(covariance, axis1=1, axis2=2)

        return {"fit": fit, "predict": predict}

    def torchs(self) -> dict[str, Callable]:
        """By laplace-torch, with the same weights."""
        nn, params = torch.nn, self.variables.params
        network = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
        with torch.no_grad():
            for layer, name in ((network[0], "0_dense"), (network[2], "1_dense")):
                layer.weight.copy_(torch.tensor(np.asarray(params[name]["kernel"]).T))
                layer.bias.copy_(torch.tensor(np.asarray(params[name]["bias"])))
        x, y = torch.tensor(self.x), torch.tensor(self.y)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, y), batch_size=256, shuffle=False
        )

        def fit():
            approximation = TorchLaplace(
                network,
                "classification",
                subset_of_weights="all",
                hessian_structure="full",
                prior_precision=10.0,
            )
            approximation.fit(loader)
            # What ours computes in its fit and laplace-torch when it is first asked for.
            _ = approximation.posterior_scale, approximation.log_marginal_likelihood()
            self.kept["torch"] = approximation

        def predict():
            found = self.kept["torch"]._glm_predictive_distribution(torch.tensor(self.some))[1]
            return np.diagonal(found.detach().numpy(), axis1=1, axis2=2)

        return {"fit": fit, "predict": predict}

    def laplaxs(self) -> dict[str, Callable]:
        """By laplax, around the same function."""
        network = lambda input, params: self.problem.outputs(  # noqa: E731
            cx.Variables(params, {}), input[None]
        )[0][0]
        data = {"input": jax.numpy.asarray(self.x), "target": jax.numpy.asarray(self.y)}

        def fit():
            make, curvature = laplax.laplace(
                network,
                self.variables.params,
                data,
                loss_fn="cross_entropy",
                curv_type="full",
                num_curv_samples=len(self.x),
                num_total_samples=len(self.x),
            )
            jax.block_until_ready(curvature)
            self.kept["laplax"] = pushforward.set_lin_pushforward(
                model_fn=network,
                mean_params=self.variables.params,
                posterior_fn=make,
                prior_arguments={"prior_prec": 10.0},
                pushforward_fns=[
                    pushforward.lin_setup,
                    pushforward.lin_pred_mean,
                    pushforward.lin_pred_var,
                ],
            )

        def predict():
            rows = jax.numpy.asarray(self.some)
            return np.asarray(jax.vmap(self.kept["laplax"])(rows)["pred_var"])

        return {"fit": fit, "predict": predict}


def measure_full(rounds: int, rows: int, predicted: int) -> None:
    """Fit all rows and predict some, each library in turn; the variances must agree."""
    case = FullCase(rows, predicted)
    makers = {"credax": case.ours("full"), "credax, kernel matrix": case.ours("functional")}
    if TorchLaplace is not None:
        makers["laplace-torch"] = case.torchs()
    if laplax is not None:
        from loguru import logger  # laplax reports every step

        logger.disable("laplax")
        makers["laplax"] = case.laplaxs()
    for part in ("fit", "predict"):
        runners = {name: each[part] for name, each in makers.items()}
        count = {"fit": rows, "predict": predicted}[part]
        title = f"Laplace, whole matrix of 1210 weights: {part} {count} rows"
        show(title, take_turns(runners, rounds), "credax")
    found = {name: each["predict"]() for name, each in makers.items()}
    for name, variances in found.items():
        away = np.max(np.abs(variances / found["credax"] - 1))
        print(f"{name}: variances of outputs at most {away:.1e} from credax's")


def main():
    """Parse the command line and run the parts."""
    import warnings

    warnings.simplefilter("ignore", NotConverged)  # random networks are at no mode
    parts = ("methods", "modes", "laplace", "full")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--modes", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--predicted", type=int, default=128)
    parser.add_argument("--networks", nargs="+", choices=("mlp", "cnn"), default=["mlp", "cnn"])
    chosen = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    print(
        "laplace-torch is not installed" if TorchLaplace is None else f"torch {torch.__version__}"
    )
    if laplax is None:
        print("laplax is not installed")
    if "methods" in chosen.parts:
        measure_methods(chosen.rounds, chosen.epochs, chosen.modes)
    if "modes" in chosen.parts:
        measure_modes(chosen.rounds, chosen.epochs, chosen.modes)
    if "laplace" in chosen.parts:
        measure_laplace(chosen.rounds, chosen.rows, chosen.predicted, chosen.networks)
    if "full" in chosen.parts:
        measure_full(chosen.rounds, min(chosen.rows, 256), chosen.predicted)


if __name__ == "__main__":
    main()
