#!/usr/bin/env python3
"""Breaks Binade in many small ways and checks that the quick tests notice each.

usage: mutation_test.py [--list] [--only TEXT]... [--work DIR] [--no-baseline]

Every entry of the table below is a change of one line: a sign in an adjoint, a dropped
cast, rounding toward zero. Each is made in a copy of the sources, which is built again
with what it needs; then the quick tests run until one fails. A change that no test
notices has survived: the exit status is 1, and a test is missing. An old text that does
not stand exactly once in its file is an error before anything is built.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time

from run_tests import find_lit

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Tests of the text of the sources: a mutation changes that, whatever it means.
NOT_OURS = ["test_house", "test_mutations"]
KILLED, SURVIVED, UNBUILT = "noticed", "SURVIVED", "DOES NOT BUILD"


@dataclasses.dataclass(frozen=True)
class Mutation:
    """`old` becomes `new` in `file`; `why` says what is wrong then."""

    file: str
    old: str
    new: str
    why: str


MUTATIONS = [
    # Adjoints.
    Mutation(
        "lib/IR/Ops/Contraction.cpp",
        "tr ? matmul(dc, lhs, true, tl) : matmul(lhs, dc, !tl, false)};",
        "tr ? matmul(dc, lhs, true, tl) : matmul(lhs, dc, tl, false)};",
        "matmul: the operand is not transposed in the gradient",
    ),
    Mutation(
        "lib/IR/Ops/Reduction.cpp",
        "return {spread(b, DivOp::create(b, dy, count), getX(), getAxes())};",
        "return {spread(b, MulOp::create(b, dy, count), getX(), getAxes())};",
        "reduce_mean: the gradient is multiplied by the count",
    ),
    Mutation(
        "lib/IR/Ops/Reduction.cpp",
        "Value share = DivOp::create(b, cotangents.front(), ties);",
        "Value share = cotangents.front();",
        "reduce_max: each of several equal maxima gets the whole gradient",
    ),
    Mutation(
        "lib/Autodiff/BuildGradient.cpp",
        "sum = sum ? AddOp::create(b, sum, gradient).getResult() : gradient;",
        "sum = gradient;",
        "gradients of a value with several uses are not added",
    ),
    Mutation(
        "lib/IR/Ops/Shape.cpp",
        "offsets[getAxis()] += getTensor(input).getDimSize(getAxis());",
        "offsets[getAxis()] = getTensor(input).getDimSize(getAxis());",
        "concat: the third operand's gradient begins at the wrong place",
    ),
    Mutation(
        "lib/IR/Ops/Convolution.cpp",
        "llvm::erase(axes, getAxes(rank, getChannelsLast()).first);",
        "llvm::erase(axes, getAxes(rank, false).first);",
        "conv: the bias gradient takes channels for the second axis",
    ),
    # What named gradients are made of.
    Mutation(
        "lib/IR/Ops/Normalization.cpp",
        "return SmallVector<Value>{n.as(n.mul(y, n.sub(dy, inner)), getDx())};",
        "return SmallVector<Value>{n.as(n.mul(y, n.add(dy, inner)), getDx())};",
        "softmax_grad: sign of the inner product",
    ),
    Mutation(
        "lib/IR/Ops/Normalization.cpp",
        "Value dx = n.mul(rstd, n.sub(n.sub(g, meanG), n.mul(normal, meanGN)));",
        "Value dx = n.mul(rstd, n.add(n.sub(g, meanG), n.mul(normal, meanGN)));",
        "layer_norm_grad: sign of the part through the variance",
    ),
    Mutation(
        "lib/IR/Ops/Normalization.cpp",
        "    dx = n.sub(dx, through);",
        "    dx = n.add(dx, through);",
        "batch_norm_grad: sign of the part through the statistics",
    ),
    Mutation(
        "lib/IR/Ops/Loss.cpp",
        "Value less = SubOp::create(b, p, buildSplat(b, type, 1.0));",
        "Value less = AddOp::create(b, p, buildSplat(b, type, 1.0));",
        "cross_entropy_grad: sign at the label",
    ),
    Mutation(
        "lib/IR/Ops/Attention.cpp",
        "MulOp::create(b, p, SubOp::create(b, dp, spreadRows(b, inner, dp)));",
        "MulOp::create(b, p, AddOp::create(b, dp, spreadRows(b, inner, dp)));",
        "attention_grad: sign of the inner product",
    ),
    Mutation(
        "lib/IR/Ops/Random.cpp",
        "double factor = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;",
        "double factor = p < 1.0 ? 1.0 / (1.0 + p) : 0.0;",
        "dropout: kept elements are scaled wrongly",
    ),
    # Programs beside the step.
    Mutation(
        "lib/Programs/AccumulateGradients.cpp",
        "op.setBatches(batches);",
        "op.setBatches(1);",
        "gradients of several batches are added, not averaged",
    ),
    Mutation(
        "lib/IR/Ops/Random.cpp",
        "  return {getX()};",
        "  return {getY()};",
        "dropout: evaluation drops, too",
    ),
    Mutation(
        "lib/Kernels/PackStorage.cpp",
        "pack({moving.begin(), later}, base));",
        "pack({moving.begin(), later}, 0));",
        "programs take the memory of what is kept",
    ),
    # Precision.
    Mutation(
        "lib/Precision/SimplifyCasts.cpp",
        "if (!source || !middle || !target || !holdsAll(middle, source))",
        "if (!source || !middle || !target)",
        "casts that round are dropped",
    ),
    Mutation(
        "lib/Precision/MaterializePrecision.cpp",
        "      value.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,",
        "      value.convert(format.getFloatSemantics(), APFloat::rmTowardZero,",
        "constants are rounded toward zero",
    ),
    Mutation(
        "lib/Precision/OperandRule.cpp",
        "      if (format != policy.narrow)",
        "      if (format == policy.narrow)",
        "the operand rule is reversed",
    ),
    Mutation(
        "lib/Conversion/ExpandCasts.cpp",
        "  IntLanes rounded = u + 0x7fff + ((u >> 16) & 1);",
        "  IntLanes rounded = u + 0;",
        "f32 to bf16 rounds toward zero",
    ),
    Mutation(
        "lib/Reference/FloatFormat.cpp",
        "std::nearbyint(std::fabs(x) / spacing) * spacing;",
        "std::trunc(std::fabs(x) / spacing) * spacing;",
        "the reference rounds toward zero",
    ),
    # Optimizers and the loss scale.
    Mutation(
        "lib/Optimizer/Rules/adamw.mlir",
        "  %m_step = arith.mulf %w1, %dm : f32",
        "  %m_step = arith.mulf %beta2, %dm : f32",
        "adamw: the wrong weight of the first moment",
    ),
    Mutation(
        "lib/Optimizer/Rules/sgd.mlir",
        "  %m_kept = arith.mulf %momentum, %m : f32",
        "  %m_kept = arith.mulf %momentum, %g : f32",
        "sgd: the gradient in place of the momentum",
    ),
    Mutation(
        "lib/Optimizer/AppendOptimizer.cpp",
        "next = SelectOp::create(b, foundInf, step, next);",
        "next = SelectOp::create(b, foundInf, next, next);",
        "a skipped step is counted",
    ),
    Mutation(
        "lib/Optimizer/AppendOptimizer.cpp",
        "Value factor = MinOp::create(b, DivOp::create(b, limit, shifted), one);",
        "Value factor = MaxOp::create(b, DivOp::create(b, limit, shifted), one);",
        "clipping lengthens gradients",
    ),
    Mutation(
        "lib/IR/Ops/LossScaling.cpp",
        "Value grown = times(getGrowth()), lowered = times(getBackoff());",
        "Value grown = times(getGrowth()), lowered = times(getGrowth());",
        "the loss scale grows after an overflow",
    ),
    Mutation(
        "lib/IR/Ops/LossScaling.cpp",
        "    lowered = SelectOp::create(b, last, lowered, scale);",
        "    lowered = SelectOp::create(b, last, scale, lowered);",
        "the first of several overflows lowers the loss scale",
    ),
    # Kernels.
    Mutation(
        "lib/Kernels/Grouping.cpp",
        "    if (host.phase != guest.phase)",
        "    if (false && host.phase != guest.phase)",
        "kernels reach from the forward into the backward part",
    ),
    Mutation(
        "lib/Conversion/Kernel/Scatter.cpp",
        "        sum = arith::AddFOp::create(e.builder(), sum, term);",
        "        sum = term;",
        "rows that are used twice keep one of their gradients",
    ),
    Mutation(
        "lib/Conversion/Kernel/ManyTensors.cpp",
        "      lanes = arith::AddFOp::create(b, part(0), part(half));",
        "      lanes = arith::AddFOp::create(b, part(0), part(0));",
        "the gradient norm misses half of the lanes",
    ),
    Mutation(
        "lib/Conversion/Kernel/ParameterStorage.cpp",
        "  return {sum, subtract(gained, y)};",
        "  return {sum, subtract(y, gained)};",
        "Kahan's compensation has the wrong sign",
    ),
    Mutation(
        "lib/Runtime/ParameterStorage.cpp",
        "    return upper + (getLowHalf(value) < 0 ? 1 : 0);",
        "    return upper;",
        "the first step reads weights that are cut, not rounded",
    ),
    Mutation(
        "lib/Runtime/ConvertCheckpoint.cpp",
        "  program.keep(port, values);",
        "  storeRounded(values, std::nullopt, tensor);",
        "a converted parameter loses what is kept beside it",
    ),
    Mutation(
        "lib/Kernels/PackStorage.cpp",
        "storage.first <= other.last)",
        "storage.first < other.last)",
        "a result lies where the last operand still is",
    ),
    Mutation(
        "lib/Conversion/SmallFloats.cpp",
        "(magnitude + ((magnitude >> cut) & 1) + added)",
        "(magnitude + 1 + added)",
        "ties of 8-bit formats go up",
    ),
    Mutation(
        "lib/IR/Quantized.cpp",
        "if (isSigned() && above == 0.0f)",
        "if (!isSigned() && above == 0.0f)",
        "tiny negative numbers become zero in books with a sign",
    ),
    Mutation(
        "lib/Conversion/LaneCodec.cpp",
        "FloatLanes steps = ((top / distance) * kSteps).apply<math::FloorOp>();",
        "FloatLanes steps = ((top / distance) * kSteps).apply<math::CeilOp>();",
        "powers of expanded formats are rounded up",
    ),
    Mutation(
        "lib/Conversion/Kernel/StateGroups.cpp",
        "Value most = arith::AddIOp::create(b, count, e.index(state.size - 1));",
        "Value most = arith::AddIOp::create(b, count, e.index(0));",
        "the last, short group of a state gets no scale",
    ),
    Mutation(
        "lib/Precision/PrecisionGraph.cpp",
        "quantizes = parameter.getNumElements() >= kLeastQuantized &&",
        "quantizes = parameter.getNumElements() >= kLeastQuantized ||",
        "states of embeddings are quantized",
    ),
    # Last, because everything is built again.
    Mutation(
        "include/binade/IR/Ops/Elementwise.td",
        "let adjoint = [{ return {dy, NegOp::create(b, dy)}; }];",
        "let adjoint = [{ return {dy, dy}; }];",
        "sub: no sign in the gradient of what is subtracted",
    ),
    # Rows, and groups in them.
    Mutation(
        "lib/Kernels/Grouping.cpp",
        "readsOwnRows(op, input) && (",
        "(",
        "a row's kernel hands out what other rows have",
    ),
    Mutation(
        "lib/Conversion/Kernel/WalkPlan.h",
        "return !groupStores.empty() ||",
        "return",
        "results of groups are not stored where no group is reduced",
    ),
    # Scales and codes that wait.
    Mutation(
        "lib/Conversion/LaneCodec.cpp",
        "    return (amax + kOffset) / limit;",
        "    return amax / limit;",
        "the scale of TorchAO's moments without what keeps it above 0",
    ),
    Mutation(
        "lib/Conversion/LaneCodec.cpp",
        "bits + 0x003fffff, bits + 0x007fffff);",
        "bits + 0x003fffff, bits);",
        "power-of-two scales are not rounded up",
    ),
    Mutation(
        "lib/Conversion/Kernel/Reduction.cpp",
        "!isa<ReduceSumOp>(op) && getInput().getDefiningOp<AbsOp>()",
        "!isa<ReduceSumOp>(op)",
        "the largest of numbers with a sign is taken by their bits",
    ),
    Mutation(
        "lib/Precision/DelayScales.cpp",
        "SelectOp::create(b, isUsable, largest, amax)});",
        "largest});",
        "an infinity stays in the history of scales",
    ),
    Mutation(
        "lib/Precision/DelayScales.cpp",
        "b, own, ReduceMaxOp::create(b, history, ArrayRef<int64_t>{0}));",
        "b, own, own);",
        "only the last step counts for delayed scales",
    ),
    # What waits for the backward part.
    Mutation(
        "lib/Precision/ChooseSaved.cpp",
        "        return !spreads;",
        "        return spreads;",
        "values whose errors enter several gradients are quantized first",
    ),
    Mutation(
        "lib/Precision/ChooseSaved.cpp",
        "if (left - value->getBytesLeft() + value->bytes <= budget)",
        "if (left <= budget)",
        "what a budget gave up is kept again though it does not fit",
    ),
    Mutation(
        "lib/Precision/Reach.cpp",
        "reach.add(known == reached.end() ? Reach{result} : known->second);",
        "reach.add(Reach{result});",
        "errors are not followed to the gradients",
    ),
    # Rules that are derived.
    Mutation(
        "lib/Programs/MomentumRule.cpp",
        "arith::SelectOp::create(b, begins, root, more);",
        "arith::SelectOp::create(b, begins, more, more);",
        "the first batch is added to the sum of the step before",
    ),
    Mutation(
        "lib/Programs/MomentumRule.cpp",
        "if (!isChoice(select.getCondition()))",
        "if (false)",
        "rules that choose by what changes from batch to batch are taken for sums",
    ),
    Mutation(
        "lib/Optimizer/CapUpdates.cpp",
        "AndOp::create(b, isLonger, isCapped),",
        "isLonger,",
        "a cap of 0 holds tensors of zeros where they are",
    ),
]


def check_table(root: pathlib.Path) -> list[str]:
    """What is wrong with the table: texts that are not there exactly once."""
    problems = []
    for mutation in MUTATIONS:
        count = (root / mutation.file).read_text().count(mutation.old)
        if count != 1:
            problems.append(
                f"{mutation.file}: expected once, found {count} times: {mutation.old}"
            )
        if "\n" in mutation.old + mutation.new or mutation.old == mutation.new:
            problems.append(f"{mutation.file}: not a change of one line")
    return problems


class Copy:
    """A copy of the sources with a build of its own."""

    def __init__(self, folder: pathlib.Path):
        self.root = (folder / "tree").resolve()
        self.build = self.root / "build/release"
        self.log = folder / "log.txt"
        self.environment = dict(
            os.environ,
            BINADE_BUILD=str(self.build),
            CCACHE_BASEDIR=str(self.root),
            CCACHE_NOHASHDIR="1",
        )
        # Mutants share no cache of kernels with one another or with the user.
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")
        models = os.environ.get("BINADE_MODELS", ROOT.parent / "shared/models")
        self.environment["BINADE_MODELS"] = str(pathlib.Path(models).resolve())

    def run(self, *command: object) -> bool:
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            return not subprocess.run(
                [str(part) for part in command],
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode

    def update(self) -> bool:
        """Brings the copy to the state of the sources, and builds it."""
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            source, target = ROOT / name, self.root / name
            if not source.is_file():
                continue
            if target.exists() and source.read_bytes() == target.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        if not (self.root / ".venv").exists() and (ROOT / ".venv").exists():
            (self.root / ".venv").symlink_to(ROOT / ".venv")
        # Tests list files with git.
        if not self.run("git", "init", "-q") or not self.run("git", "add", "-A"):
            return False
        return self.run("cmake", "--preset", "release") and self.make()

    def make(self) -> bool:
        return self.run("ninja", "-C", self.build, "all", "binade-tests")

    def find_failure(self) -> str:
        """Which of the quick tests fails first; empty when all pass."""
        if not self.run(
            find_lit(self.build), "-q", "--max-failures=1", "--param", "quick=1",
            self.build / "test",
        ):  # fmt: skip
            return "lit"
        for program in sorted((self.build / "unittests").glob("*Tests")):
            if not self.run(program, "--gtest_filter=-*Slow*:*Nightly*",
                            "--gtest_brief=1", "--gtest_fail_fast"):  # fmt: skip
                return program.name
        if not self.run(
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
            "-m", "not slow and not nightly", *(f"--ignore=test/python/{name}.py" for name in NOT_OURS),
            "test/python",
        ):  # fmt: skip
            return "pytest"
        return ""

    def judge(self, mutation: Mutation) -> tuple[str, str]:
        """Whether the tests notice the mutation, and by what."""
        path = self.root / mutation.file
        good = path.read_text()
        path.write_text(good.replace(mutation.old, mutation.new))
        try:
            if not self.make():
                return UNBUILT, ""
            failure = self.find_failure()
            return (KILLED, failure) if failure else (SURVIVED, "")
        finally:
            path.write_text(good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the table and stop")
    parser.add_argument(
        "--only", action="append", metavar="TEXT",
        help="mutations that contain this text; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--work", default=ROOT / "build/mutation", type=pathlib.Path,
        help="where the copy lives; kept for the next run",
    )  # fmt: skip
    parser.add_argument(
        "--no-baseline", action="store_true",
        help="believe that the tests pass without a mutation",
    )  # fmt: skip
    args = parser.parse_args()
    if problems := check_table(ROOT):
        print("\n".join(problems), file=sys.stderr)
        return 2
    chosen = [
        mutation
        for mutation in MUTATIONS
        if any(text in f"{mutation.file} {mutation.why}" for text in args.only or [""])
    ]
    if args.list:
        for mutation in chosen:
            print(f"{mutation.file}: {mutation.why}")
        return 0

    args.work.mkdir(parents=True, exist_ok=True)
    copy = Copy(args.work.resolve())
    copy.log.write_text("")
    if not copy.update():
        print(f"the copy does not build; see {copy.log}", file=sys.stderr)
        return 2
    if not args.no_baseline and (failure := copy.find_failure()):
        print(f"{failure} fails without a mutation; see {copy.log}", file=sys.stderr)
        return 2
    outcomes = []
    for mutation in chosen:
        start = time.monotonic()
        outcome, by = copy.judge(mutation)
        outcomes.append(outcome)
        print(
            f"{outcome:14} {by:24} {time.monotonic() - start:4.0f} s  "
            f"{mutation.file}: {mutation.why}",
            flush=True,
        )
    copy.make()  # The next run begins with a sound copy.
    print(f"{outcomes.count(KILLED)} of {len(outcomes)} mutations noticed")
    return 0 if outcomes and set(outcomes) == {KILLED} else 1


if __name__ == "__main__":
    sys.exit(main())
