"""Where tests of the kernels run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@needs_cuda
class OnTheDevice:
    """Tests of what only a CUDA device can tell."""

    device = torch.device("cuda")

    @pytest.fixture(autouse=True)
    def free(self) -> Iterator[None]:
        """Memory goes back after each test."""
        yield
        torch.cuda.empty_cache()
