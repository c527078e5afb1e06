"""The image under its patches: whatever it is handed as, the page gets the same pixels, no larger than it needs."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError
from headwise.viewer import Grid


def pixels(grid: Grid) -> Tensor:
    """What the page is given, uint8 [h, w, 3]."""
    from PIL import Image

    data = grid.describe()["image"]
    assert data.startswith("data:image/png;base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))).convert("RGB")
    return torch.tensor(list(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3)


def test_tensors_arrays_and_pillows_images_give_the_same_pixels() -> None:
    from PIL import Image

    codes = torch.randint(0, 256, (14, 28, 3), dtype=torch.uint8)
    codes[0, 0], codes[0, 1] = 0, 255
    for image in (
        codes, codes.movedim(2, 0), codes.numpy(), codes.double() / 255, codes.movedim(2, 0).bfloat16().double() / 255,
        (codes.float() / 255).numpy(), Image.fromarray(codes.numpy()), (codes.movedim(2, 0).float() / 255 - 0.5) / 0.25,
    ):  # fmt: skip
        found = pixels(Grid(7, 14, image=image))
        assert (found.int() - codes.int()).abs().max() <= (1 if image is not codes else 0)


def test_grey_pictures_of_pillow_are_read_and_large_images_made_smaller() -> None:
    from PIL import Image

    grey = pixels(Grid(2, 2, image=Image.new("L", (8, 8), 77)))
    assert grey.unique().tolist() == [77]
    large = torch.zeros(3, 1000, 500)
    large[:, :500] = 1
    found = pixels(Grid(4, 2, image=large))
    assert found.shape == (384, 192, 3)
    assert found[:191].min() == 255 and found[193:].max() == 0


def test_without_an_image_nothing_is_said_of_one_and_grids_stay_values() -> None:
    assert "image" not in Grid(2, 2).describe()
    assert Grid(2, 2, image=torch.rand(3, 8, 8)) == Grid(2, 2) and hash(Grid(2, 2)) == hash(Grid(2, 2))
    assert "image" not in repr(Grid(2, 2, image=torch.rand(3, 8, 8)))
    x = torch.randn(1, 2, 4, 8)
    told = hw.view(hw.Pattern(x, x), tokens=Grid(2, 2, image=torch.rand(3, 8, 8))).scene.describe()
    assert told["axes"][0]["image"].startswith("data:image/png")


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("cat.png", r"the image is a str; it is a tensor .* Of a file: PIL\.Image\.open\(path\)"),
        (torch.rand(1, 3, 8, 8), "the image has other axes"),
        (torch.rand(4, 8, 8), "the image has other axes"),
        (torch.rand(3, 0, 8), "the image has other axes"),
        (torch.full((3, 8, 8), float("nan")), "numbers that are not finite"),
        (torch.zeros(3, 8, 8, dtype=torch.int64), r"it is torch\.int64; an image is uint8, or floats"),
        (np.array([["a"]]), "the image is an array of <U1"),
    ],
)
def test_what_is_no_image_is_one_sentence(image: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        Grid(2, 2, image=image)
    assert "\n" not in str(caught.value)
