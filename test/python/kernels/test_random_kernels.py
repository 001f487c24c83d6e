"""Random functions of elements, rows and groups: compiled kernels give the reference's bits.

Numbers are small integers and scales powers of two, so that no order of operations shows.
"""

import numpy as np
import pytest
from support.random_functions import check

F32 = np.float32


@pytest.mark.parametrize("seed", range(60))
def test_some(seed):
    check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_many(block):
    for seed in range(100 * (block + 1), 100 * (block + 2)):
        check(seed)
