"""Compiled kernels of random functions of elements, rows and groups equal the reference.

Values are small integers and scales are powers of two, so that results do not depend on
the order of operations.
"""

import numpy as np
import pytest
from support.random_functions import check

F32 = np.float32


@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed):
    check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_many_random_functions(block):
    for seed in range(100 * (block + 1), 100 * (block + 2)):
        check(seed)
